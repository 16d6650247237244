"""Tables and text on a terminal: calm, without boxes, as wide as the terminal and as long as need be elsewhere."""

from __future__ import annotations

import re
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from rich.text import Text

from wakeboard.rules.sanitize import one_line

if TYPE_CHECKING:
    from rich.console import Console

GAP = "  "
_LINE_END = re.compile(r"[\n\x0b-\x0d\x1c-\x1e\x85\u2028\u2029]")
LEAST = 8  # columns that a narrowed cell keeps
ENDLESS = 1_000_000  # columns of what is no terminal

STYLES = {
    "ok": "green",
    "warn": "yellow",
    "fail": "bold red",
    "running": "bold",
    "failed": "yellow",
    "in doubt": "yellow",
    "paused": "yellow",
    "suspended": "yellow",
    "stalled": "red",
    "dead": "red",
    "crashed": "red",
    "timed_out": "red",
    "succeeded": "green",
    "done": "green",
    "cancelled": "dim",
    "skipped": "dim",
    "discarded": "dim",
}


@dataclass(frozen=True, slots=True)
class Column:
    """A column and its heading. `narrows`: it is cut with "…" where the terminal is not wide enough for all."""

    heading: str
    right: bool = False
    narrows: bool = False


def word(text: str) -> Text:
    """A status or another word that has a colour."""
    return Text(text, STYLES.get(text, ""))


def table(columns: Sequence[Column], rows: Sequence[Sequence[str | Text]], width: int) -> list[Text]:
    """Lines of at most `width` columns (if the cells that narrow allow it), a heading first."""
    cells = [[Text(one_line(cell)) if isinstance(cell, str) else _unbroken(cell) for cell in row] for row in rows]
    headings = [Text(column.heading, "bold") for column in columns]
    widths = _widths(columns, [headings, *cells], width)
    return [_line(columns, row, widths) for row in [headings, *cells]]


def _widths(columns: Sequence[Column], rows: Sequence[Sequence[Text]], width: int) -> list[int]:
    widths = [max(row[at].cell_len for row in rows) for at in range(len(columns))]
    excess = sum(widths) + len(GAP) * (len(widths) - 1) - width
    narrowing = [at for at, column in enumerate(columns) if column.narrows]
    while excess > 0 and narrowing:
        widest = max(narrowing, key=lambda at: widths[at])
        if widths[widest] <= LEAST:
            break
        widths[widest] -= 1
        excess -= 1
    return widths


def _line(columns: Sequence[Column], row: Sequence[Text], widths: Sequence[int]) -> Text:
    line = Text(end="")
    for at, (column, cell, room) in enumerate(zip(columns, row, widths, strict=True)):
        shown = cell.copy()
        shown.truncate(room, overflow="ellipsis")
        pad = " " * (room - shown.cell_len)
        last = at == len(columns) - 1
        line.append(pad if column.right else "")
        line.append_text(shown)
        line.append("" if column.right or last else pad)
        line.append("" if last else GAP)
    line.rstrip()
    return line


def _unbroken(line: Text) -> Text:
    """The line without line ends, which would forge a second one."""
    if len(line.plain.splitlines()) > 1:
        line = line.copy()
        line.plain = _LINE_END.sub(" ", line.plain)
    return line


def console() -> Console:
    """Standard output. Colours only on a terminal, and not where NO_COLOR is set."""
    from wakeboard.local.safe_console import SafeConsole

    return SafeConsole(soft_wrap=True)


def width() -> int:
    """Columns of the terminal; endless where standard output is none, so that nothing is cut in a pipe."""
    return console().width if sys.stdout.isatty() else ENDLESS


def print_lines(lines: Sequence[Text | str]) -> None:
    """Prints each as one line."""
    out = console()
    for line in lines:
        out.print(_unbroken(Text(line) if isinstance(line, str) else line))


def print_table(columns: Sequence[Column], rows: Sequence[Sequence[str | Text]]) -> None:
    """Prints a table."""
    print_lines(table(columns, rows, width()))
