"""The live view: schedules, runs, what is wrong and what was said last, on one screen of any size."""

from __future__ import annotations

import sys
from collections import deque
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Final

from rich.cells import cell_len, set_cell_size
from rich.console import Group
from rich.live import Live
from rich.table import Table
from rich.text import Text

from wakeboard.display_zone import in_zone, zone_label
from wakeboard.local.safe_console import SafeConsole
from wakeboard.local.telling import again
from wakeboard.rules.humanize import counted, lasted, reason_in_words, relative
from wakeboard.rules.sanitize import one_line, printable

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rich.console import Console

    from wakeboard.local.picture import ViewState, Waking
    from wakeboard.local.telling import OutputLine
    from wakeboard.store.queries.listings import RunRow, ScheduleRow

STYLES: Final = {
    "running": "bold",
    "failed": "yellow",
    "dead": "bold red",
    "succeeded": "green",
    "stalled": "red",
    "paused": "yellow",
    "suspended": "yellow",
    "queued": "",
    "cancelled": "dim",
    "skipped": "dim",
    "discarded": "dim",
}
MOODS: Final = {"good": "green", "warn": "yellow", "bad": "red", "quiet": "dim", "plain": ""}

WIDE: Final = 100  # columns from which on there is room for the cron line and the job type
LINES_KEPT: Final = 100
MOST_CONCERNS: Final = 6  # lines
GAP: Final = 2  # columns between two cells
LEAST_OF_A_NAME: Final = 8  # columns
FEW: Final = 3  # rows that are worth their heading
MUCH: Final = 12  # rows in which all parts have room


class LiveView:
    """The screen of a terminal. It takes the whole window, and gives it back at the end."""

    def __init__(self, title: str, program: str, console: Console | None = None) -> None:
        self._title, self._program = title, program
        self._console = console or SafeConsole()
        self._lines: deque[OutputLine] = deque(maxlen=LINES_KEPT)
        self._live = Live(console=self._console, screen=True, auto_refresh=False, redirect_stdout=False)
        self._live.start()

    def tell(self, line: OutputLine) -> None:
        """Keeps it for the lower part of the screen."""
        self._lines.append(line if line.at else replace(line, at=datetime.now(UTC)))

    def show(self, picture: ViewState, waking: Waking, concerns: list[str]) -> None:
        """Draws everything anew, in the size that the window has now."""
        with suppress(OSError, ValueError):
            width, height = self._console.size
            page = draw(self._title, self._program, picture, waking, concerns, self._lines, width, height)
            self._live.update(page, refresh=True)

    def close(self) -> None:
        """The window as it was before."""
        with suppress(OSError, ValueError):
            self._live.stop()


def draw(
    title: str,
    program: str,
    picture: ViewState,
    waking: Waking,
    concerns: Sequence[str],
    lines: Sequence[OutputLine],
    width: int,
    height: int,
) -> Group:
    """One page of at most `height` lines, none wider than `width`."""
    footer = _footer(picture, program, width)
    banner = [line for each in concerns for line in _wrapped(one_line(each), width)]
    rooms = share_height(height, len(picture.schedules), len(picture.runs), len(banner), len(lines), footer=len(footer))
    parts: list[Text | Table] = [_header(title, picture, waking, width)]
    if rooms["concerns"]:
        parts += [Text(""), *(Text(each, "red") for each in banner[: rooms["concerns"]])]
    if rooms["schedules"]:
        parts += [Text(""), _schedules(picture, rooms["schedules"], width)]
    if rooms["runs"]:
        parts += [Text(""), _runs(picture, rooms["runs"], width)]
    if rooms["lines"]:
        parts += [Text(""), *(_said(line, width) for line in list(lines)[-rooms["lines"] :])]
    if rooms["footer"]:
        parts += [Text(""), *footer[-rooms["footer"] :]]
    return Group(*parts)


def share_height(
    height: int, schedules: int, runs: int, concerns: int, lines: int, *, footer: int = 1
) -> dict[str, int]:
    """How many rows each part of the page gets, without its heading and the blank line above it.

    The header always has its line; what is wrong comes first, then schedules and runs share what there is.
    """
    left = height - 1
    rooms = {"concerns": 0, "schedules": 0, "runs": 0, "lines": 0, "footer": 0}

    def give(part: str, wanted: int, extra: int, at_most: int) -> None:
        nonlocal left
        room = min(wanted, at_most, left - extra)
        if room > 0:
            rooms[part] = room
            left -= room + extra

    give("footer", footer, 1, footer if left > MUCH else 1)
    give("concerns", concerns, 1, MOST_CONCERNS)
    if left - runs > FEW or left > MUCH or not runs:  # on a small screen what runs matters most
        give("schedules", schedules, 2, max(1, (left - 4) // 2) if runs else left)
    give("runs", runs, 2, max(1, left - (min(lines, FEW) + 1 if left > MUCH else 0)))
    give("lines", lines, 1, left)
    return rooms


def _header(title: str, picture: ViewState, waking: Waking, width: int) -> Text:
    state = f"{counted(waking.workers, 'worker')} awake" if waking.workers else "asleep"
    right = f"{state}, next wake in {max(0, round(waking.next_in_s))} s  {in_zone(picture.now):%H:%M:%S} {zone_label()}"
    left = Text(title, "bold")
    room = width - len(right) - 2
    if room < len("wakeboard"):
        return _cut(right, "", width)
    left.truncate(room, overflow="ellipsis")
    return left + Text(" " * (width - left.cell_len - len(right))) + Text(right, "dim")


def _footer(picture: ViewState, program: str, width: int) -> list[Text]:
    """What can be typed, and above it why the last run died that waits for a person."""
    dead = next((run for run in picture.runs if run.status == "dead"), None)
    why = [_cut(f"run {dead.id} is dead: {_error(dead)}", "red", width)] if dead else []
    hint = again(dead.id, program) if dead else f"in another terminal: {program} runs"
    text = Text("Ctrl-C stops everything  ·  ", "dim") + Text(hint, "red" if dead else "dim")
    text.truncate(width, overflow="ellipsis")
    return [*why, text]


def _wrapped(text: str, width: int) -> list[str]:
    """The text wrapped to the width of the window, so that file names and line numbers are not cut."""
    return [str(line).rstrip() for line in Text(text).wrap(SafeConsole(), width)]


def _cut_in_the_middle(text: str, width: int) -> str:
    """Cuts a name in the middle, so that names with the same beginning still differ."""
    if cell_len(text) <= width:
        return text
    tail = (width - 1) // 2
    return f"{set_cell_size(text, width - 1 - tail).rstrip()}…{text[-tail:] if tail else ''}"


def _cut(text: str, style: str, width: int) -> Text:
    cut = Text(text, style)
    cut.truncate(width, overflow="ellipsis")
    return cut


# -- schedules ---------------------------------------------------------------------------------------------------------


def _schedules(picture: ViewState, room: int, width: int) -> Table:
    rows = list(picture.schedules)
    hidden = len(rows) - room + (room >= FEW) if len(rows) > room else 0
    shown = rows[: len(rows) - hidden]
    headings = [*(["WHEN"] if width >= WIDE else []), "NEXT", "LAST", "RUNS"]
    cells = [
        [
            *([Text(_when(row), "dim")] if width >= WIDE else []),
            *(_next(row, picture.now), _last(row, picture.now), _counts(row)),
        ]
        for row in shown
    ]
    others = sum(_widest(heading, [row[at] for row in cells]) + GAP for at, heading in enumerate(headings))
    room_of_names = max(LEAST_OF_A_NAME, width - others - GAP)
    table = _table()
    table.add_column("SCHEDULE", no_wrap=True, overflow="ellipsis", ratio=1)
    for heading in headings:
        table.add_column(heading, no_wrap=True, overflow="ellipsis")
    for row, others_of_row in zip(shown, cells, strict=True):
        table.add_row(_cut_in_the_middle(one_line(f"{row.namespace}/{row.name}"), room_of_names), *others_of_row)
    if hidden and room >= FEW:
        table.add_row(Text(f"… {hidden} more", "dim"))
    return table


def _widest(heading: str, cells: Sequence[Text]) -> int:
    return max(len(heading), *(cell.cell_len for cell in cells)) if cells else len(heading)


def _table() -> Table:
    table = Table(box=None, expand=True, pad_edge=False, padding=(0, GAP, 0, 0), header_style="bold dim")
    table.row_styles = []
    return table


def _when(row: ScheduleRow) -> str:
    zone = "" if row.time_zone in {"UTC", "Etc/UTC"} else f" {row.time_zone}"
    return f"{row.schedule}{zone}" if row.schedule else "-"


def _next(row: ScheduleRow, now: datetime) -> Text:
    if row.state != "active":
        return Text(row.state, STYLES.get(row.state, "dim"))
    return Text(relative(row.next_run_at, now) if row.next_run_at and row.next_run_at > now else "now")


def _last(row: ScheduleRow, now: datetime) -> Text:
    if row.last_status is None:
        return Text("-", "dim")
    return Text(row.last_status, STYLES.get(row.last_status, "")) + Text(f" {_ago(row.last_finished_at, now)}", "dim")


def _ago(moment: datetime | None, now: datetime) -> str:
    """The past never lies ahead, however two clocks differ."""
    return relative(min(moment, now), now) if moment else "-"


def _counts(row: ScheduleRow) -> Text:
    counts = {"running": row.running, "failed": row.failed, "queued": row.queued, "dead": row.dead}
    return Text(", ").join(
        Text(f"{count} {status}", STYLES.get(status, "")) for status, count in counts.items() if count
    )


# -- runs --------------------------------------------------------------------------------------------------------------


def _runs(picture: ViewState, room: int, width: int) -> Table:
    table = _table()
    table.add_column("RUN", justify="right", no_wrap=True)
    table.add_column("STATUS", no_wrap=True, min_width=9)
    room_of_names = max(LEAST_OF_A_NAME, width * 2 // 5)
    table.add_column("OF", max_width=room_of_names, no_wrap=True, overflow="ellipsis")
    table.add_column("TRY", no_wrap=True)
    table.add_column("", ratio=1, no_wrap=True, overflow="ellipsis")
    for run in picture.runs[:room]:
        name = _cut_in_the_middle(one_line(run.schedule or run.job_type), room_of_names)
        tried = f"{run.attempts}/{run.max_attempts}" if run.attempts else ""
        style = STYLES.get(run.status, "")
        table.add_row(str(run.id), Text(run.status, style), name, Text(tried, "dim"), about_run(run, picture.now))
    return table


def about_run(run: RunRow, now: datetime) -> Text:
    """The rest of a run's row: what happens next, how long it took, what went wrong."""
    match run.status:
        case "queued":
            return Text(f"due {_due(run.run_at, now)}", "dim")
        case "running":
            return _progress(run, now)
        case "failed":
            return Text(f"next try {_due(run.run_at, now)}", "yellow") + Text(f"  {_error(run)}")
        case "dead":
            return Text(_error(run))
        case "succeeded":
            took = lasted(run.finished_at - run.started_at) if run.finished_at and run.started_at else ""
            return Text(f"{_ago(run.finished_at, now)}, in {took}", "dim")
        case _:
            return Text(f"{_ago(run.finished_at, now)}  {reason_in_words(run.reason, run.status)}".rstrip(), "dim")


def _error(run: RunRow) -> str:
    return one_line(": ".join(part for part in (run.error_type, run.error) if part))


def _due(moment: datetime, now: datetime) -> str:
    return relative(moment, now) if moment > now + timedelta(seconds=0.5) else "now"


def _progress(run: RunRow, now: datetime) -> Text:
    since = f"for {lasted(max(timedelta(), now - run.started_at))}" if run.started_at else ""
    if run.progress is None:
        return Text(since)
    done = round(run.progress * 10)
    return Text("━" * done, "green") + Text("─" * (10 - done), "dim") + Text(f" {run.progress:.0%} {since}")


def _said(line: OutputLine, width: int) -> Text:
    clock = f"{in_zone(line.at):%H:%M:%S}" if line.at else ""
    text = Text(f"{clock:8}  {line.who:<8}  ", "dim") + Text(printable(line.text), MOODS[line.mood])
    text.truncate(width, overflow="ellipsis")
    return text


def can_show_live() -> bool:
    """Whether standard output is a terminal that can be drawn on."""
    return sys.stdout.isatty() and not SafeConsole().is_dumb_terminal
