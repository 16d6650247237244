"""Markdown tables: median (least to greatest) of what was measured."""

from __future__ import annotations

import statistics
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from bench.goals import Goal


@dataclass(frozen=True, slots=True)
class Table:
    """A titled table, and what a reader must know about it."""

    title: str
    note: str
    head: Sequence[str]
    rows: Sequence[Sequence[str]]
    goals: Sequence[Goal] = ()

    def markdown(self) -> str:
        """The table as text, in columns of equal width."""
        widths = [max(len(cell) for cell in column) for column in zip(self.head, *self.rows, strict=True)]
        rule = ["-" * width for width in widths]
        lines = (_line(cells, widths) for cells in (self.head, rule, *self.rows))
        return f"### {self.title}\n\n{self.note}\n\n" + "\n".join(lines) + "\n"


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


def _line(cells: Sequence[str], widths: Sequence[int]) -> str:
    return "| " + " | ".join(cell.ljust(width) for cell, width in zip(cells, widths, strict=True)) + " |"
