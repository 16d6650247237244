"""The page of a run's log: the last lines of an attempt, older ones, a search, and new lines as they come.

Another attempt can be shown beside it: its lines of the same time, counted from the beginning of each attempt.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from math import floor, inf
from typing import TYPE_CHECKING, Final, TypeAlias

from wakeboard.board.pages.errors import NotFound
from wakeboard.board.routing import BoardRequest, Page, page
from wakeboard.logs.links import link_to_log
from wakeboard.logs.queries import (
    MOST_SEARCHED,
    LinesBefore,
    WantedLines,
    attempt_logs,
    lines_after,
    lines_before,
    log_retention,
)
from wakeboard.logs.rules import LEVELS, AttemptLog, Line, why_no_log, with_gaps
from wakeboard.text.object_ids import is_id
from wakeboard.views.queries.listings import Listings
from wakeboard.views.queries.run_page import read_shown_run

if TYPE_CHECKING:
    from collections.abc import Sequence

    from wakeboard.store.connection import AsyncConnection
    from wakeboard.views.rules.run_rows import StoredRun

LINES: Final = 500  # of a page
LONGEST_SEARCH: Final = 200  # characters
NO_LINE: Final = (1 << 63) - 1  # behind all lines
SLICES_S: Final = (
    0.01,
    0.02,
    0.05,
    0.1,
    0.2,
    0.5,
    1,
    2,
    5,
    10,
    20,
    30,
    60,
    120,
    300,
    600,
    1_800,
    3_600,
    21_600,
    86_400,
)
MOST_SLICES: Final = 40  # of a page with two attempts
SETTLED: Final = timedelta(seconds=10)  # the last lines of a run are stored before

AttemptWithLines: TypeAlias = "tuple[AttemptLog, LinesBefore]"


@dataclass(frozen=True, slots=True, kw_only=True)
class ShownLine:
    """A line of the page. `left_out`: how many lines before it were not kept. `after`: since the attempt began.

    Of a text of several lines, `first` is the first.
    """

    line: Line
    left_out: int
    after: float
    at: datetime

    @property
    def rare(self) -> bool:
        """Whether its level is shown: that of a warning or an error."""
        return self.line.level >= LEVELS["warning"]


@dataclass(frozen=True, slots=True)
class LogSlice:
    """The lines of a slice of time of two attempts. `after`: when it begins, in seconds since each attempt began."""

    after: float
    chosen: Sequence[ShownLine]
    beside: Sequence[ShownLine]


@dataclass(frozen=True, slots=True)
class OtherLog:
    """Another attempt beside the one that is shown.

    `lines`: from the time of the first one that is shown on, LINES at most. `cut`: there may be more.
    """

    attempt: AttemptLog
    slices: Sequence[LogSlice]
    lines: int
    cut: bool
    copied: str


@dataclass(frozen=True, slots=True, kw_only=True)
class RunLog:
    """The model of the page.

    `chosen`: the attempt that is shown; None: it has no log. `older`: the number before which older lines are; None:
    there are none. `searched_to`: the number of the first line that the search has examined; None: it has examined all,
    or the page is full. `live`: more lines may come. `copied`: a JSON string of what the copy button copies.
    `why`: why there is nothing. `other`: the attempt that is shown beside it.
    """

    run: StoredRun
    attempts: Sequence[AttemptLog]
    chosen: AttemptLog | None
    other: OtherLog | None
    lines: Sequence[ShownLine]
    level: str
    text: str
    older: int | None
    searched_to: int | None
    is_newest: bool
    live: bool
    why: str
    link: str
    copied: str
    levels: Sequence[str] = tuple(LEVELS)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Query:
    """What the address asks for."""

    epoch: int
    beside: int
    level: str
    text: str
    before: int

    @property
    def wanted(self) -> WantedLines:
        """The lines that it asks for."""
        return WantedLines(LEVELS[self.level] * (self.level != "debug"), self.text)


def _read_query(request: BoardRequest) -> _Query:
    level = request.query.get("level", "debug")

    def number(name: str, otherwise: int) -> int:
        text = request.query.get(name, "")
        return int(text) if is_id_text(text) else otherwise

    return _Query(
        epoch=number("attempt", 0),
        beside=number("beside", 0),
        level=level if level in LEVELS else "debug",
        text=request.query.get("q", "")[:LONGEST_SEARCH],
        before=number("before", NO_LINE),
    )


def is_id_text(text: str) -> bool:
    """Whether the text is a number that a bigint holds."""
    return text.isascii() and text.isdigit() and len(text) <= 18  # noqa: PLR2004


def run_log_model(
    run: StoredRun,
    attempts: Sequence[AttemptLog],
    chosen: AttemptWithLines | None,
    other: tuple[AttemptLog, Sequence[Line]] | None,
    query: _Query,
    *,
    now: datetime,
    kept: timedelta,
    template: str,
) -> RunLog:
    """The model of the page, from what was read."""
    attempt, found = chosen or (None, LinesBefore([], None))
    lines = found.lines
    filtered = bool(query.text) or query.level != "debug"
    newest = query.before == NO_LINE
    ended_at = run.finished_at or run.dead_at
    ended = ended_at is not None and now - ended_at > SETTLED
    searched_to = found.older if len(lines) < LINES else None
    nothing = _no_match(query, searched_to) if attempt else why_no_log(started_at=run.started_at, now=now, kept=kept)
    shown = _shown(lines, attempt, with_counts=not filtered)
    beside = None if other is None else _other_log(shown, *other, with_counts=not filtered)
    return RunLog(
        run=run,
        attempts=attempts,
        chosen=attempt,
        other=beside,
        lines=shown,
        level=query.level,
        text=query.text,
        older=found.older,
        searched_to=searched_to,
        is_newest=newest,
        live=newest and not ended and not query.text and attempt in (None, *attempts[-1:]),
        why="" if lines or (beside and beside.lines) else nothing,
        link=link_to_log(template, run_id=run.id, run_uuid=run.uuid, schedule=run.schedule),
        copied=_copied(lines),
    )


def _copied(lines: Sequence[Line]) -> str:
    return json.dumps("\n".join(line.text for line in lines))


def _no_match(query: _Query, searched_to: int | None) -> str:
    before = "" if query.before == NO_LINE else f" before line {query.before:,}"
    if searched_to is None:
        return f"No line matches{before}."
    return f"No line matches{before} down to line {searched_to:,}. Older lines have not been searched."


def _shown(lines: Sequence[Line], attempt: AttemptLog | None, *, with_counts: bool) -> list[ShownLine]:
    shown: list[ShownLine] = []
    left_out, began = 0, attempt.began_at.timestamp() if attempt else 0.0
    for part in with_gaps(lines, lines[0].number - 1 if lines else 0):
        if isinstance(part, Line):
            at = datetime.fromtimestamp(part.at, UTC)
            shown.append(ShownLine(line=part, left_out=left_out * with_counts, after=part.at - began, at=at))
            left_out = 0
        else:
            left_out = part.lines
    return shown


def _other_log(
    shown: Sequence[ShownLine], attempt: AttemptLog, lines: Sequence[Line], *, with_counts: bool
) -> OtherLog:
    cut = len(lines) > LINES or (not with_counts and attempt.last_line > MOST_SEARCHED)
    beside = _shown(lines[:LINES], attempt, with_counts=with_counts)
    return OtherLog(attempt, _slices(shown, beside), len(beside), cut, _copied(lines[:LINES]))


def _slices(chosen: Sequence[ShownLine], beside: Sequence[ShownLine]) -> list[LogSlice]:
    """The lines of two attempts in slices of one length, which have a line at least."""
    times = [shown.after for shown in (*chosen, *beside)]
    if not times:
        return []
    span = max(times) - min(times)
    length = next((each for each in SLICES_S if span <= each * MOST_SLICES), span / MOST_SLICES)
    slices: dict[int, tuple[list[ShownLine], list[ShownLine]]] = {}
    for place, lines in enumerate((chosen, beside)):
        for shown in lines:
            slices.setdefault(floor(shown.after / length), ([], []))[place].append(shown)
    return [LogSlice(number * length, *slices[number]) for number in sorted(slices)]


def _of_same_time(query: _Query, chosen: AttemptWithLines, other: AttemptLog) -> WantedLines:
    """The lines of the time of those that were found, counted from the beginning of the other attempt."""
    attempt, (lines, older) = chosen
    moved = other.began_at.timestamp() - attempt.began_at.timestamp()
    since = lines[0].at + moved if lines and older is not None else 0.0
    until = lines[-1].at + moved if lines and query.before != NO_LINE else inf
    return query.wanted._replace(since=since, until=until)


@page("/runs/{id:int}/log")
async def run_log(request: BoardRequest) -> Page:
    """Shows what a run logged."""
    run_id: int = request.parts["id"]
    namespaces = request.viewer.namespaces
    query = _read_query(request)
    template = request.board.options.log_link

    async def read(conn: AsyncConnection) -> RunLog | None:
        run = await read_shown_run(conn, run_id, namespaces=namespaces)
        if run is None:
            return None
        attempts = await attempt_logs(conn, run.id, run.uuid)
        chosen = next((each for each in reversed(attempts) if query.epoch in (0, each.lease_epoch)), None)
        beside = next((each for each in attempts if each.lease_epoch == query.beside and each != chosen), None)
        shown = other = None
        if chosen is not None:
            found = await lines_before(conn, run.uuid, chosen.lease_epoch, query.before, LINES, query.wanted)
            shown = (chosen, found)
            if beside is not None:
                wanted = _of_same_time(query, shown, beside)
                other = (beside, await lines_after(conn, run.uuid, beside.lease_epoch, 0, LINES + 1, wanted))
        now, kept = await Listings(conn).now(), await log_retention(conn)
        return run_log_model(run, attempts, shown, other, query, now=now, kept=kept, template=template)

    key = ("log of run", run_id, namespaces, query)
    model = await request.read(key, read, scans=bool(query.text)) if is_id(run_id) else None
    if model is None:
        raise NotFound(f"there is no run {run_id}, or it was deleted from the history")
    return Page("run_log.html", model, f"Log of run {run_id}")
