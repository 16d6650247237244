"""Markdown tables of measurements, as `median (minimum to maximum)`, and thresholds for their medians."""

from __future__ import annotations

import statistics
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence


@dataclass(frozen=True, slots=True)
class Threshold:
    """A bound, and whether the median of the measurements keeps it. `why`: what prevents it, if that is known."""

    figure: str
    wanted: str
    found: str
    met: bool
    why: str = ""


@dataclass(frozen=True, slots=True)
class Table:
    """A table with a title, a note on how it was measured, and thresholds."""

    title: str
    note: str
    head: Sequence[str]
    rows: Sequence[Sequence[str]]
    thresholds: Sequence[Threshold] = ()

    def markdown(self) -> str:
        """The table as text, in columns of equal width."""
        return f"### {self.title}\n\n{self.note}\n\n{_aligned(self.head, self.rows)}"


def spread(values: Sequence[float]) -> str:
    """`median (least to greatest)`, with as many digits as it is worth; the median alone if there is but one value."""
    middle = statistics.median(values)
    if len(values) == 1:
        return number(middle)
    return f"{number(middle)} ({number(min(values))} to {number(max(values))})"


def number(value: float) -> str:
    """Three or four digits."""
    for least, digits in ((100, 0), (10, 1), (1, 2)):
        if abs(value) >= least:
            return f"{value:,.{digits}f}"
    return f"{value:.3f}"


def percentile(ordered: Sequence[float], part: float) -> float:
    """The value below which `part` of `ordered` lies."""
    return ordered[min(len(ordered) - 1, int(len(ordered) * part))]


def _aligned(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    widths = [max(len(cell) for cell in column) for column in zip(head, *rows, strict=True)]
    rule = ["-" * width for width in widths]
    return "".join(
        "| " + " | ".join(cell.ljust(width) for cell, width in zip(cells, widths, strict=True)) + " |\n"
        for cells in (head, rule, *rows)
    )


def at_least(figure: str, bound: float, found: Sequence[float], why: str = "") -> Threshold:
    """The median must not be below the bound."""
    median = statistics.median(found)
    return Threshold(figure, f"at least {bound:,g}", number(median), median >= bound, why)


def at_most(figure: str, bound: float, found: Sequence[float], why: str = "") -> Threshold:
    """The median must not be above the bound."""
    median = statistics.median(found)
    return Threshold(figure, f"at most {bound:,g}", number(median), median <= bound, why)


def thresholds_table(thresholds: Sequence[Threshold]) -> str:
    """A Markdown table of thresholds for the medians. Those that are missed come first."""
    return _aligned(
        ("threshold", "wanted", "found", ""),
        [
            (
                threshold.figure,
                threshold.wanted,
                threshold.found,
                "" if threshold.met else f"**missed** {threshold.why}".strip(),
            )
            for threshold in sorted(thresholds, key=lambda threshold: threshold.met)
        ],
    )
