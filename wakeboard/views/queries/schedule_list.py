"""Read-only queries of the lists of schedules: a page of the list, its runs, and the values to filter by.

A list examines a bounded number of schedules (schedule_selection.py). Runs are read for the schedules on the page only,
except for a list that is sorted or filtered by runs: it reads the dead runs, at most 200 other live runs of each
schedule, and one finished run. Lists are read by key, and no sort uses OFFSET.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final, LiteralString

from psycopg.rows import class_row, tuple_row

from wakeboard.dependencies.queries import PAUSE_OF_SCHEDULE, STATE, read_blocking_reasons
from wakeboard.store.statements import read
from wakeboard.ticks.compiled_ticks import compiled_or_none
from wakeboard.views.queries.listings import PAUSED_BY
from wakeboard.views.queries.schedule_selection import (
    EXAMINED,
    ScheduleFilter,
    Selection,
    Sort,
    few_schedules,
    sample_schedules,
    schedules_from,
    select_schedules,
)
from wakeboard.views.rules.schedule_rows import ScheduleRow

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from datetime import datetime

    import psycopg

STATES: Final = ("active", "paused", "circuit open", "suspended", "stalled", "on demand", "ended")
HEALTHS: Final = ("failing", "retrying", "late", "ok")
LIVE_RUNS_READ: LiteralString = "200"  # of one schedule
DEAD_RUNS_READ: LiteralString = "100000"  # of all schedules
CHOICES_EVERY: Final = 5  # of a sample, in which the values are looked for
MAX_CHOICES: LiteralString = "200"  # values of one field to filter by


@dataclass(frozen=True, slots=True, kw_only=True)
class ListedSchedule:
    """A schedule in the list. `sort_key`: its place, to read on from here.

    `state`: one of STATES. `schedule_error`: why it is stalled. `pause_*`, `paused_*`: the pause that holds it.
    """

    id: int
    namespace: str
    name: str
    source: str
    job_type: str
    queue: str
    schedule: str | None
    cron_fields: str | None
    time_zone: str
    state: str
    schedule_error: str | None
    pause_reason: str | None
    paused_at: datetime | None
    paused_by: str | None
    next_run_at: datetime | None
    runs_after: list[str] | None
    sort_key: str
    total: int  # of those that were examined, how many fit


@dataclass(frozen=True, slots=True, kw_only=True)
class ScheduleHealth:
    """The live runs of a schedule, and its `health`: one of HEALTHS.

    `is_partial`: it has more live runs than were counted. Dead runs are all counted.
    """

    id: int
    queued: int
    running: int
    failed: int
    dead: int
    is_partial: bool
    health: str


@dataclass(frozen=True, slots=True, kw_only=True)
class RecentRun:
    """A run in the strip of its schedule. `ended_at` None: it is running.

    A skipped run stands for `skipped_count` ticks. `reason`: why it was skipped or cancelled; of a failed one the type
    of its error.
    """

    definition_id: int
    id: int
    status: str
    scheduled_for: datetime
    started_at: datetime | None
    ended_at: datetime | None
    skipped_count: int | None
    reason: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class FilterChoices:
    """The namespaces, job types, queues and labels (NAME=VALUE) that schedules have: the first 200 of each."""

    namespaces: tuple[str, ...]
    job_types: tuple[str, ...]
    queues: tuple[str, ...]
    labels: tuple[str, ...]


RUNS_AFTER: LiteralString = """(
         select array_agg(parent_name order by place)
           from wakeboard.schedule_dependencies where definition_id = def.id)"""
SCHEDULES: LiteralString = f"""
  select def.id, def.namespace, def.name, def.source, def.job_type::text, def.queue::text, def.schedule,
         def.cron_fields, def.time_zone, def.dst_gap, def.dst_overlap, def.schedule_error, def.next_run_at,
         def.priority::integer, def.concurrency_policy, def.generation, def.spec_hash, def.success_missed_at,
         nullif(def.last_tick_at, 'epoch') as last_tick_at,
         pause.scope as pause_scope, pause.reason as pause_reason, pause.paused_at,
         {STATE} as state
    from wakeboard.job_definitions as def {PAUSE_OF_SCHEDULE}
   where def.id = any (%(ids)s) and def.removed_at is null
         and (%(namespaces)s::text[] is null or def.namespace = any (%(namespaces)s))
         and (%(job_type)s::text is null or def.job_type = %(job_type)s)
         and (%(queue)s::text is null or def.queue = %(queue)s)
         and (%(label_name)s::text is null
              or def.labels ->> %(label_name)s = coalesce(%(label_value)s::text, def.labels ->> %(label_name)s))
         and not exists (
           select from unnest(%(words)s::text[]) as word
            where position(lower(word)
                           in lower(def.namespace || '/' || def.name || ' ' || def.job_type || ' '
                                    || coalesce(def.schedule, ''))) = 0)
"""
# The live runs of a schedule, and the one that ended last: a dead one, or a finished one.
RUNS_OF_SCHEDULE: LiteralString = """
 cross join lateral (
    select count(*) filter (where status = 'queued') as queued, count(*) filter (where status = 'running') as running,
           count(*) filter (where status = 'failed') as failed, count(*) filter (where status = 'dead') as dead,
           min(dead_at) as oldest_dead_at, min(run_at) filter (where status = 'queued') as oldest_due_at
      from wakeboard.job_runs
     where definition_id = def.id) as live
  left join lateral (
    (select id, case status when 'dead' then 'discarded' else status::text end as status,
            case when trigger = 'tick' then coalesce(skipped_until, scheduled_for) end as tick,
            finished_at as ended_at, reason
       from wakeboard.job_run_history
      where definition_id = def.id
      order by finished_at desc limit 1)
    union all
    (select id, 'dead', case when trigger = 'tick' then scheduled_for end, dead_at, null
       from wakeboard.job_runs
      where definition_id = def.id and dead_at is not null
      order by dead_at desc limit 1)
     order by ended_at desc limit 1) as last on true
"""
_ROWS: LiteralString = f"""
with schedule as not materialized ({SCHEDULES})
select def.id, namespace, name, source, job_type, queue, priority, schedule, time_zone, concurrency_policy, generation,
       spec_hash, state, schedule_error, next_run_at, {RUNS_AFTER} as runs_after, last_tick_at, last.id as last_run_id,
       last.status as last_status, last.ended_at as last_finished_at, live.queued, live.running, live.failed, live.dead
  from schedule as def {RUNS_OF_SCHEDULE}
 order by namespace collate "C", name collate "C", id
"""
# An index has the dead runs, of which there are few. No index has a status that a claim writes, so other live runs are
# read schedule by schedule, a bounded number of each.
_DEAD: LiteralString = f"""
dead as materialized (
  select definition_id, count(*)::integer as runs, max(dead_at) as dead_at
    from (select definition_id, dead_at from wakeboard.job_runs where dead_at is not null limit {DEAD_RUNS_READ}) as run
   group by definition_id)
"""
_JOIN_DEAD: LiteralString = "left join dead on dead.definition_id = schedule.id"
_LIVE: LiteralString = f"""
    left join lateral (
      select count(*) filter (where status = 'queued')::integer as queued,
             count(*) filter (where status = 'running')::integer as running,
             count(*) filter (where status = 'failed')::integer as failed,
             count(*) = {LIVE_RUNS_READ} as is_partial,
             coalesce(min(run_at) filter (where status = 'queued')
                      < statement_timestamp() - %(late_after)s::interval, false) as waits_long
        from (select status, run_at from wakeboard.job_runs
               where definition_id = schedule.id limit {LIVE_RUNS_READ}) as run) as live on true
"""
_HEALTH: LiteralString = """
         case when schedule.state = 'stalled' or dead.runs > 0
                   or schedule.success_missed_at is not null and schedule.state not in ('paused', 'suspended')
                   then 'failing'
              when live.failed > 0 then 'retrying'
              when live.waits_long and schedule.state <> 'paused' or schedule.state = 'active'
                   and schedule.next_run_at < statement_timestamp() - %(late_after)s::interval then 'late'
              else 'ok' end
"""
_LAST: LiteralString = """
    left join lateral (
      select finished_at from wakeboard.job_run_history
       where definition_id = schedule.id order by finished_at desc limit 1) as last on true
"""


@dataclass(frozen=True, slots=True)
class _Order:
    """A sort: its key, the type of the key, what must be joined for it, and its direction."""

    key: LiteralString
    type: LiteralString
    joins: frozenset[str] = frozenset()
    descends: bool = False


_ORDERS: Final[Mapping[Sort, _Order]] = {
    "name": _Order('array[schedule.namespace collate "C", schedule.name collate "C"]', "text[]"),
    "next": _Order(
        "case when schedule.state = 'active' then coalesce(schedule.next_run_at, 'infinity') else 'infinity' end",
        "timestamptz",
    ),
    "last": _Order(
        "coalesce(greatest(last.finished_at, dead.dead_at), '-infinity')",
        "timestamptz",
        frozenset({"last"}),
        descends=True,
    ),
    "failures": _Order("coalesce(dead.runs, 0) + live.failed", "integer", frozenset({"live"}), descends=True),
}
SORTS: Final = tuple(_ORDERS)


def _list_query(sort: Sort, *, with_health: bool) -> LiteralString:
    order = _ORDERS[sort]
    live: LiteralString = _LIVE if with_health or "live" in order.joins else ""
    last: LiteralString = _LAST if "last" in order.joins else ""
    dead: LiteralString = f"{_DEAD}," if live or last else ""
    join_dead: LiteralString = _JOIN_DEAD if dead else ""
    fits_health: LiteralString = f"and {_HEALTH} = %(health)s" if with_health else ""
    has_next: LiteralString = f"and (%(is_whole)s or {order.key} < 'infinity')" if sort == "next" else ""
    direction: LiteralString = "desc" if order.descends else "asc"
    beyond: LiteralString = "<" if order.descends else ">"
    return f"""
with schedule as not materialized ({SCHEDULES}), {dead} fitting as materialized (
  select schedule.id, {order.key} as sort_key
    from schedule {join_dead} {live} {last}
   where (%(state)s::text is null or schedule.state = %(state)s) {fits_health} {has_next}
)
select def.id, namespace, name, source, job_type, queue, schedule, cron_fields, time_zone, state, schedule_error,
       pause_reason, paused_at, {PAUSED_BY.replace("{scope}", "pause_scope")} as paused_by, next_run_at,
       {RUNS_AFTER} as runs_after, sort_key::text as sort_key,
       (select count(*) from fitting) as total
  from (select * from fitting
         where %(after_id)s::bigint is null or (sort_key, id) {beyond} (%(after_key)s::{order.type}, %(after_id)s)
         order by fitting.sort_key {direction}, id {direction}
         limit %(count)s) as shown
  join schedule as def using (id)
 order by shown.sort_key {direction}, id {direction}
"""


_QUERIES: Final[Mapping[tuple[Sort, bool], LiteralString]] = {
    (sort, with_health): _list_query(sort, with_health=with_health) for sort in SORTS for with_health in (False, True)
}
_HEALTH_OF: LiteralString = f"""
with schedule as ({SCHEDULES}), {_DEAD}
select schedule.id, live.queued, live.running, live.failed, coalesce(dead.runs, 0) as dead, live.is_partial,
       {_HEALTH} as health
  from schedule {_JOIN_DEAD} {_LIVE}
"""
_RECENT_RUNS: LiteralString = f"""
select wanted.id as definition_id, run.*
  from unnest(%(ids)s::bigint[]) as wanted (id)
 cross join lateral (
   select *
     from (
       (select id, case status when 'dead' then 'discarded' else status::text end as status, scheduled_for,
               nullif(started_at, 'epoch') as started_at, finished_at as ended_at, skipped_count,
               coalesce(reason, error_type) as reason
          from wakeboard.job_run_history
         where definition_id = wanted.id
         order by finished_at desc
         limit %(count)s)
       union all
       (select id, status::text, scheduled_for, nullif(started_at, 'epoch'),
               case when status <> 'running' then coalesce(dead_at, failed_at) end, null::bigint, error_type
          from (select * from wakeboard.job_runs where definition_id = wanted.id limit {LIVE_RUNS_READ}) as live
         where status <> 'queued')) as both_tables
    order by coalesce(ended_at, 'infinity') desc, id desc
    limit %(count)s) as run
"""
_CHOICES: LiteralString = f"""
with visible as materialized (
  select namespace, job_type::text, queue::text, labels
    from wakeboard.job_definitions where id = any (%(ids)s) and removed_at is null)
select array(select namespace from visible group by 1 order by 1 limit {MAX_CHOICES}),
       array(select job_type from visible group by 1 order by 1 limit {MAX_CHOICES}),
       array(select queue from visible group by 1 order by 1 limit {MAX_CHOICES}),
       array(select distinct label.key || '=' || label.value
               from (select labels from visible group by 1) as each
              cross join lateral jsonb_each_text(labels) as label order by 1 limit {MAX_CHOICES})
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class ScheduleSlice:
    """A part of a list. `following`: the sort key and id behind which the next part begins; None: this is the last.

    With the sort `name` the key is a list of namespace and name, otherwise a text.
    `total`: how many fit, of those that were examined. `selection`: which these were.
    """

    rows: list[ListedSchedule]
    total: int
    following: tuple[Any, int] | None
    selection: Selection


async def list_schedules(
    conn: psycopg.AsyncConnection[Any],
    wanted: ScheduleFilter,
    sort: Sort,
    count: int,
    *,
    after: tuple[Any, int] | None = None,
) -> ScheduleSlice:
    """The first `count` schedules that fit, in the order of `sort`, or fewer if too many had to be examined for them.

    `after`: where the part before has ended. With the sort `name` the key is a list of namespace and name, otherwise
    the text that `sort_key` had.
    """
    after_key, after_id = after or (None, None)
    values = wanted.values() | {"after_key": after_key, "after_id": after_id, "count": count + 1}
    query = _QUERIES[sort, wanted.health is not None]
    few = await few_schedules(conn, wanted)
    for most in (2 * count + 100, EXAMINED):  # often most of them match
        selection = few or await select_schedules(conn, wanted, sort, after, most)
        examined = {"ids": selection.ids, "is_whole": selection.is_whole}
        found = await read(conn, class_row(ListedSchedule), query, values | examined)
        if len(found) > count or selection.stopped_at is None:
            break
    shown = [
        replace(row, cron_fields=compiled_or_none(row.schedule, name=f"{row.namespace}/{row.name}"), next_run_at=None)
        if row.schedule and not row.cron_fields  # the scheduler has not seen it yet
        else row
        for row in found[:count]
    ]
    following = selection.stopped_at
    if len(found) > count:
        last = shown[-1]
        following = ([last.namespace, last.name] if sort == "name" else last.sort_key), last.id
    total = max(found[0].total if found else 0, selection.matching)
    return ScheduleSlice(rows=shown, total=total, following=following, selection=selection)


async def schedule_rows(
    conn: psycopg.AsyncConnection[Any], namespace: str | None, count: int, after: ScheduleRow | None = None
) -> list[ScheduleRow]:
    """The `count` schedules by name that follow `after`, of one namespace if it is given; fewer at the end only."""
    rows: list[ScheduleRow] = []
    wanted, place = ScheduleFilter(namespace=namespace), after and ((after.namespace, after.name), after.id)
    while len(rows) < count:
        part, place = await schedules_from(conn, wanted.within, place, count - len(rows))
        rows += await read(conn, class_row(ScheduleRow), _ROWS, wanted.values() | {"ids": part})
        if place is None:
            break
    return rows


async def rows_of_schedules(conn: psycopg.AsyncConnection[Any], ids: Sequence[int]) -> list[ScheduleRow]:
    """The schedules with these ids, in this order, with what blocks them."""
    found = await read(conn, class_row(ScheduleRow), _ROWS, ScheduleFilter().values() | {"ids": list(ids)})
    blocked = await read_blocking_reasons(conn, [row.id for row in found if row.runs_after])
    rows = {row.id: replace(row, blocked=blocked.get(row.id)) for row in found}
    return [rows[each] for each in ids if each in rows]


async def schedule_health(conn: psycopg.AsyncConnection[Any], ids: Sequence[int]) -> dict[int, ScheduleHealth]:
    """The health of these schedules, by id. Removed ones are left out."""
    rows = await read(conn, class_row(ScheduleHealth), _HEALTH_OF, ScheduleFilter().values() | {"ids": list(ids)})
    return {row.id: row for row in rows}


async def recent_runs(conn: psycopg.AsyncConnection[Any], ids: Sequence[int], count: int) -> dict[int, list[RecentRun]]:
    """The newest `count` runs of each of these schedules that have started or were skipped, oldest first, by id."""
    found: dict[int, list[RecentRun]] = {definition_id: [] for definition_id in ids}
    for run in await read(conn, class_row(RecentRun), _RECENT_RUNS, {"ids": list(ids), "count": count}):
        found[run.definition_id].insert(0, run)
    return found


async def filter_choices(conn: psycopg.AsyncConnection[Any], namespaces: frozenset[str] | None) -> FilterChoices:
    """The values that the schedules of these namespaces have, or a sample of them if they are too many."""
    selection = await sample_schedules(conn, ScheduleFilter(namespaces=namespaces))
    ids = selection.ids if selection.is_whole else selection.ids[::CHOICES_EVERY]
    ((names, job_types, queues, labels),) = await read(conn, tuple_row, _CHOICES, {"ids": ids})
    return FilterChoices(
        namespaces=tuple(names), job_types=tuple(job_types), queues=tuple(queues), labels=tuple(labels)
    )
