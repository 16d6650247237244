"""Formats and prints tables and coloured lines, without borders.

On a terminal, tables are as wide as the terminal. In a pipe nothing is truncated. rich is imported when something is
printed, because importing it is slow.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeVar

from wakeboard.cli.support.output import print_json, print_message
from wakeboard.text.sanitize import one_line

if TYPE_CHECKING:
    from collections.abc import Callable

    from rich.console import Console
    from rich.text import Text

GAP = "  "
READABLE_WIDTH = 20  # of a truncated cell, while the others can be truncated, too
MIN_WIDTH = 8  # of a truncated cell
UNLIMITED = 1_000_000  # width where standard output is not a terminal
_Row = TypeVar("_Row")
_LINE_END = re.compile(r"[\n\x0b-\x0d\x1c-\x1e\x85\u2028\u2029]")

STYLES = {
    "ok": "green",
    "warn": "yellow",
    "fail": "bold red",
    "running": "bold",
    "failed": "yellow",
    "in doubt": "yellow",
    "paused": "yellow",
    "suspended": "yellow",
    "blocked": "yellow",
    "circuit open": "red",
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
    """A column and its heading.

    `shrinks`: it is truncated with "…" if the terminal is too narrow. The first such column, the name, comes last.
    """

    heading: str
    right: bool = False
    shrinks: bool = False


def styled(word: str, rest: str = "") -> Text:
    """A status in its colour, and the rest of the text without one."""
    from rich.text import Text

    return Text().append(word, STYLES.get(word, "")).append(rest)


def table(columns: Sequence[Column], rows: Sequence[Sequence[str | Text]], width: int) -> list[Text]:
    """The heading and the rows as lines of at most `width` columns, if the columns that shrink allow it."""
    from rich.cells import cell_len
    from rich.text import Text

    cells = [[one_line(cell) if isinstance(cell, str) else _on_one_line(cell) for cell in row] for row in rows]
    headings = [Text(column.heading, "bold") for column in columns]
    lines = [headings, *cells]
    lengths = [[cell_len(cell) if isinstance(cell, str) else cell.cell_len for cell in row] for row in lines]
    widths = _widths(columns, lengths, width)
    return [_line(columns, row, row_lengths, widths) for row, row_lengths in zip(lines, lengths, strict=True)]


def _widths(columns: Sequence[Column], lengths: Sequence[Sequence[int]], width: int) -> list[int]:
    widths = [max(of_column) for of_column in zip(*lengths, strict=True)]
    excess = sum(widths) + len(GAP) * (len(widths) - 1) - width
    shrinking = [at for at, column in enumerate(columns) if column.shrinks]
    others, name = shrinking[:0:-1], shrinking[:1]
    for at, least in [*((at, READABLE_WIDTH) for at in others), *((at, MIN_WIDTH) for at in [*others, *name])]:
        cut = max(0, min(excess, widths[at] - least))
        widths[at] -= cut
        excess -= cut
    return widths


def _line(columns: Sequence[Column], row: Sequence[str | Text], lengths: Sequence[int], widths: Sequence[int]) -> Text:
    from rich.text import Text

    parts: list[Text | str] = []
    for column, cell, cell_length, width in zip(columns, row, lengths, widths, strict=True):
        shown, length = cell, cell_length
        if length > width:
            shown = Text(cell) if isinstance(cell, str) else cell.copy()
            shown.truncate(width, overflow="ellipsis")
            length = shown.cell_len
        padding = " " * (width - length)
        parts += [padding, shown, GAP] if column.right else [shown, padding, GAP]
    texts = [part for part in parts if isinstance(part, str)]
    line = Text("".join(texts), end="") if len(texts) == len(parts) else Text.assemble(*parts, end="")
    line.rstrip()
    return line


def _on_one_line(line: Text) -> Text:
    """The text with line ends replaced by spaces: a value must not forge a second line."""
    if len(line.plain.splitlines()) > 1:
        line = line.copy()
        line.plain = _LINE_END.sub(" ", line.plain)
    return line


def console() -> Console:
    """Standard output, coloured only on a terminal and without NO_COLOR."""
    from wakeboard.process.safe_console import SafeConsole

    return SafeConsole(soft_wrap=True)


def terminal_width() -> int:
    """Columns of the terminal, or UNLIMITED if standard output is not a terminal."""
    return console().width if sys.stdout.isatty() else UNLIMITED


def print_lines(lines: Sequence[Text | str]) -> None:
    """Prints each item on one line."""
    from rich.text import Text

    if lines:  # at once: a fifth of the time
        console().print(Text("\n").join(_on_one_line(Text(line) if isinstance(line, str) else line) for line in lines))


def print_rows(
    rows: Sequence[_Row],
    columns: Sequence[Column],
    cells: Callable[[_Row], Sequence[str | Text]],
    otherwise: str,
    *,
    as_json: bool,
) -> None:
    """Prints rows as JSON or in a table. `otherwise`: the sentence instead of a table without rows."""
    if as_json:
        print_json(rows)
    elif rows:
        print_table(columns, [cells(row) for row in rows])
    else:
        print_message(otherwise)


def print_table(columns: Sequence[Column], rows: Sequence[Sequence[str | Text]]) -> None:
    """Prints a table."""
    print_lines(table(columns, rows, terminal_width()))
