"""The state of schedules, from which their status is computed: one query for any number of them."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, LiteralString

from psycopg.rows import class_row

from wakeboard.dependencies.queries import ENDED, PAUSE_OF_SCHEDULE, read_parents
from wakeboard.dependencies.rules.graph import blocked_by
from wakeboard.store.statements import read
from wakeboard.views.queries.job_types import meant_job_types
from wakeboard.views.queries.schedule_list import RUNS_OF_SCHEDULE
from wakeboard.views.rules.offers import missing_offer

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime

    import psycopg

    from wakeboard.dependencies.rules.graph import Parent


@dataclass(frozen=True, slots=True, kw_only=True)
class ScheduleState:
    """A schedule, its runs, and what blocks it. Times are in UTC; None: there was none.

    `generation` is the one in force. `paused`: the paused scope: 'all', 'queue:NAME' or 'schedule:ID'. `last_*` is the
    run that ended last, a dead one included: its result is succeeded, cancelled, skipped or dead. `last_scheduled_for`
    is None unless a tick created it. `last_reason`: why that run was skipped or cancelled.
    `updated_at`: when its definition was last changed. `type_known_at`: when a worker of the queue last knew the job
    type; `queue_known_at`: when a worker of the queue last said what it knows. Both None: in the last 40 days none did.
    `type_meant`: a job type of the queue with a similar name, if none knows this one.
    `missing_offer`: the sentence about what none of its workers offers (views/rules/offers.py).
    `runs_after`: the names in spec.after. `waiting_for`: what a user must do something about before it continues.
    `circuit_*`: since when it creates no runs after dead ones, and its probe. `success_missed_at`: since when its ticks
    have not the success that it expects. `database_went_back`: perhaps, and no user has acknowledged it.
    """

    id: int
    source: str
    namespace: str
    name: str
    uid: str
    generation: int
    queue: str
    job_type: str
    schedule: str | None
    suspended: bool
    paused: str | None
    pause_reason: str | None
    next_run_at: datetime | None
    schedule_error: str | None
    created_at: datetime
    updated_at: datetime
    removed: bool
    queued: int
    running: int
    failed: int
    dead: int
    oldest_dead_at: datetime | None
    oldest_due_at: datetime | None
    last_run_id: int | None
    last_scheduled_for: datetime | None
    last_finished_at: datetime | None
    last_result: str | None
    last_reason: str | None
    last_success_at: datetime | None
    last_failure_at: datetime | None
    last_failure_type: str | None
    last_failure_message: str | None
    last_failure_run_id: int | None
    type_known_at: datetime | None
    queue_known_at: datetime | None
    last_action: str | None
    last_action_token: str | None
    last_action_at: datetime | None
    last_action_result: str | None
    runs_after: tuple[str, ...] = ()
    waiting_for: str | None = None
    type_meant: str | None = None
    missing_offer: str | None = None
    target: str | None = None
    offers: list[list[str]] | None = None
    suspend_after_dead: int | None = None
    circuit_opened_at: datetime | None = None
    circuit_probe_at: datetime | None = None
    circuit_probe_id: int | None = None
    expect_success_within_s: int | None = None
    alert_after_missed: int | None = None
    success_missed_at: datetime | None = None
    database_went_back: bool = False
    has_ended: bool = False


# How far back the last success and the last failure are searched among finished runs.
_RECENT_RUNS = 100

_FACTS: LiteralString = f"""
select def.id, def.source, def.namespace, def.name, def.uid, def.generation, def.queue::text, def.job_type::text,
       def.schedule, def.suspended, pause.scope as paused, pause.reason as pause_reason, def.next_run_at,
       def.schedule_error, def.created_at, def.updated_at, def.removed_at is not null as removed,
       live.queued, live.running, live.failed, live.dead, live.oldest_dead_at, live.oldest_due_at,
       last.id as last_run_id, last.tick as last_scheduled_for, last.ended_at as last_finished_at,
       replace(last.status, 'discarded', 'dead') as last_result, last.reason as last_reason, past.last_success_at,
       failure.failed_at as last_failure_at, failure.error_type as last_failure_type,
       failure.last_error as last_failure_message, failure.id as last_failure_run_id,
       type.last_known_at as type_known_at, type.offers,
       case def.job_type when 'http' then def.payload ->> 'url' when 'command' then def.payload ->> 'command'
                         when 'job' then def.namespace || '/' || (def.payload ->> 'cronJob') end as target,
       (select max(last_known_at) from wakeboard.worker_types where worker_types.queue = def.queue) as queue_known_at,
       action.action as last_action, action.token as last_action_token, action.requested_at as last_action_at,
       action.result as last_action_result,
       def.suspend_after_dead, def.circuit_opened_at, def.circuit_probe_at, def.circuit_probe_id,
       def.expect_success_within_s, def.alert_after_missed, def.success_missed_at,
       exists (select from wakeboard.server_changes
                where (at_risk or lost) and acknowledged_at is null) as database_went_back,
       coalesce({ENDED}, false) as has_ended
  from wakeboard.job_definitions as def {RUNS_OF_SCHEDULE} {PAUSE_OF_SCHEDULE}
  left join lateral (
    select max(finished_at) filter (where status = 'succeeded') as last_success_at
      from (select status, finished_at from wakeboard.job_run_history
             where definition_id = def.id order by finished_at desc limit %(recent_runs)s) as lately) as past on true
  left join lateral (
    (select id, failed_at, error_type, last_error
       from wakeboard.job_runs
      where definition_id = def.id and failed_at is not null
      order by failed_at desc limit 1)
    union all
    (select id, failed_at, error_type, last_error
       from (select id, failed_at, error_type, last_error from wakeboard.job_run_history
              where definition_id = def.id order by finished_at desc limit %(recent_runs)s) as lately
      where failed_at is not null
      order by failed_at desc limit 1)
     order by failed_at desc limit 1) as failure on true
  left join lateral (
    select max(last_known_at) as last_known_at,
           case when bool_and(offers is not null) then jsonb_agg(offers) end as offers
      from wakeboard.worker_types
     where worker_types.job_type = def.job_type and worker_types.queue = def.queue) as type on true
  left join lateral (
    select action, token, requested_at, result from wakeboard.action_tokens
     where action_tokens.source = def.source and action_tokens.namespace = def.namespace
       and action_tokens.name = def.name and executed
     order by requested_at desc limit 1) as action on true
 where def.id = any (%(ids)s)
"""


async def schedule_states(conn: psycopg.AsyncConnection[Any], ids: Sequence[int]) -> list[ScheduleState]:
    """The states of these schedules, in no order; those that do not exist are left out."""
    parents: dict[int, list[Parent]] = defaultdict(list)
    for parent in await read_parents(conn, ids):
        parents[parent.definition_id].append(parent)
    states = await read(conn, class_row(ScheduleState), _FACTS, {"ids": list(ids), "recent_runs": _RECENT_RUNS})
    unserved = {
        (state.queue, state.job_type) for state in states if state.type_known_at is None and state.queue_known_at
    }
    meant = await meant_job_types(conn, unserved)
    return [_with_names(state, parents.get(state.id, []), meant.get((state.queue, state.job_type))) for state in states]


def _with_names(state: ScheduleState, parents: Sequence[Parent], meant: str | None) -> ScheduleState:
    missing = None
    if state.target is not None and state.offers is not None:
        missing = missing_offer(
            state.queue, state.job_type, state.target, {name for names in state.offers for name in names}
        )
    if not parents and meant is None and missing is None:
        return state
    names = tuple(parent.name for parent in parents)
    return replace(state, runs_after=names, waiting_for=blocked_by(parents), type_meant=meant, missing_offer=missing)
