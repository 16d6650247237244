"""The rows of `wakeboard check`: the problems of each check, or what it measured. Pure functions."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Literal

from wakeboard.health.conditions import CONDITIONS

if TYPE_CHECKING:
    from collections.abc import Iterator

    from wakeboard.health.problems import HealthCondition, Severity
    from wakeboard.health.queries.facts import Health

Level = Literal["ok", "warn", "fail"]
LEVELS: Final[dict[Severity | None, Level]] = {"bad": "fail", "warn": "warn", "note": "ok"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """A result of a check. `level`: ok, warn or fail. `hint`: what to do, or null if nothing is wrong."""

    level: Level
    check: str
    message: str
    hint: str | None = None


def findings(health: Health) -> Iterator[Finding]:
    """The findings of all checks: of each its problems, or else one that says what it measured or looked for."""
    checks: dict[str, list[HealthCondition]] = {}
    for condition in CONDITIONS:
        checks.setdefault(condition.check, []).append(condition)
    for check, conditions in checks.items():
        found = [problem for condition in conditions for problem in condition.problems(health)]
        for each in found:
            yield Finding(level=LEVELS[each.severity], check=check, message=each.text, hint=each.hint)
        if not found and (message := next(_right(conditions, health))):
            yield Finding(level="ok", check=check, message=message)


def _right(conditions: list[HealthCondition], health: Health) -> Iterator[str]:
    yield from (condition.right(health) for condition in conditions if condition.right)
    yield f"No {' or '.join(condition.name for condition in conditions)}."
