"""Which schedules a list examines: at most EXAMINED of them, whatever their number.

A list whose schedules are fewer is whole: every filter and order sees all of them. Otherwise an index finds the
schedules that a filter names (the beginning of a name, a queue, a job type, a state or health that few have). If these
are too many as well, or no filter has an index, the order decides: by name or by next tick the list goes on behind the
last schedule that was examined; the last ends and the failures are read from the newest runs.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final, Literal, LiteralString, TypeAlias

from psycopg.rows import scalar_row, tuple_row

from wakeboard.store.statements import read
from wakeboard.text.humanize import counted
from wakeboard.views.queries.listings import BEGINNING, LIVE_QUEUES, SCHEDULE_QUEUES, beginning
from wakeboard.views.rules.thresholds import OVERDUE_AFTER

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping, Sequence

    import psycopg

Sort: TypeAlias = Literal["name", "next", "last", "failures"]
EXAMINED: Final = 10_000
_SAMPLED_PAGES: Final = 400  # of the table, of 20 to 30 schedules each


@dataclass(frozen=True, slots=True, kw_only=True)
class ScheduleFilter:
    """Selects the schedules that match all given fields.

    `words`: each is part of the name, the job type or the cron expression. `namespaces`: those that the viewer may see;
    None: all. `label`: its name and value; value None: any.
    """

    namespaces: frozenset[str] | None = None
    words: tuple[str, ...] = ()
    namespace: str | None = None
    job_type: str | None = None
    queue: str | None = None
    label: tuple[str, str | None] | None = None
    state: str | None = None
    health: str | None = None

    @property
    def within(self) -> list[str] | None:
        """The namespaces that it leaves, in the order of the index; None: all."""
        if self.namespace is None:
            return None if self.namespaces is None else sorted(self.namespaces)
        return [self.namespace] if self.namespaces is None or self.namespace in self.namespaces else []

    def values(self) -> dict[str, Any]:
        """The parameters of the queries."""
        return {
            "namespaces": self.within,
            "words": list(self.words),
            "job_type": self.job_type,
            "queue": self.queue,
            "label_name": self.label and self.label[0],
            "label_value": self.label and self.label[1],
            "state": self.state,
            "health": self.health,
            "late_after": OVERDUE_AFTER,
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class Selection:
    """The ids of the schedules that a list examines; removed ones may be among them.

    `is_whole`: there are no others that could match. `stopped_at`: the sort key and the id behind which the list goes
    on. `note`: what the list leaves out, in a sentence. `share`: of all schedules, if these are a sample.
    """

    ids: list[int]
    is_whole: bool = True
    stopped_at: tuple[Any, int] | None = None
    note: str = ""
    share: float = 1.0  # of all schedules, if these are a sample
    matching: int = 0  # so many match at least, if only a page of them is examined


# -- by name -----------------------------------------------------------------------------------------------------------

_FROM_NAME: LiteralString = """
select id, namespace, name
  from wakeboard.job_definitions
 where (namespace collate "C", name collate "C") >= (%(namespace)s, %(name)s)
   and (namespace collate "C", name collate "C", id) > (%(namespace)s, %(name)s, %(after_id)s::bigint)
 order by namespace collate "C", name collate "C", id
 limit %(most)s
"""
# A nested loop reads the namespaces in their order, and stops at the limit.
_FROM_NAME_WITHIN: LiteralString = """
select def.id, def.namespace, def.name
  from unnest(%(namespaces)s::text[]) as mine (namespace)
 cross join lateral (
   select id, namespace, name
     from wakeboard.job_definitions
    where namespace collate "C" = mine.namespace
      and name collate "C" >= case when mine.namespace = %(namespace)s then %(name)s else '' end
      and (namespace collate "C", name collate "C", id) > (%(namespace)s, %(name)s, %(after_id)s::bigint)
    order by name collate "C", id
    limit %(most)s) as def
 limit %(most)s
"""
# Whether there are more than are examined: without their names, which are in no order on the disk.
_MANY: LiteralString = "select true from wakeboard.job_definitions offset %(most)s limit 1"
_MANY_WITHIN: LiteralString = """
select true
  from unnest(%(namespaces)s::text[]) as mine (namespace)
 cross join lateral (
   select from wakeboard.job_definitions where namespace collate "C" = mine.namespace limit %(most)s + 1) as def
offset %(most)s limit 1
"""

# -- by what few schedules have ----------------------------------------------------------------------------------------

_OF_TYPE: LiteralString = """
  from (select queue from used where queue = coalesce(%(queue)s, queue) limit 1000) as used
 cross join lateral (
   select id from wakeboard.job_definitions as def
    where def.removed_at is null and def.queue = used.queue
      and (%(job_type)s::text is null or def.job_type = %(job_type)s)
    limit %(most)s) as def
"""
# A null: there are more, which the index alone says.
_BY_TYPE: LiteralString = f"""
with recursive {SCHEDULE_QUEUES}, many as materialized (
  select exists (select {_OF_TYPE.replace("select id", "select")} offset %(most)s - 1) as found)
select null where (select found from many)
union all
(select def.id {_OF_TYPE} where not (select found from many) limit %(most)s)
"""
_STALLED: LiteralString = """
(select id from wakeboard.job_definitions where schedule_error is not null and removed_at is null limit %(most)s)
"""
_DEAD: LiteralString = """
select definition_id from (
  select definition_id from wakeboard.job_runs where dead_at is not null order by dead_at desc limit %(most)s) as dead
 where definition_id is not null
"""
_FAILED: LiteralString = """
select definition_id from (
  select definition_id from wakeboard.job_runs
   where failed_at is not null and dead_at is null order by failed_at desc limit %(most)s) as failed
 where definition_id is not null
"""
# A null: there are more runs than these queries read.
_MORE_DEAD: LiteralString = """
select null where exists (select from wakeboard.job_runs where dead_at is not null offset %(most)s - 1)
"""
_MORE_FAILED: LiteralString = """
select null where exists (
  select from wakeboard.job_runs where failed_at is not null and dead_at is null offset %(most)s - 1)
"""
_LATE: LiteralString = f"""
{LIVE_QUEUES}, late (id) as (
  select id from wakeboard.due_schedules(statement_timestamp() - %(late_after)s::interval, %(most)s)
  union
  select due.definition_id
    from live cross join generate_series(1, 5) as level (priority)
   cross join lateral (
     select definition_id from wakeboard.job_runs
      where queue = live.queue and priority = level.priority and limit_key is null and crash_count < 2
        and dead_at is null and run_at < statement_timestamp() - %(late_after)s::interval
      order by run_at, id limit %(most)s) as due
  union
  (select definition_id from wakeboard.job_runs
    where limit_key is not null and not holds_slot and crash_count < 2 and dead_at is null limit %(most)s))
select id from late where id is not null limit %(most)s
"""
_CIRCUITS: LiteralString = """
select id from wakeboard.job_definitions where circuit_opened_at is not null and removed_at is null limit %(most)s
"""
_MISSED: LiteralString = """
(select id from wakeboard.job_definitions where success_missed_at is not null limit %(most)s)
"""
_ENDED: LiteralString = """
select id from wakeboard.job_definitions
 where removed_at is null and not suspended and schedule_error is null and next_run_at is null limit %(most)s
"""
# A pause of everything or of a queue holds schedules that no index finds.
_PAUSED: LiteralString = """
select case when scope ^@ 'schedule:' then substr(scope, 10)::bigint end from wakeboard.pauses as pause limit %(most)s
"""
_BY_STATE: Final[Mapping[str, LiteralString]] = {
    "stalled": _STALLED,
    "circuit open": _CIRCUITS,
    "paused": _PAUSED,
    "ended": _ENDED,
}
_BY_HEALTH: Final[Mapping[str, LiteralString]] = {
    "failing": f"{_DEAD} union {_STALLED} union {_MISSED} union {_MORE_DEAD}",
    "retrying": f"{_FAILED} union {_MORE_FAILED}",
    "late": _LATE,
}

_OF_NEWEST: Final[Mapping[LiteralString, str]] = {
    _BY_HEALTH[health]: f"There are more than {counted(EXAMINED, run)}: this lists the schedules of the newest ones."
    for health, run in (("failing", "dead run"), ("retrying", "failed run"))
}


def _narrowings(wanted: ScheduleFilter) -> Iterator[tuple[LiteralString, dict[str, Any]]]:
    """Queries of the schedules that one part of the filter leaves, the most selective part first."""
    values = {"most": EXAMINED + 1, "late_after": OVERDUE_AFTER}
    if wanted.state in _BY_STATE:
        yield _BY_STATE[wanted.state], values
    if wanted.health in _BY_HEALTH:
        yield _BY_HEALTH[wanted.health], values
    if wanted.queue or wanted.job_type:
        yield _BY_TYPE, {**values, "queue": wanted.queue, "job_type": wanted.job_type}


# -- by the order ------------------------------------------------------------------------------------------------------

_BY_NEXT: LiteralString = """
select id, next_run_at::text
  from wakeboard.job_definitions as def
 where removed_at is null and not suspended and schedule_error is null
   and (next_run_at, id) > (%(after_key)s::timestamptz, %(after_id)s::bigint)
 order by def.next_run_at, id
 limit %(most)s
"""
_BY_LAST: LiteralString = f"""
select distinct definition_id from (
  (select definition_id from wakeboard.job_run_history order by id desc limit %(most)s)
  union all
  ({_DEAD})) as newest
 where definition_id is not null
"""
_BY_FAILURES: LiteralString = f"{_DEAD} union {_FAILED}"
_SAMPLE: LiteralString = """
select id from wakeboard.job_definitions tablesample system (%(percent)s) repeatable (1)
 where removed_at is null and (%(namespaces)s::text[] is null or namespace = any (%(namespaces)s))
"""
_PAGES: LiteralString = """
select pg_relation_size('wakeboard.job_definitions') / current_setting('block_size')::bigint
"""
_MORE: Final = f"There are more than {EXAMINED:,} schedules"
_BEGINNINGS: Final = f"{_MORE}: a search finds the beginnings of names, as NAME or NAMESPACE/NAME."
_BY_NAME: Final = f"{_MORE}: this page has those that match among some of them, and a next page goes on."
_ONLY_NEXT: Final = f"{_MORE}: this order lists those with a next tick."
_ONLY_LAST: Final = f"{_MORE}: this order lists those of the newest {EXAMINED:,} runs."
_ONLY_FAILURES: Final = f"{_MORE}: this order lists those with failed or dead runs."


async def select_schedules(
    conn: psycopg.AsyncConnection[Any], wanted: ScheduleFilter, sort: Sort, after: tuple[Any, int] | None, most: int
) -> Selection:
    """The first `most` schedules, among which are too many for `few_schedules`, in this order.

    `after`: the sort key and the id behind which they begin.
    """
    match sort:
        case "name":
            ids, stopped_at = await schedules_from(conn, wanted.within, after, most)
            fits_all = wanted == ScheduleFilter(namespaces=wanted.namespaces, namespace=wanted.namespace)
            note, matching = ("", EXAMINED) if fits_all else (_BY_NAME, 0)
            return Selection(ids=ids, is_whole=False, stopped_at=stopped_at, note=note, matching=matching)
        case "next":
            found = await _by_next(conn, *(after or ("-infinity", 0)), most)
            return replace(found, matching=EXAMINED if wanted == ScheduleFilter() else 0)
        case "last":
            return await _of_runs(conn, _BY_LAST, _ONLY_LAST)
        case "failures":
            return await _of_runs(conn, _BY_FAILURES, _ONLY_FAILURES)


async def sample_schedules(conn: psycopg.AsyncConnection[Any], wanted: ScheduleFilter) -> Selection:
    """All schedules that a filter leaves, or a sample of them if they are too many."""
    found = await few_schedules(conn, wanted)
    if found is not None:
        return found
    (pages,) = await read(conn, scalar_row, _PAGES)
    share = min(1.0, _SAMPLED_PAGES / max(1, pages))
    values = {"percent": 100 * share, "namespaces": wanted.within}
    ids: list[int] = await read(conn, scalar_row, _SAMPLE, values)
    note = f"{_MORE}. The numbers are estimates from a sample of {len(ids):,}; only these are named, and no pile-ups."
    return Selection(ids=ids, is_whole=False, note=note, share=share)


async def few_schedules(conn: psycopg.AsyncConnection[Any], wanted: ScheduleFilter) -> Selection | None:
    """The schedules that an index finds for the filter; None: there may be more than EXAMINED."""
    within = wanted.within
    values = {"most": EXAMINED, "namespaces": within}
    if not await read(conn, scalar_row, _MANY if within is None else _MANY_WITHIN, values):
        return Selection(ids=(await schedules_from(conn, within, None))[0])
    for query, values in _narrowings(wanted):
        some: list[int | None] = await read(conn, scalar_row, query, values)
        ids = [each for each in some if each is not None]
        if len(some) <= EXAMINED and None not in some:
            return Selection(ids=ids)
        if query in _OF_NEWEST:
            return Selection(ids=ids, is_whole=False, note=_OF_NEWEST[query])
    if wanted.words:
        begin = await schedules_beginning(conn, wanted.words[0])
        return Selection(ids=begin[:EXAMINED], is_whole=len(begin) <= EXAMINED, note=_BEGINNINGS)
    return None


async def schedules_beginning(conn: psycopg.AsyncConnection[Any], text: str, *, whole: bool = False) -> list[int]:
    """The ids of schedules whose NAME or NAMESPACE/NAME begins with a text (`whole`: is it), removed ones too.

    More than EXAMINED ids: there may be others.
    """
    query: LiteralString = f"{BEGINNING} select id from beginning"
    return await read(conn, scalar_row, query, beginning(text, EXAMINED + 1, whole=whole))


async def schedules_from(
    conn: psycopg.AsyncConnection[Any],
    within: Collection[str] | None,
    after: tuple[Sequence[str], int] | None,
    count: int = EXAMINED,
) -> tuple[list[int], tuple[list[str], int] | None]:
    """The ids of the next `count` schedules by name in these namespaces (None: all), also removed ones.

    `after`: namespace and name, and the id, of the last one before. Returns the same of the last one of these, or None
    if there are no more.
    """
    (namespace, name), after_id = after or (("", ""), 0)
    values = {"namespace": namespace, "name": name, "after_id": after_id, "most": count + 1}
    if within is None:
        rows = await read(conn, tuple_row, _FROM_NAME, values)
    else:
        later = [each for each in within if each >= namespace]
        rows = await read(conn, tuple_row, _FROM_NAME_WITHIN, {**values, "namespaces": later})
    ids = [row[0] for row in rows[:count]]
    return ids, ([*rows[count - 1][1:]], ids[-1]) if len(rows) > count else None


async def _by_next(conn: psycopg.AsyncConnection[Any], after_key: str, after_id: int, most: int) -> Selection:
    values = {"after_key": after_key, "after_id": after_id, "most": most}
    rows: list[tuple[int, str]] = await read(conn, tuple_row, _BY_NEXT, values)
    stopped = (rows[-1][1], rows[-1][0]) if len(rows) == most else None
    return Selection(ids=[row[0] for row in rows], is_whole=False, stopped_at=stopped, note=_ONLY_NEXT)


async def _of_runs(conn: psycopg.AsyncConnection[Any], query: LiteralString, note: str) -> Selection:
    ids: list[int | None] = await read(conn, scalar_row, query, {"most": EXAMINED})
    return Selection(ids=[each for each in ids if each is not None], is_whole=False, note=note)
