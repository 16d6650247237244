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
from wakeboard.views.queries.listings import DUE_SINCE, Listings
from wakeboard.views.rules.run_explanation import MOST_AHEAD, LimitOfRun, Obstacles, RunsAhead, RunSituation

if TYPE_CHECKING:
    from collections.abc import Mapping

    import psycopg

    from wakeboard.text.facts import Pause

_BOTH: LiteralString = f"""
       clock_timestamp() as now, run.id, run.schedule, run.job_type::text, run.queue::text, run.trigger::text,
       run.scheduled_for, {DUE_SINCE} as run_at, nullif(run.started_at, 'epoch') as started_at, run.timeout_s::integer,
       run.attempts, run.max_attempts::integer, run.crash_count, run.limit_key is not null as limited,
       run.error_type, run.last_error as error, acted.actor, acted.reason as actor_reason, run.definition_id
"""
_ACTED: LiteralString = """
  left join lateral (
    select actor::text, reason from wakeboard.audit_log
     where run_id = run.id and action in ('cancel', 'discard')
     order by id desc limit 1) as acted on true
 where run.id = %(id)s
 limit 1
"""
_LIVE: LiteralString = f"""
select {_BOTH}, run.status::text, run.start_before, run.dead_at, null::timestamptz as finished_at,
       case when run.locked_by <> 0 then run.locked_until end as locked_until, run.cancel_requested_at,
       null::text as reason,
       (select name from wakeboard.workers where worker_id = run.locked_by) as worker,
       null::timestamptz as skipped_until, null::bigint as skipped_count
  from wakeboard.job_runs as run
{_ACTED}"""
_PAST: LiteralString = f"""
select {_BOTH}, case run.status when 'dead' then 'discarded' else run.status::text end as status,
       null::timestamptz as start_before, null::timestamptz as dead_at, run.finished_at,
       null::timestamptz as locked_until, null::timestamptz as cancel_requested_at, run.reason, null::text as worker,
       run.skipped_until, run.skipped_count
  from wakeboard.job_run_history as run
{_ACTED}"""
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
       case when stored.key is null then 0 else """
    + NEXT_START_S
    + """ end as next_start_s,
       coalesce(stored.paused_until > statement_timestamp(), false) as paused
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
select exists (select from wakeboard.worker_types
                where queue = run.queue and job_type = run.job_type
                  and last_known_at > statement_timestamp() - interval '10 minutes') as type_served,
       exists (select from wakeboard.worker_types
                where queue = run.queue and last_known_at > statement_timestamp() - interval '10 minutes')
         as queue_served,
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
    # In this order: a run may finish between the two reads, but never returns from history.
    wanted = {"id": run_id}
    found = await read(conn, dict_row, _LIVE, wanted) or await read(conn, dict_row, _PAST, wanted)
    if not found:
        return None
    row = found[0]
    definition_id = row.pop("definition_id")
    waits = row["status"] in {"queued", "failed"}
    obstacles = await _obstacles(conn, run_id, row, definition_id) if waits else None
    backfilled = await backfilled_ticks(conn, run_id) if row["status"] == "skipped" else []
    return RunSituation(**row, obstacles=obstacles, backfilled=backfilled)


async def _obstacles(
    conn: psycopg.AsyncConnection[Any], run_id: int, run: Mapping[str, Any], definition_id: int | None
) -> Obstacles:
    key = run["queue"], run["job_type"]
    values = {"id": run_id, "most": MOST_AHEAD + 1, "shown": IDS_SHOWN}
    others = (await read(conn, dict_row, OTHERS, values) or [_CLAIMED])[0]
    meant = {} if others["type_served"] else await meant_job_types(conn, [key])
    return Obstacles(
        type_served=others["type_served"],
        type_meant=meant.get(key),
        queue_served=others["queue_served"],
        higher=RunsAhead(*others["higher"]),
        earlier=RunsAhead(*others["earlier"]),
        pauses=await read_pauses(conn, run["queue"], definition_id),
        limits=await read(conn, class_row(LimitOfRun), LIMITS, values),
        waits_for=await read_awaited_runs(conn, run_id),
    )


async def read_pauses(conn: psycopg.AsyncConnection[Any], queue: str, definition_id: int | None) -> list[Pause]:
    """The pauses of everything, of the queue and of the schedule, and who paused each."""
    return await Listings(conn).pauses(["all", f"queue:{queue}", f"schedule:{definition_id}"])
