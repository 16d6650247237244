"""One run with what happened to it: its texts as they are stored, attempts, steps, effects and actions.

The command line, its JSON and the board read it here. JSON is read as text, because a parser would change big integers
and decimal fractions. Needs SELECT on the tables.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, LiteralString, NamedTuple

from psycopg.rows import class_row, dict_row

from wakeboard.backfills.queries import backfilled_ticks
from wakeboard.jobs.rules import kubernetes_jobs
from wakeboard.store.statements import read
from wakeboard.views.queries.audit import AuditFilter, audit_rows
from wakeboard.views.queries.listings import LIVE_COLUMNS, PAST_COLUMNS
from wakeboard.views.rules.run_detail_rows import AttemptRow, EffectRow, RunDetails, StepRow, parsed_result
from wakeboard.views.rules.run_rows import StoredRun

if TYPE_CHECKING:
    import psycopg


MOST_ACTIONS: Final = 100  # the newest


class ReadBounds(NamedTuple):
    """How much is read: the newest attempts, the first steps and effects, and characters of each step's result."""

    attempts: int = 1_000_000
    steps: int = 1_000_000
    step_result: int = 1_000_000


EVERYTHING: Final = ReadBounds()


_MORE: LiteralString = """
       run.payload::jsonb::text as payload, run.definition_id, run.idempotency_key,
       (select spec_hash from wakeboard.job_definitions as def
         where def.id = run.definition_id and def.generation = run.definition_generation) as spec_hash,
       (select generation from wakeboard.job_definitions as def
         where def.id = run.definition_id and def.removed_at is null) as schedule_generation,
       run.timeout_s::integer, run.backoff_strategy::text, run.backoff_base_s::integer, run.backoff_cap_s::integer,
       run.lease_epoch,
       coalesce((select name from wakeboard.workers where worker_id = run.locked_by),
                (select name from wakeboard.past_workers where worker_id = run.locked_by)) as worker,
       (select traceparent from wakeboard.job_trace_contexts where run_id = run.id) as traceparent,
       (select tracestate from wakeboard.job_trace_contexts where run_id = run.id) as tracestate
"""
_LIVE_RUN: LiteralString = f"""
select {LIVE_COLUMNS}, {_MORE}, null::text as result, run.start_before,
       case when run.locked_by <> 0 then run.locked_until end as locked_until, run.last_stack as stack,
       run.cancel_reason
  from wakeboard.job_runs as run
 where run.id = %(id)s
"""
_PAST_RUN: LiteralString = f"""
select {PAST_COLUMNS}, {_MORE}, run.result::text as result, null::timestamptz as start_before,
       null::timestamptz as locked_until, null::text as stack, null::text as cancel_reason
  from wakeboard.job_run_history as run
 where run.id = %(id)s
 limit 1
"""
_ATTEMPTS: LiteralString = """
select attempt, lease_epoch, outcome, started_at, ended_at, worker, error_type, error, stack, cause, pod
  from wakeboard.job_attempts
 where run_id = %(id)s
 order by lease_epoch desc
 limit %(attempts)s
"""
# Of a worker that does not report the errors of steps, the attempt has failed, or its handler succeeded all the same.
_STEP_COLUMNS: LiteralString = """
select name, step.lease_epoch, reused_epochs, step.started_at, finished_at,
       left(result::text, %(step_result)s) as result, length(result::text) as length,
       progress, progress_message, step.error,
       coalesce(finished_at, failed_at,
                case when attempt.ended_at > step.started_at then attempt.ended_at end) as ended_at,
       case when finished_at is not null then 'done'
            when failed_at is not null then 'failed'
            when step.lease_epoch = %(epoch)s and %(running)s then 'running'
            when coalesce(attempt.outcome, 'failed') = 'failed' then 'failed'
            else 'interrupted' end as state
"""
_OF_ATTEMPT: LiteralString = """
  left join wakeboard.job_attempts as attempt on attempt.run_id = step.run_id and attempt.lease_epoch = step.lease_epoch
 where step.run_id = %(id)s
 order by step.started_at, name
 limit %(steps)s
"""
_STEPS: LiteralString = f"{_STEP_COLUMNS} from wakeboard.job_steps as step {_OF_ATTEMPT}"
_EARLIER_STEPS: LiteralString = f"""{_STEP_COLUMNS}
  from (select run_id, name, start.*, '{{}}'::bigint[] as reused_epochs, null::timestamptz as finished_at,
               null::jsonb as result
          from wakeboard.job_steps
         cross join jsonb_to_recordset(earlier_starts)
               as start (lease_epoch bigint, started_at timestamptz, failed_at timestamptz, error text,
                         progress real, progress_message text)
         where run_id = %(id)s
         order by start.started_at desc
         limit %(steps)s) as step
{_OF_ATTEMPT}"""
# An effect once for ever has the begins of other runs, too. If this run took it over, its moment is not stored: it is
# shown from the start of the run's first attempt that had it.
_EFFECTS: LiteralString = """
with attempt as (
  select lease_epoch, started_at, ended_at from wakeboard.job_attempts where run_id = %(id)s
   union all
  select %(epoch)s, %(started_at)s::timestamptz, null)
select key, lease_epoch, begun_epochs,
       case when finished_at is not null then coalesce(finished_epoch, lease_epoch) end as finished_epoch,
       started_at, finished_at, forever, taken_over,
       case when finished_at is not null then 'done'
            when lease_epoch = %(epoch)s and %(running)s then 'begun'
            else 'in doubt' end as state
  from (select key, lease_epoch, begun_epochs, finished_epoch, started_at, finished_at, false as forever,
               false as taken_over
          from wakeboard.job_effects where run_uuid = %(uuid)s
         union all
        select key, lease_epoch, own.epochs, null, case when own.began then started_at else own.first_at end,
               finished_at, true, not own.began
          from wakeboard.job_forever_effects as past
         cross join lateral (
           select coalesce(array_agg(distinct attempt.lease_epoch)
                             filter (where attempt.lease_epoch <> past.lease_epoch), '{}') as epochs,
                  min(attempt.started_at) as first_at,
                  coalesce(bool_or(past.started_at between attempt.started_at and coalesce(ended_at, 'infinity')),
                           min(attempt.started_at) is null) as began
             from attempt
            where attempt.lease_epoch = any (past.lease_epoch || past.begun_epochs)) as own
         where run_id = %(id)s) as effect
 order by started_at, key
 limit %(steps)s
"""


async def read_stored_run(conn: psycopg.AsyncConnection[Any], run_id: int) -> StoredRun | None:
    """The run with this id, live or in history; None: there is none, or it was deleted."""
    row = await _row(conn, run_id)
    return StoredRun(**row) if row else None


async def read_run_details(
    conn: psycopg.AsyncConnection[Any], run_id: int, bounds: ReadBounds = EVERYTHING
) -> RunDetails | None:
    """The run with this id and what happened to it; None: there is none, or it was deleted."""
    row = await _row(conn, run_id)
    if row is None:
        return None
    values = {**bounds._asdict(), "id": run_id, "uuid": row["uuid"], "epoch": row["lease_epoch"]}
    values["started_at"] = row["started_at"]
    values["running"] = row["status"] == "running"
    steps = await read_steps(conn, values)
    attempts = await read(conn, class_row(AttemptRow), _ATTEMPTS, values)
    return RunDetails(
        **row,
        attempts_made=attempts[::-1],
        steps=steps,
        earlier_steps=await read(conn, class_row(StepRow), _EARLIER_STEPS, values),
        effects=await read(conn, class_row(EffectRow), _EFFECTS, values),
        actions=(await audit_rows(conn, AuditFilter(run_id=run_id), MOST_ACTIONS))[::-1],
        kubernetes_jobs=kubernetes_jobs(
            row["job_type"], ((step.name, step.finished_at, parsed_result(step)) for step in steps)
        ),
        backfilled=await backfilled_ticks(conn, run_id) if row["status"] == "skipped" else [],
    )


async def read_steps(conn: psycopg.AsyncConnection[Any], values: dict[str, Any]) -> list[StepRow]:
    """The first steps of a run. `values`: its id, its lease epoch, whether it is running, and the Bounds."""
    return await read(conn, class_row(StepRow), _STEPS, values)


async def _row(conn: psycopg.AsyncConnection[Any], run_id: int) -> dict[str, Any] | None:
    # In this order: a run may finish between the two reads, but never returns from history.
    wanted = {"id": run_id}
    found = await read(conn, dict_row, _LIVE_RUN, wanted) or await read(conn, dict_row, _PAST_RUN, wanted)
    return found[0] if found else None
