"""Reads the payload of the job type `job`: which CronJob, and what to override in its container."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, cast

from wakeboard.errors import Discard
from wakeboard.schedules.rules.builtin_payloads import payload_problem

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

VARIABLE: Final = r"[A-Za-z_][A-Za-z0-9_.-]*"
OWN_PREFIX: Final = "WAKEBOARD_"


@dataclass(frozen=True, slots=True)
class JobPayload:
    """A CronJob's name, and the overrides of its container. `args` None: those of the template."""

    cron_job: str
    env: Mapping[str, str] = field(default_factory=dict[str, str])
    args: Sequence[str] | None = None


def payload_of(payload: Any, *, allow_overrides: bool) -> JobPayload:
    """Returns the payload. Raises Discard with one sentence that says what to write."""
    if problem := payload_problem("job", payload):
        raise Discard(problem)
    given = cast("dict[str, Any]", payload)
    if (given.get("env") or given.get("args") is not None) and not allow_overrides:
        raise Discard(
            "this pool lets no payload override env or args: change the CronJob, or set WAKEBOARD_JOBS_ALLOW_OVERRIDES"
        )
    return JobPayload(given["cronJob"], _env(given.get("env") or {}), _args(given.get("args")))


def _env(variables: Mapping[str, Any]) -> dict[str, str]:
    for name in variables:
        if not re.fullmatch(VARIABLE, name) or name.upper().startswith(OWN_PREFIX):
            raise Discard(f"a payload cannot set the variable {name[:80]!r}; write another name")
    return {name: _text(value, f"env.{name[:80]}") for name, value in variables.items()}


def _args(given: Sequence[Any] | None) -> list[str] | None:
    return None if given is None else [_text(value, "an element of args") for value in given]


def _text(value: Any, what: str) -> str:
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        raise Discard(f"{what} must be a text or a number; a Secret belongs in the CronJob (valueFrom.secretKeyRef)")
    return str(value)
