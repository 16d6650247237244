"""What a condition of health is, and its problems. `conditions.py` has them all. No I/O, no clock.

`bad`: runs do not run, or will not; `wakeboard check` fails. `warn`: an administrator should look. `note`: worth
knowing, but intended or long known; `wakeboard check` says ok.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from datetime import timedelta
from typing import TYPE_CHECKING, Final, Literal, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping
    from datetime import datetime

    from wakeboard.health.queries.facts import Health

Severity: TypeAlias = Literal["bad", "warn", "note"]
Find: TypeAlias = "Callable[[Health], Iterable[Problem | str]]"

MAX_PROBLEMS: Final = 5  # of one condition


@dataclass(frozen=True, slots=True)
class Problem:
    """What is wrong now, in a sentence.

    `since`: when it began; None: that does not matter. `severity` None, `remedy` "": those of its condition. `command`:
    what to type, after the remedy. `path` and `parameters`: the page with what is concerned, inside the board. `alert`:
    the open alert that is about it. `count`: how many problems it stands for; 0: an alert that is counted is about it.
    `check`: the row of `wakeboard check` that reports it.
    """

    text: str
    remedy: str = ""
    since: datetime | None = None
    severity: Severity | None = None
    command: str = ""
    path: str = ""
    parameters: Mapping[str, str] = field(default_factory=dict[str, str])
    alert: str = ""
    count: int = 1
    check: str = ""

    @property
    def hint(self) -> str:
        """What to do, and what to type."""
        return f"{self.remedy} `{self.command}`" if self.command else self.remedy

    @property
    def colour(self) -> Severity | None:
        """The severity whose colour it has: dead runs have one colour on all pages."""
        return "bad" if self.check == "dead runs" and self.severity == "warn" else self.severity


@dataclass(frozen=True, slots=True)
class Metric:
    """A gauge of the operator. `label`: the name of its only label; then `value` returns a value for each label."""

    name: str
    help: str
    value: Callable[[Health], float | dict[str, float]]
    label: str = ""


@dataclass(frozen=True, slots=True)
class HealthCondition:
    """Something that can be wrong. It is reported once it has lasted for `after`. Decorates its function.

    `check`: the row of `wakeboard check` that reports it. `bad_after`: it is bad from then on, before that `severity`.
    `note_after`: it is a note from then on. `alert`: the condition of alert rules that watches the same. `right`: what
    the check measured if nothing is wrong. `find`: the problems, the most important first.
    """

    check: str
    severity: Severity
    after: timedelta = timedelta()
    bad_after: timedelta | None = None
    note_after: timedelta | None = None
    metric: Metric | None = None
    alert: str = ""
    right: Callable[[Health], str] | None = None
    find: Find = lambda _: ()

    def __call__(self, find: Find) -> Find:
        """Adds it to REGISTERED."""
        REGISTERED.append(replace(self, find=find))
        return find

    @property
    def name(self) -> str:
        """What its problems are, in the plural."""
        return self.find.__name__.replace("_", " ")

    @property
    def remedy(self) -> str:
        """What to do."""
        return " ".join((self.find.__doc__ or "").split())

    def severity_after(self, lasting: timedelta) -> Severity | None:
        """How bad it is when it has lasted this long; None: it is not reported."""
        if lasting < self.after:
            return None
        if self.bad_after is not None and lasting >= self.bad_after:
            return "bad"
        return "note" if self.note_after is not None and lasting >= self.note_after else self.severity

    def problems(self, health: Health) -> list[Problem]:
        """Its problems; of many the first five, and that there are more."""
        found: list[Problem] = []
        for each in self.find(health):
            problem = Problem(each) if isinstance(each, str) else each
            lasting = health.now - problem.since if problem.since else self.after
            if severity := problem.severity or self.severity_after(lasting):
                remedy = problem.remedy or self.remedy
                found.append(replace(problem, severity=severity, check=self.check, remedy=remedy))
        shown, others = found[:MAX_PROBLEMS], found[MAX_PROBLEMS:]
        if others:
            shown.append(replace(min(others, key=severity_order), text=f"There are more {self.name}.", command=""))
        return shown


REGISTERED: Final[list[HealthCondition]] = []


def severity_order(problem: Problem) -> int:
    """A key that sorts the worst first."""
    return ("bad", "warn", "note").index(problem.severity or "note")
