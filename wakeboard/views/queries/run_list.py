"""Lists runs by a search, live and finished ones together, page by page.

Each page costs a bounded time, however many millions of runs there are:

- Runs are listed by id, newest first, by walking the primary keys of both tables. A page goes on after the last id of
  the page before, so runs that are inserted or that finish meanwhile cause no gap and no repeat.
- A search that the scan cannot skip to examines at most `SEARCHED` ids of each table. If it finds too few, the next
  page goes on where it stopped: nothing is unreachable, and the page says how far it has searched.
- A few searches have an index of their own: runs of up to `MOST_DEFINITIONS` schedules (unfinished ones first, then by
  the time of their end), dead runs (by that time), failed ones (by their last attempt), running ones (those of the
  oldest due runs that have a lease), and runs by id.

Needs SELECT on the tables, which the viewer's and the operator's role have.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, Final, LiteralString, NamedTuple

from psycopg.rows import class_row, scalar_row, tuple_row
from psycopg.sql import SQL

from wakeboard.errors import InvalidValue
from wakeboard.store.statements import read
from wakeboard.text.object_ids import LARGEST_ID
from wakeboard.views.queries.index_order import prefer_index_order
from wakeboard.views.queries.listings import LIVE, LIVE_COLUMNS, LIVE_QUEUES, PAST, PAST_COLUMNS, Listings
from wakeboard.views.queries.run_conditions import conditions_of, patterns
from wakeboard.views.queries.schedule_selection import EXAMINED, schedules_beginning, schedules_from
from wakeboard.views.rules.run_rows import RunRow

if TYPE_CHECKING:
    from collections.abc import Collection

    import psycopg

    from wakeboard.views.queries.run_conditions import Conditions, Table
    from wakeboard.views.rules.run_search import RunSearch

SEARCHED: Final = 50_000  # ids of each table that a page examines
MOST_DEFINITIONS: Final = 1000
_TIES: LiteralString = "20"  # runs that may have ended at the same time as the last one of the page before
FRONT: Final = 10_000  # due runs of each queue and priority among which the running ones are

_FIRST_ID: Final = 0  # smaller than every id
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND: Final = timedelta(microseconds=1)
_NEVER: Final = datetime(9999, 12, 31, tzinfo=UTC)


class Position(NamedTuple):
    """A position in a list: after the run with this key. `part`: the part of the list that it belongs to."""

    part: str
    moment: datetime
    id: int

    def __str__(self) -> str:
        micros = (self.moment - _EPOCH) // timedelta(microseconds=1)
        return f"{self.part}.{micros}.{self.id}"


def position(text: str) -> Position:
    """The position that a URL names. Raises InvalidValue."""
    part, _, rest = text.partition(".")
    micros, _, run_id = rest.partition(".")
    try:
        if part in _PARTS and len(text) < 60:  # noqa: PLR2004 - two numbers of 64 bits
            return Position(
                part, _EPOCH + timedelta(microseconds=int(micros)), min(max(int(run_id), _FIRST_ID), LARGEST_ID)
            )
    except (ValueError, OverflowError):
        pass
    raise InvalidValue("the address names no position in the list of runs; go back to the first page")


@dataclass(frozen=True, slots=True, kw_only=True)
class ListedRun(RunRow):
    """A run of a list. `moment`: the time by which its part of the list is ordered; the epoch where that is its id."""

    moment: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class RunPage:
    """A page of a list of runs.

    `newer`, `older`: where the neighbouring pages begin; None: there is none. `searched`: about how many runs were
    examined, if that ended the page before it was full; None: the page is full, or the list ends.
    """

    now: datetime
    runs: list[ListedRun]
    newer: Position | None
    older: Position | None
    searched: int | None


# -- the parts of a list -----------------------------------------------------------------------------------------------


class _Part(NamedTuple):
    """Runs of a part of a list in the order in which they were read.

    `stopped`: where the reading stopped before the end of the part, and `examined`: after how many rows.
    """

    runs: list[ListedRun]
    stopped: Position | None = None
    examined: int = 0


def _by_moment(moment: LiteralString) -> LiteralString:
    """The range that a page reads, and its order, in a part that is ordered by a time. {}: conditions."""
    return f"""
       {moment} between %(low)s and %(high)s and ({moment}, run.id) > (%(low)s, %(low_id)s)
       and ({moment}, run.id) < (%(high)s, %(high_id)s) {{}}
"""


_ORDER: Final[dict[bool, LiteralString]] = {True: "desc", False: "asc"}
_NO_MOMENT: LiteralString = "timestamptz 'epoch' as moment"


def _id_query(order: LiteralString) -> LiteralString:
    return f"""
select * from (
  (select {LIVE_COLUMNS}, {_NO_MOMENT} from wakeboard.job_runs as run
    where %(live)s and run.id > %(low_id)s and run.id < %(high_id)s {{live}}
    order by run.id {order} limit %(count)s)
  union all
  (select {PAST_COLUMNS}, {_NO_MOMENT} from wakeboard.job_run_history as run
    where %(past)s and run.id > %(low_id)s and run.id < %(high_id)s {{past}}
    order by run.id {order} limit %(count)s)
) as run
 order by id {order}
 limit %(count)s
"""


def _id_bound_query(order: LiteralString) -> LiteralString:
    """The ids at which `SEARCHED` rows of each table have been examined. Reads their indexes only."""
    return f"""
select (select id from wakeboard.job_runs where %(live)s and id > %(low_id)s and id < %(high_id)s
         order by id {order} offset %(searched)s limit 1),
       (select id from wakeboard.job_run_history where %(past)s and id > %(low_id)s and id < %(high_id)s
         order by id {order} offset %(searched)s limit 1)
"""


RUNNING: LiteralString = f"""
{LIVE_QUEUES}, leased (id) as materialized (
  select due.id
    from live
   cross join generate_series(1, 5) as level (priority)
   cross join lateral (
     select id, locked_by from wakeboard.job_runs
      where queue = live.queue and priority = level.priority and limit_key is null and crash_count < 2
        and dead_at is null and run_at <= statement_timestamp()
      order by run_at, id
      limit %(front)s) as due
   where live.queue is not null and due.locked_by <> 0
  union all
  (select id from wakeboard.job_runs where holds_slot limit %(front)s)
  union all
  (select id from wakeboard.job_runs where crash_count >= 2 and dead_at is null and locked_by <> 0 limit %(front)s)
)"""


def _running_query(order: LiteralString) -> LiteralString:
    """Running runs are among the first due ones of each queue and priority, or they hold a slot, or are quarantined."""
    return f"""
{RUNNING}
select {LIVE_COLUMNS}, {_NO_MOMENT} from wakeboard.job_runs as run
 where run.id = any (array(select id from leased)) and run.id > %(low_id)s and run.id < %(high_id)s {{}}
 order by run.id {order}
 limit %(count)s
"""


def _schedule_live_query(order: LiteralString) -> LiteralString:
    return f"""
select {LIVE_COLUMNS}, {_NO_MOMENT} from wakeboard.job_runs as run
 where run.definition_id = any (%(definitions)s) and run.id > %(low_id)s and run.id < %(high_id)s {{}}
 order by run.id {order}
 limit %(count)s
"""


def _schedule_past_query(order: LiteralString) -> LiteralString:
    return f"""
select run.*
  from unnest(%(definitions)s::bigint[]) as one (definition)
 cross join lateral (
   select {PAST_COLUMNS}, run.finished_at as moment from wakeboard.job_run_history as run
    where run.definition_id = one.definition and {_by_moment("run.finished_at")}
    order by run.finished_at {order}, run.id {order}
    limit %(count)s) as run
 order by moment {order}, id {order}
 limit %(count)s
"""


def _schedule_past_bound_query(order: LiteralString) -> LiteralString:
    """The time at which `searched` runs of one of the schedules have been examined."""
    return f"""
select nth.finished_at
  from unnest(%(definitions)s::bigint[]) as one (definition)
 cross join lateral (
   select finished_at from wakeboard.job_run_history as run
    where run.definition_id = one.definition and run.finished_at between %(low)s and %(high)s
    order by run.finished_at {order} offset %(searched)s limit 1) as nth
 order by 1 {order} limit 1
"""


def _schedule_past_page_query(order: LiteralString) -> LiteralString:
    """The time of the last run of a page without conditions. Reads an index only, so that many schedules are cheap."""
    return f"""
select newest.finished_at
  from unnest(%(definitions)s::bigint[]) as one (definition)
 cross join lateral (
   select finished_at from wakeboard.job_run_history as run
    where run.definition_id = one.definition and run.finished_at between %(low)s and %(high)s
    order by run.finished_at {order} limit %(count)s + {_TIES}) as newest
 order by 1 {order} offset %(count)s + {_TIES} - 1 limit 1
"""


# The parts of live runs that have an index of their own: the time that orders it, and its predicate.
_TIMED: Final[dict[str, tuple[LiteralString, LiteralString]]] = {
    "dead": ("run.dead_at", "run.dead_at is not null"),
    "failed": ("run.failed_at", "run.failed_at is not null and run.dead_at is null"),
}


def _timed_query(moment: LiteralString, rows: LiteralString, order: LiteralString) -> LiteralString:
    """Live runs by a time that has a partial index: `rows` is its predicate."""
    return f"""
select {LIVE_COLUMNS}, {moment} as moment from wakeboard.job_runs as run
 where {rows} and {_by_moment(moment)}
 order by {moment} {order}, run.id {order}
 limit %(count)s
"""


def _timed_bound_query(moment: LiteralString, rows: LiteralString, order: LiteralString) -> LiteralString:
    return f"""
select {moment} from wakeboard.job_runs as run
 where {rows} and {moment} between %(low)s and %(high)s
 order by {moment} {order} offset %(searched)s limit 1
"""


@dataclass(slots=True)
class RunList:
    """The list of one search. `definitions`: the schedules that it is read by; None: not by schedule."""

    conn: psycopg.AsyncConnection[Any]
    search: RunSearch
    now: datetime
    namespaces: Collection[str] | None
    definitions: list[int] | None
    searched: int

    @property
    def parts(self) -> list[str]:
        """The parts of the list, newest first."""
        statuses = self.search.statuses
        if self.definitions is not None:
            tables = {"live": LIVE, "past": PAST}
            return [part for part, own in tables.items() if any(status in own for status in statuses)]
        if len(statuses) == 1 and statuses[0] in {"dead", "failed", "running"} and not self.names_ids:
            return [statuses[0]]
        return ["id"]

    @property
    def names_ids(self) -> bool:
        """Whether the search names the ids of its runs, which an index finds."""
        return any(not term.negated for term in self.search.of("id"))

    def conditions(self, table: Table) -> Conditions:
        """The conditions of this search for a table."""
        return conditions_of(self.search, table, self.now, self.namespaces, by_schedule=self.definitions is not None)

    async def read(self, part: str, after: Position | None, count: int, *, descending: bool) -> _Part:
        """Up to `count` runs of a part, from `after` on."""
        low, high = Position(part, _EPOCH, _FIRST_ID), Position(part, _NEVER, LARGEST_ID)
        if after is not None:
            low, high = (low, after) if descending else (after, high)
        match part:
            case "id":
                return await self._by_id(low, high, count, descending=descending)
            case "running":
                return await self._live(_running_query(_ORDER[descending]), low, high, count)
            case "live":
                return await self._live(_schedule_live_query(_ORDER[descending]), low, high, count)
            case _:
                return await self._by_moment(part, low, high, count, descending=descending)

    async def _by_id(self, low: Position, high: Position, count: int, *, descending: bool) -> _Part:
        live, past = self.conditions("live"), self.conditions("past")
        values = {
            "live": any(status in LIVE for status in self.search.statuses),
            "past": any(status in PAST for status in self.search.statuses),
            "low_id": low.id,
            "high_id": high.id,
            "searched": self.searched - 1,
            "count": count,
        }
        stopped = None
        await prefer_index_order(self.conn, sort=self.names_ids)
        if (live.parts or past.parts) and not self.names_ids:
            query = _id_bound_query(_ORDER[descending])
            bounds = [bound for bound in (await read(self.conn, tuple_row, query, values))[0] if bound is not None]
            if bounds:  # both tables are read up to the same id
                bound = max(bounds) if descending else min(bounds)
                values["low_id" if descending else "high_id"] = bound - 1 if descending else bound + 1
                stopped = Position("id", _EPOCH, bound)
        query = SQL(_id_query(_ORDER[descending])).format(live=live.and_(), past=past.and_())
        runs = await read(self.conn, class_row(ListedRun), query, {**values, **live.values, **past.values})
        examined = self.searched * (values["live"] + values["past"])
        return _Part(runs, stopped if len(runs) < count else None, examined)

    async def _live(self, query: LiteralString, low: Position, high: Position, count: int) -> _Part:
        await prefer_index_order(self.conn)
        live = self.conditions("live")
        values = {
            "definitions": self.definitions,
            "front": FRONT,
            "low_id": low.id,
            "high_id": high.id,
            "count": count,
        }
        return _Part(
            await read(self.conn, class_row(ListedRun), SQL(query).format(live.and_()), {**values, **live.values})
        )

    async def _by_moment(self, part: str, low: Position, high: Position, count: int, *, descending: bool) -> _Part:
        order = _ORDER[descending]
        conditions = self.conditions("past" if part == "past" else "live")
        searched = self.searched
        if part == "past":
            query, bound_query = _schedule_past_query(order), _schedule_past_bound_query(order)
            searched = max(1, searched // 3 // max(1, len(self.definitions or ())))  # their rows are far apart
        else:
            query, bound_query = _timed_query(*_TIMED[part], order), _timed_bound_query(*_TIMED[part], order)
        if high.id == _FIRST_ID:  # all runs of that time were examined
            high = Position(part, high.moment - _MICROSECOND, LARGEST_ID)
        if low.id == LARGEST_ID:
            low = Position(part, low.moment + _MICROSECOND, _FIRST_ID)
        values: dict[str, Any] = {
            "definitions": self.definitions,
            "low": low.moment,
            "low_id": low.id,
            "high": high.moment,
            "high_id": high.id,
            "searched": searched - 1,
            "count": count,
        }
        stopped = None
        await prefer_index_order(self.conn, sort=False)
        if part == "past" and not conditions.parts:
            bound_query = _schedule_past_page_query(order)
        if conditions.parts or part == "past":
            bound = await read(self.conn, scalar_row, bound_query, values)
            if bound and descending:
                values |= {"low": bound[0], "low_id": _FIRST_ID}
                stopped = Position(part, bound[0], _FIRST_ID)
            elif bound:
                values |= {"high": bound[0], "high_id": LARGEST_ID}
                stopped = Position(part, bound[0], LARGEST_ID)
        runs = await read(
            self.conn, class_row(ListedRun), SQL(query).format(conditions.and_()), {**values, **conditions.values}
        )
        examined = searched * len(self.definitions or (0,))
        return _Part(runs, stopped if len(runs) < count else None, examined)


_PARTS: Final = frozenset({"id", "live", "past", "dead", "failed", "running"})
_DEFINITIONS: LiteralString = """
select id from wakeboard.job_definitions as def
 where id = any (%(ids)s)
   and (%(namespaces)s::text[] is null or namespace = any (%(namespaces)s))
   and namespace || '/' || name like any (%(names)s)
 limit %(count)s
"""


async def schedules_of(
    conn: psycopg.AsyncConnection[Any], search: RunSearch, namespaces: Collection[str] | None
) -> list[int] | None:
    """The ids of the schedules whose runs a search can find, if it is read by them: at most `MOST_DEFINITIONS`."""
    named = [term for term in search.of("schedule") if not term.negated]
    by_ids = any(not term.negated for term in search.of("id"))
    if by_ids or len(named) > 1 or (namespaces is None and not named):
        return None
    within = None if namespaces is None else sorted(namespaces)
    if not named:
        ids, further = await schedules_from(conn, within, None, MOST_DEFINITIONS)
        return None if further else ids
    ids = list[int]()
    for value in named[0].values:
        begin = value.text.partition("*")[0] if value.wild else value.text
        found = await schedules_beginning(conn, begin, whole=not value.wild)
        if len(found) > EXAMINED:
            return None
        ids += found
    values = {"ids": ids, "namespaces": within, "names": patterns(named[0]), "count": MOST_DEFINITIONS + 1}
    fitting = await read(conn, scalar_row, _DEFINITIONS, values)
    return fitting if len(fitting) <= MOST_DEFINITIONS else None


async def open_list(
    conn: psycopg.AsyncConnection[Any], search: RunSearch, namespaces: Collection[str] | None, searched: int = SEARCHED
) -> RunList:
    """The list of a search. `namespaces`: only runs of schedules in these; None: all runs."""
    now = await Listings(conn).now()
    definitions = await schedules_of(conn, search, namespaces)
    return RunList(conn, search, now, namespaces, definitions, searched)


# -- what pages call ---------------------------------------------------------------------------------------------------


async def read_run_page(
    conn: psycopg.AsyncConnection[Any],
    search: RunSearch,
    *,
    namespaces: Collection[str] | None,
    count: int,
    after: Position | None = None,
    back: bool = False,
    oldest_first: bool = False,
    searched: int = SEARCHED,
) -> RunPage:
    """The page of up to `count` runs that follows `after`, or with `back` the one before it.

    None: the first page. `namespaces`: only runs of schedules in these; None: all runs. `searched`: how many ids of
    each table the page examines at most. Raises WakeboardError.
    """
    runs_list = await open_list(conn, search, namespaces, searched)
    descending = oldest_first == back
    parts = runs_list.parts if descending else runs_list.parts[::-1]
    if after is not None and after.part in parts:
        parts = parts[parts.index(after.part) :]
    else:
        after, back = None, False
    runs: list[ListedRun] = []
    positions: list[Position] = []
    stopped, examined = None, 0
    for part in parts:
        start = after if after is not None and after.part == part else None
        found = await runs_list.read(part, start, count + 1 - len(runs), descending=descending)
        runs += found.runs
        positions += [Position(part, run.moment, run.id) for run in found.runs]
        stopped, examined = found.stopped, examined + found.examined
        if stopped is not None or len(runs) > count:
            break
    further = positions[count - 1] if len(runs) > count else stopped
    runs, positions = runs[:count], positions[:count]
    if back and further is None:  # less than a page is left: show the first one
        return await read_run_page(
            conn, search, namespaces=namespaces, count=count, oldest_first=oldest_first, searched=searched
        )
    behind = (positions[0] if positions else after) if after is not None else None
    newer, older = (further, behind) if back else (behind, further)
    return RunPage(
        now=runs_list.now,
        runs=runs[::-1] if back else runs,
        newer=newer,
        older=older,
        searched=examined if stopped else None,
    )
