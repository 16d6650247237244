"""Prints docs/troubleshooting.md with the current table of the conditions of health in it."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Final

from wakeboard.health.conditions import CONDITIONS

if TYPE_CHECKING:
    from wakeboard.health.problems import HealthCondition

PAGE: Final = Path(__file__).resolve().parents[1] / "docs" / "troubleshooting.md"
HEADING: Final = "\n| check | reports | what to do | metric | alert rule |\n|---|---|---|---|---|\n"


def row(condition: HealthCondition) -> str:
    """What it reports, and where else that shows."""
    metric = f"`{condition.metric.name}`" if condition.metric else ""
    alert = f"`{condition.alert}`" if condition.alert else ""
    return f"| {condition.check} | {condition.name} | {condition.remedy} | {metric} | {alert} |\n"


if __name__ == "__main__":
    before, heading, rest = PAGE.read_text("utf-8").partition(HEADING)
    assert heading, "the page has a table of conditions"
    after = rest.partition("\n\n")[2]
    print(before, HEADING, *map(row, CONDITIONS), "\n", after, sep="", end="")
