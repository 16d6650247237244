"""The page of a run's log: the last lines of an attempt, older ones, a search, and new lines as they come."""

from __future__ import annotations

import json
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Final

from wakeboard.board.pages.errors import NotFound
from wakeboard.board.routing import BoardRequest, Page, page
from wakeboard.logs.links import link_to_log
from wakeboard.logs.queries import LinesBefore, attempt_logs, lines_before, log_retention
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
SETTLED: Final = timedelta(seconds=10)  # the last lines of a run are stored before


@dataclass(frozen=True, slots=True, kw_only=True)
class ShownLine:
    """A line of the page. `left_out`: how many lines before it were not kept. `after`: since the attempt's first line.

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


@dataclass(frozen=True, slots=True, kw_only=True)
class RunLog:
    """The model of the page.

    `chosen`: the attempt that is shown; None: it has no log. `older`: the number before which older lines are; None:
    there are none. `searched_to`: the number of the first line that the search has examined; None: it has examined all,
    or the page is full. `live`: more lines may come. `copied`: a JSON string of what the copy button copies.
    `why`: why there is nothing.
    """

    run: StoredRun
    attempts: Sequence[AttemptLog]
    chosen: AttemptLog | None
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
    level: str
    text: str
    before: int


def _read_query(request: BoardRequest) -> _Query:
    level = request.query.get("level", "debug")
    before = request.query.get("before", "")
    epoch = request.query.get("attempt", "")
    return _Query(
        epoch=int(epoch) if is_id_text(epoch) else 0,
        level=level if level in LEVELS else "debug",
        text=request.query.get("q", "")[:LONGEST_SEARCH],
        before=int(before) if is_id_text(before) else NO_LINE,
    )


def is_id_text(text: str) -> bool:
    """Whether the text is a number that a bigint holds."""
    return text.isascii() and text.isdigit() and len(text) <= 18  # noqa: PLR2004


def run_log_model(
    run: StoredRun,
    attempts: Sequence[AttemptLog],
    chosen: AttemptLog | None,
    found: LinesBefore,
    query: _Query,
    *,
    now: datetime,
    kept: timedelta,
    template: str,
) -> RunLog:
    """The model of the page, from what was read."""
    lines = found.lines
    filtered = bool(query.text) or query.level != "debug"
    newest = query.before == NO_LINE
    ended_at = run.finished_at or run.dead_at
    ended = ended_at is not None and now - ended_at > SETTLED
    searched_to = found.older if len(lines) < LINES else None
    nothing = _no_match(query, searched_to) if chosen else why_no_log(started_at=run.started_at, now=now, kept=kept)
    return RunLog(
        run=run,
        attempts=attempts,
        chosen=chosen,
        lines=_shown(lines, chosen.began_at.timestamp() if chosen else 0.0, with_counts=not filtered),
        level=query.level,
        text=query.text,
        older=found.older,
        searched_to=searched_to,
        is_newest=newest,
        live=newest and not ended and not query.text and chosen in (None, *attempts[-1:]),
        why="" if lines else nothing,
        link=link_to_log(template, run_id=run.id, run_uuid=run.uuid, schedule=run.schedule),
        copied=json.dumps("\n".join(line.text for line in lines)),
    )


def _no_match(query: _Query, searched_to: int | None) -> str:
    before = "" if query.before == NO_LINE else f" before line {query.before:,}"
    if searched_to is None:
        return f"No line matches{before}."
    return f"No line matches{before} down to line {searched_to:,}. Older lines have not been searched."


def _shown(lines: Sequence[Line], began: float, *, with_counts: bool) -> list[ShownLine]:
    shown: list[ShownLine] = []
    left_out = 0
    for part in with_gaps(lines, lines[0].number - 1 if lines else 0):
        if isinstance(part, Line):
            at = datetime.fromtimestamp(part.at, UTC)
            shown.append(ShownLine(line=part, left_out=left_out * with_counts, after=part.at - began, at=at))
            left_out = 0
        else:
            left_out = part.lines
    return shown


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
        attempts = await attempt_logs(conn, run.uuid)
        chosen = next((each for each in reversed(attempts) if query.epoch in (0, each.lease_epoch)), None)
        found = LinesBefore([], None)
        if chosen is not None:
            level, text = LEVELS[query.level] * (query.level != "debug"), query.text
            epoch = chosen.lease_epoch
            found = await lines_before(conn, run.uuid, epoch, query.before, LINES, level=level, text=text)
        now, kept = await Listings(conn).now(), await log_retention(conn)
        return run_log_model(run, attempts, chosen, found, query, now=now, kept=kept, template=template)

    key = ("log of run", run_id, namespaces, query)
    model = await request.read(key, read, scans=bool(query.text)) if is_id(run_id) else None
    if model is None:
        raise NotFound(f"there is no run {run_id}, or it was deleted from the history")
    return Page("run_log.html", model, f"Log of run {run_id}")
