"""Prints docs/alerts.md with the current table of the conditions in it."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Final

from wakeboard.alerts.rules.conditions import CONDITIONS

if TYPE_CHECKING:
    from wakeboard.alerts.rules.conditions import AlertCondition

PAGE: Final = Path(__file__).resolve().parents[1] / "docs" / "alerts.md"
HEADING: Final = "\n| condition | the rule fires when |\n|---|---|\n"


def row(condition: AlertCondition) -> str:
    """Its example and what that means."""
    fields = (f"`{name}`" if name == "where" else f"`{name}: {value}`" for name, value in condition.example.items())
    return f"| {' with '.join(fields)} | {condition.fires_when} |\n"


if __name__ == "__main__":
    before, heading, rest = PAGE.read_text("utf-8").partition(HEADING)
    assert heading, "the page has a table of conditions"
    after = rest.partition("\n\n")[2]
    print(before, HEADING, *map(row, CONDITIONS), "\n", after, sep="", end="")
