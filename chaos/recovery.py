"""Recovery: how long it takes after one isolated fault, and whether everything drains after the last fault."""

from __future__ import annotations

import math
import time
from typing import TYPE_CHECKING, Any, Final

from chaos.chaotic_handlers import GOOD
from chaos.results import Recovery, Violation

if TYPE_CHECKING:
    from collections.abc import Callable

    from chaos.applications import ClientRecord
    from chaos.environment import Environment

RECOVERY_TIMEOUT_S: Final = 20.0
STUCK_S: Final = 120.0  # without an end of a run: quarantined ones are executed one by one, and may be many
DRAIN_TIMEOUT_S: Final = 600.0
WORKER_TIMEOUT_S: Final = 20.0
POLL_S: Final = 0.02

_IN_FLIGHT: Final = "select id, lease_epoch from wakeboard.job_runs where locked_by <> 0"
_STILL_IN_FLIGHT: Final = """
select count(*)
  from wakeboard.job_runs as run join unnest(%s::bigint[], %s::bigint[]) as leased (id, epoch) on leased.id = run.id
 where run.locked_by <> 0 and run.lease_epoch = leased.epoch
"""
_REAPED: Final = """
select extract(epoch from max(reaped.at)) - %s,
       extract(epoch from max(next.at - reaped.at) filter (where run.crash_count < 2))
  from chaos.transitions as reaped
  join unnest(%s::bigint[], %s::bigint[]) as leased (id, epoch)
    on leased.id = reaped.run_id and reaped.epoch = leased.epoch + 1
  join wakeboard.all_runs as run on run.id = reaped.run_id
  left join lateral (
         select min(at) as at from chaos.transitions as later
          where later.run_id = reaped.run_id and later.what = 'claimed' and later.position > reaped.position) as next
    on true
 where reaped.what = 'reaped'
"""
_PROBE: Final = (
    "select id from wakeboard.enqueue('quick', '{}', priority => 5, max_attempts => 100, backoff => 'fixed',"
    " backoff_base_s => 1)"
)
_UNFINISHED: Final = """
select id, job_type, status, run_at, attempts, crash_count, locked_by, locked_until, left(last_error, 200)
  from wakeboard.job_runs where status <> 'dead' and run_at < now() + interval '5 s' limit 20
"""
_LEFT: Final = "select count(*) from wakeboard.job_runs where status <> 'dead'"
# What maintenance has to do yet. Dependent schedules get runs while their parents' runs end.
_UNSETTLED: Final = """
select 'backfill', id::text, total::text, created::text, paused_at::text
  from wakeboard.backfills where finished_at is null
union all
select 'end of a run', run_id::text, definition_id::text, scheduled_for::text, outcome from wakeboard.ended_runs
union all
select 'tick', definition_id::text, scheduled_for::text, waits_for, null from wakeboard.schedule_ticks
 where waits_for in ('run', 'check')
limit 20
"""
_RESUME: Final = "select wakeboard.resume('backfill:' || id) from wakeboard.backfills where paused_at is not null"
# Runs of well-behaved handlers that are dead because their workers were killed three times. A user retries them.
_DEAD: Final = "select id from wakeboard.job_runs where status = 'dead' and job_type = any (%s) order by id limit 500"
_WORKER_PROBE: Final = "select id from wakeboard.enqueue('quick', '{}', queue => %s, max_attempts => 100)"
_SUCCEEDED: Final = "select id from wakeboard.job_run_history where id = any (%s) and status = 'succeeded'"


def measure_recovery(environment: Environment, fault: str, inject: Callable[[], str | None]) -> Recovery:
    """Injects a fault and waits until a new run has succeeded and every lease of before has ended."""
    recovery = Recovery(fault)
    before = environment.query(_IN_FLIGHT)
    started = time.time()
    if inject() is None:
        return recovery
    ended = time.monotonic()
    probe = environment.query(_PROBE)[0][0]
    if _wait(environment, _SUCCEEDED, [probe]):
        recovery.serves = time.monotonic() - ended
    leased = list({*before, *environment.query(_IN_FLIGHT)})
    runs, epochs = [run for run, _ in leased], [epoch for _, epoch in leased]
    _wait(environment, f"select 1 where ({_STILL_IN_FLIGHT}) = 0", runs, epochs)
    time.sleep(0.3)  # the runs that were reaped last are claimed within this time, or do not count
    row = environment.query(_REAPED, started, runs, epochs)[0]
    recovery.claimable, recovery.again = (None if value is None else float(value) for value in row)
    return recovery


def _wait(environment: Environment, query: str, *values: Any) -> bool:
    deadline = time.monotonic() + RECOVERY_TIMEOUT_S
    while time.monotonic() < deadline:
        if environment.query(query, *values):
            return True
        time.sleep(POLL_S)
    return False


def drain(environment: Environment, clients: ClientRecord) -> tuple[float, list[Violation]]:
    """Waits until no run is due. Returns the seconds that it took, and the runs that are stuck."""
    started = last_end = time.monotonic()
    least = math.inf
    environment.query(_RESUME)
    while time.monotonic() < min(last_end + STUCK_S, started + DRAIN_TIMEOUT_S):
        if (left := environment.query(_LEFT)[0][0]) < least:
            least, last_end = left, time.monotonic()
        dead = [row[0] for row in environment.query(_DEAD, list(GOOD))]
        if dead:
            clients.changed_by_users.update(dead)
            environment.query("select wakeboard.retry(%s)", dead)
        elif not environment.query(_UNFINISHED) and not environment.query(_UNSETTLED):
            return time.monotonic() - started, []
        time.sleep(5 * POLL_S)
    rows = environment.query(_UNFINISHED) + environment.query(_UNSETTLED)
    left = [", ".join(map(str, row)) for row in rows]
    return time.monotonic() - started, [Violation("other", "no run is stuck", row) for row in left]


def check_every_worker(environment: Environment) -> list[Violation]:
    """Enqueues a run for each slot's own queue. Returns a violation for each slot whose worker does not run it."""
    slots = [slot.name for slot in environment.supervisor.slots if slot.is_worker]
    probes = {environment.query(_WORKER_PROBE, f"only-{name}")[0][0]: name for name in slots}
    started, done = time.monotonic(), set[int]()
    while time.monotonic() < started + WORKER_TIMEOUT_S:
        done = {row[0] for row in environment.query(_SUCCEEDED, list(probes))}
        if len(done) == len(probes):
            return []
        time.sleep(5 * POLL_S)
    idle = [name for run, name in probes.items() if run not in done]
    return [Violation("other", "every worker works again", f"no worker in slot {name} runs anything") for name in idle]
