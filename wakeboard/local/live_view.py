"""The live view of `wakeboard up`: problems, schedules, runs and the newest messages on one terminal screen.

`draw` is a pure function from a ViewState to a page that fits any terminal size.
"""

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
from wakeboard.local.view import SOURCE_WIDTH, retry_hint
from wakeboard.rules.humanize import counted, due, lasted, reason_in_words, relative, runs_after_words
from wakeboard.rules.sanitize import one_line, printable
from wakeboard.safe_console import SafeConsole

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rich.console import Console

    from wakeboard.local.view import Message, ViewState
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
LEVEL_STYLES: Final = {"debug": "dim", "info": "", "success": "green", "warning": "yellow", "error": "red"}

WIDE: Final = 100  # columns; from this width on, the cron expression is shown
MAX_MESSAGES: Final = 100
MAX_PROBLEM_LINES: Final = 6
GAP: Final = 2  # columns between two cells
MIN_NAME_WIDTH: Final = 8  # columns
MIN_ROWS: Final = 3  # a part with fewer rows shows no "… more" row
ROOMY: Final = 12  # rows; with more, every part gets its full share


class LiveView:
    """Draws on the whole terminal, which `close` restores."""

    def __init__(self, title: str, program: str, console: Console | None = None) -> None:
        self._title, self._program = title, program
        self._console = console or SafeConsole()
        self._messages: deque[Message] = deque(maxlen=MAX_MESSAGES)
        self._live = Live(console=self._console, screen=True, auto_refresh=False, redirect_stdout=False)
        self._live.start()

    def print(self, message: Message) -> None:
        """Adds a message, which `render` draws."""
        self._messages.append(message if message.at else replace(message, at=datetime.now(UTC)))

    def render(self, state: ViewState) -> None:
        """Draws the page in the current size of the terminal."""
        with suppress(OSError, ValueError):
            width, height = self._console.size
            page = draw(self._title, self._program, state, self._messages, width, height)
            self._live.update(page, refresh=True)

    def close(self) -> None:
        """Restores the terminal."""
        with suppress(OSError, ValueError):
            self._live.stop()


def draw(title: str, program: str, state: ViewState, messages: Sequence[Message], width: int, height: int) -> Group:
    """Draws one page of at most `height` lines and `width` columns."""
    footer = _footer(state, program, width)
    problems = [line for problem in state.problems for line in _wrapped(one_line(problem), width)]
    rows = share_height(height, len(state.schedules), len(state.runs), len(problems), len(messages), footer=len(footer))
    parts: list[Text | Table] = [_header(title, state, width)]
    if rows["problems"]:
        parts += [Text(""), *(Text(line, "red") for line in problems[: rows["problems"]])]
    if rows["schedules"]:
        parts += [Text(""), _schedules(state, rows["schedules"], width)]
    if rows["runs"]:
        parts += [Text(""), _runs(state, rows["runs"], width)]
    if rows["messages"]:
        parts += [Text(""), *(_message(message, width) for message in list(messages)[-rows["messages"] :])]
    if rows["footer"]:
        parts += [Text(""), *footer[-rows["footer"] :]]
    return Group(*parts)


def share_height(
    height: int, schedules: int, runs: int, problems: int, messages: int, *, footer: int = 1
) -> dict[str, int]:
    """Divides the rows of the page among its parts, not counting headings and the blank line above each part.

    The header always gets one row. Problems come first; schedules and runs share the rest, then messages.
    """
    left = height - 1
    rows = {"problems": 0, "schedules": 0, "runs": 0, "messages": 0, "footer": 0}

    def give(part: str, wanted: int, extra: int, limit: int) -> None:
        nonlocal left
        count = min(wanted, limit, left - extra)
        if count > 0:
            rows[part] = count
            left -= count + extra

    give("footer", footer, 1, footer if left > ROOMY else 1)
    give("problems", problems, 1, MAX_PROBLEM_LINES)
    if left - runs > MIN_ROWS or left > ROOMY or not runs:  # on a small screen, runs come before schedules
        give("schedules", schedules, 2, max(1, (left - 4) // 2) if runs else left)
    give("runs", runs, 2, max(1, left - (min(messages, MIN_ROWS) + 1 if left > ROOMY else 0)))
    give("messages", messages, 1, left)
    return rows


def _header(title: str, state: ViewState, width: int) -> Text:
    workers = f"{counted(state.workers, 'worker')} running" if state.workers else "no worker running"
    wake = f"next wake in {max(0, round(state.next_wake_s))} s"
    right = f"{workers}, {wake}  {in_zone(state.now):%H:%M:%S} {zone_label()}"
    left = Text(title, "bold")
    left_width = width - len(right) - 2
    if left_width < len("wakeboard"):
        return _cut(right, "", width)
    left.truncate(left_width, overflow="ellipsis")
    return left + Text(" " * (width - left.cell_len - len(right))) + Text(right, "dim")


def _footer(state: ViewState, program: str, width: int) -> list[Text]:
    """The keys and commands to type, below the error of the newest dead run."""
    dead = next((run for run in state.runs if run.status == "dead"), None)
    error = [_cut(f"run {dead.id} is dead: {_error(dead)}", "red", width)] if dead else []
    hint = retry_hint(dead.id, program) if dead else f"in another terminal: {program} runs"
    text = Text("Ctrl-C stops everything  ·  ", "dim") + Text(hint, "red" if dead else "dim")
    text.truncate(width, overflow="ellipsis")
    return [*error, text]


def _wrapped(text: str, width: int) -> list[str]:
    """Wraps a text to the width of the terminal, so that file names and line numbers are not cut."""
    return [str(line).rstrip() for line in Text(text).wrap(SafeConsole(), width)]


def _cut_in_the_middle(text: str, width: int) -> str:
    """Cuts a name in the middle, so that names with the same prefix still differ."""
    if cell_len(text) <= width:
        return text
    tail = (width - 1) // 2
    return f"{set_cell_size(text, width - 1 - tail).rstrip()}…{text[-tail:] if tail else ''}"


def _cut(text: str, style: str, width: int) -> Text:
    cut = Text(text, style)
    cut.truncate(width, overflow="ellipsis")
    return cut


# -- schedules ---------------------------------------------------------------------------------------------------------


def _schedules(state: ViewState, rows: int, width: int) -> Table:
    schedules = list(state.schedules)
    hidden = len(schedules) - rows + (rows >= MIN_ROWS) if len(schedules) > rows else 0
    shown = schedules[: len(schedules) - hidden]
    headings = [*(["WHEN"] if width >= WIDE else []), "NEXT", "LAST", "RUNS"]
    cells = [
        [
            *([Text(_when(row), "dim")] if width >= WIDE else []),
            *(_next(row, state.now), _last(row, state.now), _counts(row)),
        ]
        for row in shown
    ]
    others = sum(_widest(heading, [row[at] for row in cells]) + GAP for at, heading in enumerate(headings))
    name_width = max(MIN_NAME_WIDTH, width - others - GAP)
    table = _table()
    table.add_column("SCHEDULE", no_wrap=True, overflow="ellipsis", ratio=1)
    for heading in headings:
        table.add_column(heading, no_wrap=True, overflow="ellipsis")
    for row, other_cells in zip(shown, cells, strict=True):
        table.add_row(_cut_in_the_middle(one_line(f"{row.namespace}/{row.name}"), name_width), *other_cells)
    if hidden and rows >= MIN_ROWS:
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
    if row.runs_after:
        return one_line(runs_after_words(row.runs_after))
    return f"{row.schedule}{zone}" if row.schedule else "-"


def _next(row: ScheduleRow, now: datetime) -> Text:
    if row.state != "active":
        return Text(row.state, STYLES.get(row.state, "dim"))
    if row.runs_after:
        return Text("-", "dim")
    return Text(relative(row.next_run_at, now) if row.next_run_at and row.next_run_at > now else "now")


def _last(row: ScheduleRow, now: datetime) -> Text:
    if row.last_status is None:
        return Text("-", "dim")
    return Text(row.last_status, STYLES.get(row.last_status, "")) + Text(f" {_ago(row.last_finished_at, now)}", "dim")


def _ago(moment: datetime | None, now: datetime) -> str:
    """Formats a time in the past. A time after `now`, which differing clocks may cause, counts as now."""
    return relative(min(moment, now), now) if moment else "-"


def _counts(row: ScheduleRow) -> Text:
    counts = {"running": row.running, "failed": row.failed, "queued": row.queued, "dead": row.dead}
    return Text(", ").join(
        Text(f"{count} {status}", STYLES.get(status, "")) for status, count in counts.items() if count
    )


# -- runs --------------------------------------------------------------------------------------------------------------


def _runs(state: ViewState, rows: int, width: int) -> Table:
    table = _table()
    name_width = max(MIN_NAME_WIDTH, width * 2 // 5)
    table.add_column("RUN", justify="right", no_wrap=True)
    table.add_column("STATUS", no_wrap=True, min_width=9)
    table.add_column("JOB", max_width=name_width, no_wrap=True, overflow="ellipsis")
    table.add_column("ATTEMPT", no_wrap=True)
    table.add_column("", ratio=1, no_wrap=True, overflow="ellipsis")
    for run in state.runs[:rows]:
        name = _cut_in_the_middle(one_line(run.schedule or run.job_type), name_width)
        attempt = f"{run.attempts}/{run.max_attempts}" if run.attempts else ""
        style = STYLES.get(run.status, "")
        table.add_row(str(run.id), Text(run.status, style), name, Text(attempt, "dim"), describe_run(run, state.now))
    return table


def describe_run(run: RunRow, now: datetime) -> Text:
    """Formats the last column of a run: its next attempt, its duration or its error."""
    match run.status:
        case "queued":
            return Text(f"due {_due(run.run_at, now)}", "dim")
        case "running":
            return _progress(run, now)
        case "failed":
            return Text(f"retry {_due(run.run_at, now)}", "yellow") + Text(f"  {_error(run)}")
        case "dead":
            return Text(_error(run))
        case "succeeded":
            took = lasted(run.finished_at - run.started_at) if run.finished_at and run.started_at else ""
            return Text(f"{_ago(run.finished_at, now)}, took {took}", "dim")
        case _:
            return Text(f"{_ago(run.finished_at, now)}  {reason_in_words(run.reason, run.status)}".rstrip(), "dim")


def _error(run: RunRow) -> str:
    return one_line(": ".join(part for part in (run.error_type, run.error) if part))


def _due(moment: datetime, now: datetime) -> str:
    return due(moment, now) if moment > now + timedelta(seconds=0.5) else "now"


def _progress(run: RunRow, now: datetime) -> Text:
    since = f"for {lasted(max(timedelta(), now - run.started_at))}" if run.started_at else ""
    if run.progress is None:
        return Text(since)
    done = round(run.progress * 10)
    return Text("━" * done, "green") + Text("─" * (10 - done), "dim") + Text(f" {run.progress:.0%} {since}")


def _message(message: Message, width: int) -> Text:
    clock = f"{in_zone(message.at):%H:%M:%S}" if message.at else ""
    text = Text(f"{clock:8}  {message.source:<{SOURCE_WIDTH}}  ", "dim")
    text += Text(printable(message.text), LEVEL_STYLES[message.level])
    text.truncate(width, overflow="ellipsis")
    return text


def can_show_live() -> bool:
    """Whether standard output is a terminal with cursor control."""
    return sys.stdout.isatty() and not SafeConsole().is_dumb_terminal
