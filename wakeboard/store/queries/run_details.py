"""All stored details of one run: payload, attempts, steps, effects."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, LiteralString

from psycopg.rows import class_row, dict_row

from wakeboard.rules.kubernetes_jobs import KubernetesJob, kubernetes_jobs
from wakeboard.store.queries.audit import AuditFilter, AuditRow, audit_rows
from wakeboard.store.queries.backfills import backfilled_ticks
from wakeboard.store.queries.listings import LIVE_COLUMNS, PAST_COLUMNS, RunRow
from wakeboard.store.statements import read

if TYPE_CHECKING:
    from datetime import datetime

    import psycopg

    from wakeboard.rules.run_explanation import BackfilledTicks


MAX_ACTIONS = 100  # the newest


@dataclass(frozen=True, slots=True, kw_only=True)
class AttemptRow:
    """An attempt that did not succeed. `outcome`: see rules/attempt_outcomes.py.

    A successful attempt has no row of its own. `cause`: why the process of its worker ended, such as OOMKilled; `pod`:
    where it ran. Both are None unless the operator reported it.
    """

    attempt: int
    outcome: str
    started_at: datetime
    ended_at: datetime
    worker: str | None
    error_type: str | None
    error: str | None
    stack: str | None
    cause: str | None
    pod: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class StepRow:
    """A named part of the run. `finished_at` None: started, not done."""

    name: str
    started_at: datetime
    finished_at: datetime | None
    result: Any


@dataclass(frozen=True, slots=True, kw_only=True)
class EffectRow:
    """Something that must happen once.

    `state`: done, begun (by the running attempt), or in doubt (the attempt that began it ended and did not report it as
    done).
    """

    key: str
    state: str
    started_at: datetime
    finished_at: datetime | None


@dataclass(frozen=True, slots=True, kw_only=True)
class RunDetails(RunRow):
    """A run with its payload, attempts, steps, effects, errors, and what administrators did to it.

    `traceparent`, `tracestate`: the trace context (W3C) of its enqueue.

    `spec_hash`: of the spec from which it was created; null if its schedule has another spec now. `kubernetes_jobs`: of
    a run of the job type `job`, one for each attempt. `backfilled`: the backfills that run ticks of a skipped row.
    """

    payload: Any
    result: Any
    definition_id: int | None
    spec_hash: str | None
    idempotency_key: str | None
    traceparent: str | None
    tracestate: str | None
    start_before: datetime | None
    timeout_s: int
    backoff_strategy: str
    backoff_base_s: int
    backoff_cap_s: int
    lease_epoch: int
    locked_until: datetime | None
    worker: str | None
    stack: str | None
    attempts_made: list[AttemptRow]
    steps: list[StepRow]
    effects: list[EffectRow]
    actions: list[AuditRow]
    kubernetes_jobs: list[KubernetesJob]
    backfilled: list[BackfilledTicks]


_MORE: LiteralString = """
       run.payload::jsonb as payload, run.definition_id, run.idempotency_key,
       (select spec_hash from wakeboard.job_definitions as def
         where def.id = run.definition_id and def.generation = run.definition_generation) as spec_hash,
       run.timeout_s::integer, run.backoff_strategy::text, run.backoff_base_s::integer, run.backoff_cap_s::integer,
       run.lease_epoch,
       coalesce((select name from wakeboard.workers where worker_id = run.locked_by),
                (select name from wakeboard.past_workers where worker_id = run.locked_by)) as worker,
       (select traceparent from wakeboard.job_trace_contexts where run_id = run.id) as traceparent,
       (select tracestate from wakeboard.job_trace_contexts where run_id = run.id) as tracestate
"""
_LIVE_RUN: LiteralString = f"""
select {LIVE_COLUMNS}, {_MORE}, null::jsonb as result, run.start_before,
       case when run.locked_by <> 0 then run.locked_until end as locked_until, run.last_stack as stack
  from wakeboard.job_runs as run
 where run.id = %(id)s
"""
_PAST_RUN: LiteralString = f"""
select {PAST_COLUMNS}, {_MORE}, run.result, null::timestamptz as start_before, null::timestamptz as locked_until,
       null::text as stack
  from wakeboard.job_run_history as run
 where run.id = %(id)s
 limit 1
"""
_ATTEMPTS: LiteralString = """
select attempt, outcome, started_at, ended_at, worker, error_type, error, stack, cause, pod
  from wakeboard.job_attempts
 where run_id = %(id)s
 order by lease_epoch
"""
_STEPS: LiteralString = """
select name, started_at, finished_at, result
  from wakeboard.job_steps
 where run_id = %(id)s
 order by started_at, name
"""
_EFFECTS: LiteralString = """
select key, started_at, finished_at,
       case when finished_at is not null then 'done'
            when lease_epoch = %(epoch)s and %(running)s then 'begun'
            else 'in doubt' end as state
  from wakeboard.job_effects
 where run_uuid = %(uuid)s
 order by started_at, key
"""


async def read_run_details(conn: psycopg.AsyncConnection[Any], run_id: int) -> RunDetails | None:
    """The run with this id, live or in history; None: there is none, or it was deleted."""
    # In this order: a run may finish between the two reads, but never returns from history.
    wanted = {"id": run_id}
    found = await read(conn, dict_row, _LIVE_RUN, wanted) or await read(conn, dict_row, _PAST_RUN, wanted)
    if not found:
        return None
    row = found[0]
    values = {"id": run_id, "uuid": row["uuid"], "epoch": row["lease_epoch"], "running": row["status"] == "running"}
    steps = await read(conn, class_row(StepRow), _STEPS, values)
    return RunDetails(
        **row,
        attempts_made=await read(conn, class_row(AttemptRow), _ATTEMPTS, values),
        steps=steps,
        effects=await read(conn, class_row(EffectRow), _EFFECTS, values),
        actions=(await audit_rows(conn, AuditFilter(run_id=run_id), MAX_ACTIONS))[::-1],
        kubernetes_jobs=kubernetes_jobs(
            row["job_type"], ((step.name, step.finished_at, step.result) for step in steps)
        ),
        backfilled=await backfilled_ticks(conn, run_id) if row["status"] == "skipped" else [],
    )
