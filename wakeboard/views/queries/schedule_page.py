"""Read-only queries of the board's page of one schedule: its row and its runs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, LiteralString

from psycopg.rows import class_row, dict_row

from wakeboard.store.statements import read
from wakeboard.ticks.compiled_ticks import compiled_or_none
from wakeboard.views.queries.listings import LIVE_COLUMNS, PAST_COLUMNS
from wakeboard.views.rules.run_rows import RunRow

if TYPE_CHECKING:
    from datetime import datetime

    import psycopg


MAX_COUNTED: Final = 10_000


@dataclass(frozen=True, slots=True, kw_only=True)
class WeekOfRuns:
    """The runs of one status that ended in the last seven days, of the newest 10,000.

    `ticks`: of skipped runs the ticks that they stand for. `median_s`, `p95_s`: durations of their last attempts in
    seconds; None: none has started.
    """

    status: str
    runs: int
    ticks: int
    median_s: float | None
    p95_s: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class LimitUse:
    """A limit key: how many of its runs may run at once, and how many run."""

    key: str
    max_running: int
    running: int


_ROW: LiteralString = """
select id, source, namespace, name, uid, generation, spec_hash, job_type::text, payload, queue::text,
       priority::integer, schedule, cron_fields, time_zone, dst_gap, dst_overlap, jitter_s, concurrency_policy,
       starts_at, ends_at,
       origin, labels, limit_key::text, catch_up, catch_up_limit, starting_deadline_s, max_attempts::integer,
       backoff_strategy::text, backoff_base_s::integer, backoff_cap_s::integer, timeout_s::integer, suspended,
       next_run_at, nullif(last_tick_at, 'epoch') as last_tick_at, schedule_error, tzdata_version, last_synced_at,
       (select json_agg(json_build_object('schedule', parent_name, 'outcome', outcome, 'ticks', ticks) order by place)
          from wakeboard.schedule_dependencies where definition_id = job_definitions.id) as after,
       created_at, updated_at, removed_at, suspend_after_dead, circuit_opened_at, circuit_probe_at, circuit_probe_id,
       expect_success_within_s, alert_after_missed
  from wakeboard.job_definitions
 where (%(namespaces)s::text[] is null or namespace = any (%(namespaces)s))
"""
_BY_ID: LiteralString = _ROW + " and id = %(id)s"
_BY_NAME: LiteralString = (
    _ROW + ' and namespace collate "C" = %(namespace)s and name collate "C" = %(name)s'
    " order by removed_at desc nulls first, source, id"
)
_OF_SOURCE: LiteralString = (
    _ROW + ' and source = %(source)s and removed_at is null order by namespace collate "C", name collate "C"'
)
_LIVE_RUNS: LiteralString = f"""
select {LIVE_COLUMNS}
  from (select * from wakeboard.job_runs where definition_id = %(id)s limit 1000) as run
 order by run.status = 'queued', run.dead_at desc nulls first, run.run_at, run.id
 limit %(count)s
"""
_PAST_RUNS: LiteralString = f"""
select {PAST_COLUMNS}
  from (select * from wakeboard.job_run_history
         where definition_id = %(id)s
               and (%(before_id)s::bigint is null or (finished_at, id) < (%(before_at)s::timestamptz, %(before_id)s))
         order by finished_at desc, id desc
         limit %(scanned)s) as run
 where not %(skipped)s::boolean or run.status = 'skipped'
 order by run.finished_at desc, run.id desc
 limit %(count)s
"""
_WEEK: LiteralString = """
select case status when 'dead' then 'discarded' else status::text end as status, count(*) as runs,
       coalesce(sum(skipped_count), 0)::bigint as ticks,
       percentile_cont(0.5) within group (order by seconds) as median_s,
       percentile_cont(0.95) within group (order by seconds) as p95_s
  from (select status, skipped_count,
               case when started_at > 'epoch' then extract(epoch from finished_at - started_at)::float8 end as seconds
          from wakeboard.job_run_history
         where definition_id = %(id)s and finished_at > statement_timestamp() - interval '7 days'
         order by finished_at desc
         limit %(counted)s) as run
 group by 1
 order by 2 desc
"""
_LIMIT: LiteralString = """
select key, max_running,
       ((select count(*) from wakeboard.job_runs where limit_key = %(key)s and holds_slot)
        + (select count(*) from wakeboard.job_runs where shared_limit_key = %(key)s and holds_slot))::integer as running
  from wakeboard.job_limits where key = %(key)s
"""


async def schedule_row(
    conn: psycopg.AsyncConnection[Any], definition_id: int, namespaces: frozenset[str] | None
) -> dict[str, Any] | None:
    """The columns of a schedule, a removed one too. None: there is none in these namespaces (None: all)."""
    found = await read(conn, dict_row, _BY_ID, {"id": definition_id, "namespaces": _visible(namespaces)})
    return _compiled(found[0]) if found else None


async def schedules_named(
    conn: psycopg.AsyncConnection[Any], namespace: str, name: str, namespaces: frozenset[str] | None
) -> list[dict[str, Any]]:
    """The schedules with this name, of all sources; removed ones come last."""
    values = {"namespace": namespace, "name": name, "namespaces": _visible(namespaces)}
    return [_compiled(row) for row in await read(conn, dict_row, _BY_NAME, values)]


async def schedules_of_source(conn: psycopg.AsyncConnection[Any], source: str) -> list[dict[str, Any]]:
    """The schedules of a source by name, without removed ones."""
    return await read(conn, dict_row, _OF_SOURCE, {"source": source, "namespaces": None})


def _compiled(row: dict[str, Any]) -> dict[str, Any]:
    """The row of a schedule whose expression the scheduler has not compiled yet, as it will be; others unchanged."""
    if row["cron_fields"] or not row["schedule"]:
        return row
    bounds = {bound: row[bound] for bound in ("starts_at", "ends_at")}
    fields = compiled_or_none(row["schedule"], name=f"{row['namespace']}/{row['name']}", **bounds)
    return row | {"cron_fields": fields, "next_run_at": None}


async def live_runs(conn: psycopg.AsyncConnection[Any], definition_id: int, count: int) -> list[RunRow]:
    """Of a thousand live runs of a schedule, started ones, dead ones (newest first), then queued ones."""
    return await read(conn, class_row(RunRow), _LIVE_RUNS, {"id": definition_id, "count": count})


async def past_runs(
    conn: psycopg.AsyncConnection[Any],
    definition_id: int,
    count: int,
    *,
    before: tuple[datetime, int] | None = None,
    skipped: bool = False,
) -> list[RunRow]:
    """The runs that ended last, newest first. `before`: `finished_at` and id of the last one of the page before.

    `skipped`: only ticks that did not run, among the next 10,000 runs.
    """
    before_at, before_id = before or (None, None)
    scanned = MAX_COUNTED if skipped else count
    values = {"id": definition_id, "count": count, "before_at": before_at, "before_id": before_id}
    values |= {"skipped": skipped, "scanned": scanned}
    return await read(conn, class_row(RunRow), _PAST_RUNS, values)


async def week_of_runs(conn: psycopg.AsyncConnection[Any], definition_id: int) -> list[WeekOfRuns]:
    """The runs of the last seven days by status, most frequent first."""
    return await read(conn, class_row(WeekOfRuns), _WEEK, {"id": definition_id, "counted": MAX_COUNTED})


async def limit_use(conn: psycopg.AsyncConnection[Any], key: str) -> LimitUse | None:
    """The use of a limit key; None: no run has had it yet."""
    found = await read(conn, class_row(LimitUse), _LIMIT, {"key": key})
    return found[0] if found else None


def _visible(namespaces: frozenset[str] | None) -> list[str] | None:
    return None if namespaces is None else sorted(namespaces)
