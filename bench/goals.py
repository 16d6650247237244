"""What the figures were to reach: docs/benchmarks.md says of each whether it does."""

from __future__ import annotations

import statistics
from dataclasses import dataclass
from typing import TYPE_CHECKING

from bench.tables import Table, number

if TYPE_CHECKING:
    from collections.abc import Sequence


@dataclass(frozen=True, slots=True)
class Goal:
    """A bound, and the median of what was found. `why`: what keeps it from the bound, where that is known."""

    what: str
    wanted: str
    found: str
    met: bool
    why: str = ""


def at_least(what: str, bound: float, found: Sequence[float], why: str = "") -> Goal:
    """The median must not lie below the bound."""
    middle = statistics.median(found)
    return Goal(what, f"at least {bound:,g}", number(middle), middle >= bound, why)


def at_most(what: str, bound: float, found: Sequence[float], why: str = "") -> Goal:
    """The median must not lie above the bound."""
    middle = statistics.median(found)
    return Goal(what, f"at most {bound:,g}", number(middle), middle <= bound, why)


def goals_table(goals: Sequence[Goal]) -> Table:
    """All of them, those that were missed first."""
    missed = sum(not goal.met for goal in goals)
    return Table(
        title="What was to be reached",
        note=f"{len(goals)} bounds, {len(goals) - missed} kept by the median of what was measured, {missed} missed.",
        head=("figure", "wanted", "found", ""),
        rows=[
            (goal.what, goal.wanted, goal.found, "" if goal.met else f"**missed** {goal.why}".strip())
            for goal in sorted(goals, key=lambda goal: goal.met)
        ],
    )
