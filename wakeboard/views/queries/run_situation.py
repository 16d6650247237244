"""Reads why a run does not run now: the model of `views/rules/run_explanation.py`.

Each read is bounded and walks an index, however many runs there are. Needs SELECT on the tables.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, LiteralString

from psycopg.rows import class_row, dict_row

from wakeboard.backfills.queries import backfilled_ticks
from wakeboard.dependencies.queries import read_awaited_runs
from wakeboard.limits.queries import NEXT_START_S
from wakeboard.store.statements import read
from wakeboard.text.facts import IDS_SHOWN
from wakeboard.views.queries.job_types import meant_job_types
from wakeboard.views.queries.listings import SERVED, Listings
from wakeboard.views.queries.run_details import read_stored_run
from wakeboard.views.rules.run_explanation import MOST_AHEAD, LimitOfRun, Obstacles, RunsAhead, RunSituation

if TYPE_CHECKING:
    from datetime import datetime

    import psycopg

    from wakeboard.text.facts import Pause
    from wakeboard.views.rules.run_rows import StoredRun

_ACTED: LiteralString = """
select actor::text, reason as actor_reason from wakeboard.audit_log
 where run_id = %(id)s and action in ('cancel', 'discard')
 order by id desc limit 1
"""
LIMITS: LiteralString = (
    """
select bound.key,
       coalesce(stored.max_running, 1) as max_running,
       (select count(*) from (select from wakeboard.job_runs
                                where limit_key = bound.key and holds_slot limit 10000) as run)
         + (select count(*) from (select from wakeboard.job_runs
                                   where shared_limit_key = bound.key and holds_slot limit 10000) as run) as running,
       array(select id from wakeboard.job_runs where limit_key = bound.key and holds_slot limit %(shown)s)
         || array(select id from wakeboard.job_runs where shared_limit_key = bound.key and holds_slot limit %(shown)s)
         as holders,
       case when bound.key = 'schedule:' || run.definition_id
            then (select concurrency_policy from wakeboard.job_definitions where id = run.definition_id) end
         as schedule_policy,
       """
    + NEXT_START_S
    + """ as next_start_s,
       coalesce(stored.paused_until between statement_timestamp() and statement_timestamp() + interval '1 day', false)
         as paused
  from wakeboard.job_runs as run
 cross join unnest(array[run.limit_key::text, run.shared_limit_key]) as bound (key)
  left join wakeboard.job_limits as stored on stored.key = bound.key
 where run.id = %(id)s and bound.key is not null
"""
)
_FREE: LiteralString = "other.limit_key is null and other.locked_by = 0"
_FREE_OF_KEY: LiteralString = "other.limit_key = run.limit_key and other.limit_key is not null and not other.holds_slot"
# Of the runs that precede it: how many a worker that may claim this run may claim, too, and how many were read.
_COUNTS: LiteralString = """
         select array[count(*) filter (
                  where job_type = any (array(
                          select theirs.job_type
                            from wakeboard.worker_types as mine
                            join wakeboard.worker_types as theirs using (queue, pool)
                           where mine.job_type = run.job_type and queue = run.queue
                             and least(mine.last_known_at, theirs.last_known_at)
                                 > statement_timestamp() - interval '10 minutes'))
                    and (start_before is null or start_before > statement_timestamp() or started_at > 'epoch')),
                  count(*)]
"""
_HIGHER: LiteralString = f"""{_COUNTS}
           from (
           select found.*
             from generate_series(run.priority::integer + 1, 5) as level (priority)
            cross join lateral (
              select other.job_type, other.start_before, other.started_at from wakeboard.job_runs as other
               where other.queue = run.queue and other.priority = level.priority and {{free}}
                 and other.crash_count < 2 and other.dead_at is null and other.run_at <= statement_timestamp()
               order by other.run_at, other.id limit %(most)s) as found
            limit %(most)s) as before
"""
_EARLIER: LiteralString = f"""{_COUNTS}
           from (
           select other.job_type, other.start_before, other.started_at from wakeboard.job_runs as other
            where other.queue = run.queue and other.priority = run.priority and {{free}}
              and other.crash_count < 2 and other.dead_at is null and (other.run_at, other.id) < (run.run_at, run.id)
            order by other.run_at, other.id limit %(most)s) as before
"""
OTHERS: LiteralString = f"""
select {SERVED.replace("{of}", "run")},
       case when run.run_at > statement_timestamp() or run.crash_count >= 2 then array[0::bigint, 0]
            when run.limit_key is null then ({_HIGHER.replace("{free}", _FREE)})
            else ({_HIGHER.replace("{free}", _FREE_OF_KEY)}) end as higher,
       case when run.run_at > statement_timestamp() or run.crash_count >= 2 then array[0::bigint, 0]
            when run.limit_key is null then ({_EARLIER.replace("{free}", _FREE)})
            else ({_EARLIER.replace("{free}", _FREE_OF_KEY)}) end as earlier
  from wakeboard.job_runs as run
 where run.id = %(id)s
"""
_CLAIMED: Final[dict[str, Any]] = {"type_served": True, "queue_served": True, "higher": (0, 0), "earlier": (0, 0)}


async def read_run_situation(conn: psycopg.AsyncConnection[Any], run_id: int) -> RunSituation | None:
    """The run with this id, live or in history; None: there is none, or it was deleted."""
    run = await read_stored_run(conn, run_id)
    return await situation_of(conn, run, await Listings(conn).now()) if run else None


async def situation_of(conn: psycopg.AsyncConnection[Any], run: StoredRun, now: datetime) -> RunSituation:
    """What is in the way of a run that was read."""
    acted = await read(conn, dict_row, _ACTED, {"id": run.id}) if run.status in {"cancelled", "discarded"} else []
    return RunSituation(
        now=now,
        run=run,
        **(acted[0] if acted else {}),
        obstacles=await _obstacles(conn, run) if run.status in {"queued", "failed"} else None,
        backfilled=await backfilled_ticks(conn, run.id) if run.status == "skipped" else [],
    )


async def _obstacles(conn: psycopg.AsyncConnection[Any], run: StoredRun) -> Obstacles:
    key = run.queue, run.job_type
    values = {"id": run.id, "most": MOST_AHEAD + 1, "shown": IDS_SHOWN}
    others = (await read(conn, dict_row, OTHERS, values) or [_CLAIMED])[0]
    meant = {} if others["type_served"] else await meant_job_types(conn, [key])
    return Obstacles(
        type_served=others["type_served"],
        type_meant=meant.get(key),
        queue_served=others["queue_served"],
        higher=RunsAhead(*others["higher"]),
        earlier=RunsAhead(*others["earlier"]),
        pauses=await read_pauses(conn, run.queue, run.definition_id),
        limits=await read(conn, class_row(LimitOfRun), LIMITS, values),
        waits_for=await read_awaited_runs(conn, run.id),
    )


async def read_pauses(conn: psycopg.AsyncConnection[Any], queue: str, definition_id: int | None) -> list[Pause]:
    """The pauses of everything, of the queue and of the schedule, and who paused each."""
    return await Listings(conn).pauses_of(["all", f"queue:{queue}", f"schedule:{definition_id}"])
