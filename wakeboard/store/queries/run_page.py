"""Everything that the board shows about one run: texts as they are stored, what happened, and what happens next.

JSON is read as text, because a parser would change big integers and decimal fractions. The numbers of attempts, steps,
effects and neighbours are bounded, and so is the length of a step's result. Needs SELECT on the tables.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, LiteralString

from psycopg.rows import class_row, scalar_row

from wakeboard.store.queries.audit import AuditFilter, AuditRow, audit_rows
from wakeboard.store.queries.index_order import prefer_index_order
from wakeboard.store.queries.listings import LIVE_COLUMNS, PAST_COLUMNS, RunRow
from wakeboard.store.queries.run_details import AttemptRow
from wakeboard.store.queries.run_situation import read_run_situation
from wakeboard.store.statements import read

if TYPE_CHECKING:
    from collections.abc import Collection
    from datetime import datetime

    import psycopg

    from wakeboard.rules.run_explanation import RunSituation

MOST_ATTEMPTS: Final = 100
MOST_STEPS: Final = 200
MOST_AUDIT_ROWS: Final = 100
LONGEST_STEP_RESULT: Final = 4000  # characters
_NEIGHBOURS: Final = 6


@dataclass(frozen=True, slots=True, kw_only=True)
class ShownAttempt(AttemptRow):
    """An attempt that did not succeed, and the epoch of its lease."""

    lease_epoch: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ShownStep:
    """A step. `result`: the beginning of the JSON text; `length`: the number of characters of the whole text."""

    name: str
    lease_epoch: int
    started_at: datetime
    finished_at: datetime | None
    result: str | None
    length: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class ShownEffect:
    """An effect. `finished_at` None: it was started and not reported as finished."""

    key: str
    lease_epoch: int
    started_at: datetime
    finished_at: datetime | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Neighbour:
    """Another run of the same schedule."""

    id: int
    status: str
    trigger: str
    scheduled_for: datetime
    ended_at: datetime | None


@dataclass(frozen=True, slots=True, kw_only=True)
class ScheduleOfRun:
    """The schedule of a run. `generation`: the one in force now."""

    id: int
    namespace: str
    name: str
    generation: int
    suspended: bool
    removed: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class ShownRun(RunRow):
    """A run. `payload` and `result` are JSON texts. `has_lease`: a worker holds it until `locked_until`.

    `trace_id`: of the trace of its enqueue.
    """

    payload: str
    result: str | None
    definition_id: int | None
    idempotency_key: str | None
    trace_id: str | None
    start_before: datetime | None
    timeout_s: int
    backoff_strategy: str
    backoff_base_s: int
    backoff_cap_s: int
    lease_epoch: int
    has_lease: bool
    locked_until: datetime | None
    worker: str | None
    stack: str | None
    cancel_reason: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class RunHistory:
    """The run of a page, what happened to it, and what surrounds it. Attempts are the newest ones, oldest first.

    `situation`: what explains why it has not ended; None: it has ended.
    """

    now: datetime
    run: ShownRun
    schedule: ScheduleOfRun | None
    attempts: list[ShownAttempt]
    steps: list[ShownStep]
    effects: list[ShownEffect]
    actions: list[AuditRow]
    earlier: list[Neighbour]
    later: list[Neighbour]
    situation: RunSituation | None


_MORE: LiteralString = """
       run.payload::jsonb::text as payload, run.definition_id, run.idempotency_key,
       run.timeout_s::integer, run.backoff_strategy::text, run.backoff_base_s::integer, run.backoff_cap_s::integer,
       run.lease_epoch, (select name from wakeboard.workers where worker_id = run.locked_by) as worker,
       (select split_part(traceparent, '-', 2) from wakeboard.job_trace_contexts where run_id = run.id) as trace_id
"""
_LIVE_RUN: LiteralString = f"""
select {LIVE_COLUMNS}, {_MORE}, null::text as result, run.start_before, run.locked_by <> 0 as has_lease,
       case when run.locked_by <> 0 then run.locked_until end as locked_until, run.last_stack as stack,
       run.cancel_reason
  from wakeboard.job_runs as run
 where run.id = %(id)s
"""
_PAST_RUN: LiteralString = f"""
select {PAST_COLUMNS}, {_MORE}, run.result::text as result, null::timestamptz as start_before, false as has_lease,
       null::timestamptz as locked_until, null::text as stack, null::text as cancel_reason
  from wakeboard.job_run_history as run
 where run.id = %(id)s
 limit 1
"""
_SCHEDULE: LiteralString = """
select id, namespace, name, generation, suspended, removed_at is not null as removed
  from wakeboard.job_definitions
 where id = %(definition)s
"""
_ATTEMPTS: LiteralString = """
select attempt, lease_epoch, outcome, started_at, ended_at, worker, error_type, error, stack, cause, pod
  from wakeboard.job_attempts
 where run_id = %(id)s
 order by lease_epoch desc
 limit %(count)s
"""
_STEPS: LiteralString = """
select name, lease_epoch, started_at, finished_at, left(result::text, %(longest)s) as result,
       length(result::text) as length
  from wakeboard.job_steps
 where run_id = %(id)s
 order by started_at, name
 limit %(count)s
"""
_STEP_RESULT: LiteralString = "select result::text from wakeboard.job_steps where run_id = %(id)s and name = %(name)s"
_EFFECTS: LiteralString = """
select key, lease_epoch, started_at, finished_at
  from wakeboard.job_effects
 where run_uuid = %(uuid)s
 order by started_at, key
 limit %(count)s
"""
# Of finished runs those that ended before this one; of live ones, of a thousand at most, those with a smaller id.
_EARLIER: LiteralString = """
(select id, case status when 'dead' then 'discarded' else status::text end as status, trigger::text, scheduled_for,
        finished_at as ended_at
   from wakeboard.job_run_history
  where definition_id = %(definition)s and finished_at <= %(ended)s and id <> %(id)s
  order by finished_at desc limit %(count)s)
union all
(select id, status::text, trigger::text, scheduled_for, dead_at
   from (select * from wakeboard.job_runs where definition_id = %(definition)s limit 1000) as live
  where id < %(id)s
  order by id desc limit %(count)s)
 order by scheduled_for desc, id desc
 limit %(count)s
"""
_LATER: LiteralString = """
(select id, case status when 'dead' then 'discarded' else status::text end as status, trigger::text, scheduled_for,
        finished_at as ended_at
   from wakeboard.job_run_history
  where definition_id = %(definition)s and finished_at > %(ended)s and id <> %(id)s
  order by finished_at limit %(count)s)
union all
(select id, status::text, trigger::text, scheduled_for, dead_at
   from (select * from wakeboard.job_runs where definition_id = %(definition)s limit 1000) as live
  where id > %(id)s
  order by id limit %(count)s)
 order by scheduled_for, id
 limit %(count)s
"""
_NOW: LiteralString = "select clock_timestamp()"


async def read_shown_run(
    conn: psycopg.AsyncConnection[Any], run_id: int, *, namespaces: Collection[str] | None
) -> ShownRun | None:
    """The run with this id, live or in history; None: there is none, or it belongs to none of these namespaces."""
    # In this order: a run may finish between the two reads, but never returns from history.
    wanted = {"id": run_id}
    found = await read(conn, class_row(ShownRun), _LIVE_RUN, wanted) or await read(
        conn, class_row(ShownRun), _PAST_RUN, wanted
    )
    if not found or (namespaces is not None and await _namespace(conn, found[0]) not in namespaces):
        return None
    return found[0]


async def read_run_history(
    conn: psycopg.AsyncConnection[Any], run_id: int, *, namespaces: Collection[str] | None
) -> RunHistory | None:
    """All about the run with this id; None: there is none, or it belongs to none of these namespaces."""
    run = await read_shown_run(conn, run_id, namespaces=namespaces)
    if run is None:
        return None
    schedule = await _schedule(conn, run)
    now: datetime = (await read(conn, scalar_row, _NOW))[0]
    values = {"id": run.id, "uuid": run.uuid, "longest": LONGEST_STEP_RESULT}
    attempts = await read(conn, class_row(ShownAttempt), _ATTEMPTS, {**values, "count": MOST_ATTEMPTS})
    earlier, later = await _neighbours(conn, run) if schedule else ([], [])
    return RunHistory(
        now=now,
        run=run,
        schedule=schedule,
        attempts=attempts[::-1],
        steps=await read(conn, class_row(ShownStep), _STEPS, {**values, "count": MOST_STEPS}),
        effects=await read(conn, class_row(ShownEffect), _EFFECTS, {**values, "count": MOST_STEPS}),
        actions=(await audit_rows(conn, AuditFilter(run_id=run.id), MOST_AUDIT_ROWS))[::-1],
        earlier=earlier,
        later=later,
        situation=await read_run_situation(conn, run_id) if run.finished_at is None else None,
    )


async def read_step_result(conn: psycopg.AsyncConnection[Any], run_id: int, name: str) -> str | None:
    """The JSON text of a step's result; None: there is no such step, or it has none."""
    found = await read(conn, scalar_row, _STEP_RESULT, {"id": run_id, "name": name})
    return found[0] if found else None


async def _schedule(conn: psycopg.AsyncConnection[Any], run: ShownRun) -> ScheduleOfRun | None:
    found = await read(conn, class_row(ScheduleOfRun), _SCHEDULE, {"definition": run.definition_id})
    return found[0] if found else None


async def _neighbours(conn: psycopg.AsyncConnection[Any], run: ShownRun) -> tuple[list[Neighbour], list[Neighbour]]:
    """The runs whose ticks are before and after that of `run`, oldest first.

    The index of the history orders runs by their end, which follows the order of the ticks only roughly: a run may be
    dead for days.
    """
    around = {"definition": run.definition_id, "id": run.id, "ended": run.scheduled_for, "count": _NEIGHBOURS}
    await prefer_index_order(conn)
    found = [
        *await read(conn, class_row(Neighbour), _EARLIER, around),
        *await read(conn, class_row(Neighbour), _LATER, around),
    ]
    found.sort(key=_tick)
    earlier = [other for other in found if _tick(other) < _tick(run)]
    return earlier[-_NEIGHBOURS:], [other for other in found if _tick(other) > _tick(run)][:_NEIGHBOURS]


def _tick(run: ShownRun | Neighbour) -> tuple[datetime, int]:
    return run.scheduled_for, run.id


async def _namespace(conn: psycopg.AsyncConnection[Any], run: ShownRun) -> str | None:
    schedule = await _schedule(conn, run)
    return schedule.namespace if schedule else None
