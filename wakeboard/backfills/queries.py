"""Read-only queries of backfills: what was asked for, how far each is, and which backfill ran a skipped tick.

Needs SELECT on the tables, which the viewer's and the operator's role have.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, LiteralString

from psycopg.rows import class_row, tuple_row

from wakeboard.backfills.rules import BackfilledTicks, BackfillRow
from wakeboard.store.statements import read

if TYPE_CHECKING:
    from collections.abc import Collection
    from datetime import datetime

    import psycopg


# A run of a backfill is found by its schedule, whose live runs are few: at most 1,000 of each backfill, and dead ones.
_BACKFILLS: LiteralString = """
select job.id, job.definition_id, job.schedule, job.range_begin, job.range_end,
       case when job.cancelled_at is not null then 'cancelled' when job.paused_at is not null then 'paused'
            when job.finished_at is not null then 'finished' else 'running' end as state,
       job.total, job.total - job.created as waiting, live.queued, live.running, live.failed, live.dead,
       job.created - live.total as done, job.at_once, job.again, job.reason, job.actor::text, job.source::text,
       job.created_at, job.paused_at, job.cancelled_at, job.finished_at
  from (select * from wakeboard.backfills as job
         where (%(id)s::bigint is null or job.id = %(id)s) and (%(before)s::bigint is null or job.id < %(before)s)
           and (%(definition)s::bigint is null or job.definition_id = %(definition)s)
           and (%(namespaces)s::text[] is null or split_part(job.schedule, '/', 1) = any (%(namespaces)s))
         order by job.id desc
         limit %(count)s) as job
 cross join lateral (
   select count(*) filter (where run.status = 'queued') as queued,
          count(*) filter (where run.status = 'running') as running,
          count(*) filter (where run.status = 'failed') as failed, count(*) filter (where run.status = 'dead') as dead,
          count(*) as total
     from wakeboard.job_runs as run
     join wakeboard.backfill_ticks as item on item.run_id = run.id
    where run.definition_id = job.definition_id and run.trigger = 'backfill' and item.backfill_id = job.id) as live
 order by job.id desc
"""
_BACKFILLED: LiteralString = """
select item.backfill_id, count(*)::integer as ticks
  from wakeboard.job_run_history as past
  join wakeboard.backfill_ticks as item
    on item.definition_id = past.definition_id
   and item.tick between past.scheduled_for and coalesce(past.skipped_until, past.scheduled_for)
 where past.id = %(run)s and past.status = 'skipped'
 group by 1
 order by 1
"""
_HISTORY_BEGINS: LiteralString = """
select statement_timestamp() - min_history_retention
  from wakeboard.job_definitions, wakeboard.installation
 where job_definitions.id = %(id)s and job_definitions.created_at < statement_timestamp() - min_history_retention
"""


async def backfills(
    conn: psycopg.AsyncConnection[Any],
    count: int,
    *,
    before: int | None = None,
    definition_id: int | None = None,
    namespaces: Collection[str] | None = None,
) -> list[BackfillRow]:
    """The newest backfills with ids below `before`, newest first; of one schedule, or of these namespaces."""
    values = {"id": None, "before": before, "definition": definition_id, "count": count}
    visible = None if namespaces is None else sorted(namespaces)
    return await read(conn, class_row(BackfillRow), _BACKFILLS, {**values, "namespaces": visible})


async def backfill(conn: psycopg.AsyncConnection[Any], backfill_id: int) -> BackfillRow | None:
    """One backfill; None: there is none, or it was deleted."""
    values = {"id": backfill_id, "before": None, "definition": None, "namespaces": None, "count": 1}
    return next(iter(await read(conn, class_row(BackfillRow), _BACKFILLS, values)), None)


async def backfilled_ticks(conn: psycopg.AsyncConnection[Any], run_id: int) -> list[BackfilledTicks]:
    """The backfills that run ticks of this skipped row of the history."""
    return await read(conn, class_row(BackfilledTicks), _BACKFILLED, {"run": run_id})


async def history_begins(conn: psycopg.AsyncConnection[Any], definition_id: int) -> datetime | None:
    """Ticks of the schedule before this time may have run: the history has them no longer. None: there are none."""
    rows = await read(conn, tuple_row, _HISTORY_BEGINS, {"id": definition_id})
    return rows[0][0] if rows else None
