"""The logs of runs in the API: the last lines of an attempt, those before, or those that follow."""

from __future__ import annotations

from itertools import starmap
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from wakeboard.board.api.endpoints import AFTER, DEFAULT_LIMIT, Endpoint, Items, Parameter
from wakeboard.board.api.reads import no_run
from wakeboard.board.pages.errors import NotFound
from wakeboard.board.pages.run_log import LONGEST_SEARCH, NO_LINE, SETTLED, is_id_text
from wakeboard.errors import InvalidValue
from wakeboard.logs.queries import (
    MOST_SEARCHED,
    WantedLines,
    attempt_logs,
    lines_after,
    lines_before,
    newest_started_run,
)
from wakeboard.logs.rules import LEVELS, AttemptLog, LogRow, log_row
from wakeboard.text.object_ids import LARGEST_ID, is_id
from wakeboard.text.sanitize import one_line
from wakeboard.views.queries.listings import Listings
from wakeboard.views.queries.run_page import read_shown_run
from wakeboard.views.queries.schedule_page import schedule_row
from wakeboard.views.rules.run_rows import RunRow

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from wakeboard.board.routing import BoardRequest
    from wakeboard.store.connection import AsyncConnection

MOST_LINES: Final = 1000
MOST_PLACES: Final = 100  # attempts in the id of an event
MOST_SENT: Final = 2000  # lines of one event
MOST_SENT_BYTES: Final = 1 << 20  # of JSON in one event, unless a line is longer

Given: TypeAlias = "Mapping[str, Any]"


async def _logged_attempts(request: BoardRequest, _: Given) -> Items:
    run_id, namespaces = request.parts["id"], request.viewer.namespaces

    async def read(conn: AsyncConnection) -> Items | None:
        run = await read_shown_run(conn, run_id, namespaces=namespaces)
        return None if run is None else Items(await attempt_logs(conn, run.id, run.uuid))

    found = await request.read(("api logged attempts", run_id, namespaces), read) if is_id(run_id) else None
    if found is None:
        raise no_run(run_id)
    return found


async def _log(request: BoardRequest, given: Given) -> Items:
    """The lines before a place: the attempt's lease epoch and a number of a line. With `behind`, those that follow."""
    run_id, namespaces, count = request.parts["id"], request.viewer.namespaces, given.get("limit", DEFAULT_LIMIT)
    behind = given.get("behind")
    if behind is not None and {"after", "q", "level"} & {*given}:
        raise InvalidValue("behind comes with lease_epoch or attempt, and limit: leave out after, q and level")
    level, text = given.get("level", "debug"), given.get("q", "")
    epoch, before = place_in_log(given["after"]) if "after" in given else (given.get("lease_epoch"), NO_LINE)

    async def read(conn: AsyncConnection) -> Items | None:
        run = await read_shown_run(conn, run_id, namespaces=namespaces)
        if run is None:
            return None
        attempts = await attempt_logs(conn, run.id, run.uuid)
        chosen = next(
            (
                each
                for each in reversed(attempts)
                if epoch in {None, each.lease_epoch} and given.get("attempt", each.attempt) == each.attempt
            ),
            None,
        )
        if chosen is None:
            return Items([])
        if behind is not None:
            lines = await lines_after(conn, run.uuid, chosen.lease_epoch, behind, count)
            return Items([log_row(run_id, chosen.attempt, chosen.lease_epoch, line) for line in lines])
        wanted = WantedLines(LEVELS[level] * (level != "debug"), text)
        lines, older = await lines_before(conn, run.uuid, chosen.lease_epoch, before, count, wanted)
        place = None if older is None else place_text(chosen.lease_epoch, older)
        return Items([log_row(run_id, chosen.attempt, chosen.lease_epoch, line) for line in lines], place)

    key = ("api log", run_id, namespaces, epoch, before, behind, count, level, text, given.get("attempt"))
    found = await request.read(key, read, scans=bool(text)) if is_id(run_id) else None
    if found is None:
        raise no_run(run_id)
    return found


async def _started_run(request: BoardRequest, given: Given) -> Items:
    """The newest run of a schedule that has started, if there is one behind the given id."""
    definition_id, namespaces, behind = request.parts["id"], request.viewer.namespaces, given.get("behind", 0)

    async def read(conn: AsyncConnection) -> Items | None:
        if await schedule_row(conn, definition_id, namespaces) is None:
            return None
        run_id = await newest_started_run(conn, definition_id, behind)
        return Items([] if run_id is None else await Listings(conn).runs([run_id]))

    key = ("api started run", definition_id, namespaces, behind)
    found = await request.read(key, read) if is_id(definition_id) else None
    if found is None:
        raise NotFound(f"there is no schedule {definition_id}")
    return found


async def new_lines(request: BoardRequest, sent: LogPlaces) -> tuple[list[LogRow], bool]:
    """At most MOST_SENT lines behind those that were sent, and whether the run's log has ended. Raises NotFound."""
    run_id, namespaces = request.parts["id"], request.viewer.namespaces

    async def read(conn: AsyncConnection) -> tuple[list[LogRow], bool] | None:
        run = await read_shown_run(conn, run_id, namespaces=namespaces)
        if run is None:
            return None
        rows: list[LogRow] = []
        for each in await attempt_logs(conn, run.id, run.uuid):
            epoch, last = each.lease_epoch, sent.last_line(each.lease_epoch)
            if each.last_line > last and len(rows) < MOST_SENT:
                lines = await lines_after(conn, run.uuid, epoch, last, MOST_SENT - len(rows))
                rows += [log_row(run_id, each.attempt, epoch, line) for line in lines]
        ended_at = run.finished_at or run.dead_at
        return rows, ended_at is not None and await Listings(conn).now() - ended_at > SETTLED

    key = ("log events", run_id, namespaces, sent.text())
    found = await request.read(key, read) if is_id(run_id) else None
    if found is None:
        raise no_run(run_id)
    return found


class LogPlaces:
    """The last line that a stream has sent of each attempt, by lease epoch. As a text, it is the id of an event.

    It has the newest MOST_PLACES attempts: of those before, no line that is stored later is sent.
    """

    def __init__(self, text: str = "") -> None:
        """Raises InvalidValue."""
        self._lines = dict(map(place_in_log, text.split(",", MOST_PLACES))) if text else {}

    def last_line(self, epoch: int) -> int:
        """The number of the last line that was sent of an attempt; 0: none."""
        if len(self._lines) >= MOST_PLACES and epoch < min(self._lines):
            return NO_LINE
        return self._lines.get(epoch, 0)

    def add(self, rows: Iterable[LogRow]) -> None:
        """Notes lines that were sent."""
        self._lines.update((row.lease_epoch, row.number) for row in rows)
        self._lines = dict(sorted(self._lines.items())[-MOST_PLACES:])

    def text(self) -> str:
        """The places as a text."""
        return ",".join(starmap(place_text, self._lines.items()))


def place_text(epoch: int, number: int) -> str:
    """The place of a line, for `place_in_log`."""
    return f"{epoch}.{number}"


def place_in_log(text: str) -> tuple[int, int]:
    """The lease epoch and the number of a line. Raises InvalidValue."""
    epoch, _, number = text.partition(".")
    if not (is_id_text(epoch) and is_id_text(number)):
        raise InvalidValue(f"the place in the log is {one_line(text)[:60]!r}: write the `next` of the page before")
    return int(epoch), int(number)


_SEARCH: Final = (
    f"A part of the line or of its source, in any case. A page examines about {MOST_SEARCHED:,} lines: one with fewer"
    " lines than `limit`, or none, has a `next` if older lines have not been searched."
)
_LOG: Final = (
    Parameter("attempt", "Of this attempt; the newest one without it.", "integer", least=1),
    Parameter("lease_epoch", "Of the attempt with this lease epoch.", "integer", least=1),
    Parameter("behind", "Only the lines that follow the one with this number, the first ones.", "integer"),
    Parameter("level", "Lines of this level and above.", choices=tuple(LEVELS)),
    Parameter("q", _SEARCH, longest=LONGEST_SEARCH),
    Parameter("limit", "Maximum number of lines; 50 without it.", "integer", least=1, most=MOST_LINES),
)
LOG_ENDPOINTS: Final = [
    Endpoint(
        path="/schedules/{id:int}/started-run",
        summary="Its newest run that has started, if there is one.",
        kind=RunRow,
        is_list=True,
        answer=_started_run,
        parameters=(Parameter("behind", "Only one with a higher id.", "integer", most=LARGEST_ID),),
    ),
    Endpoint(
        path="/runs/{id:int}/log/attempts",
        summary="Its attempts that have a log, oldest first.",
        kind=AttemptLog,
        is_list=True,
        answer=_logged_attempts,
    ),
    Endpoint(
        path="/runs/{id:int}/log",
        summary="What an attempt of it logged: the last lines, oldest first; the next page has those before.",
        kind=LogRow,
        is_list=True,
        answer=_log,
        parameters=(*_LOG, AFTER),
    ),
]
