"""How long it takes until all is well again after a fault that struck alone."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any, Final

from chaos.results import Recovery

if TYPE_CHECKING:
    from collections.abc import Callable

    from chaos.environment import Stage
    from chaos.faults.fault import Struck

PATIENCE_S: Final = 20.0
LOOK_EVERY_S: Final = 0.02
LONG_S: Final = 3.0

_IN_FLIGHT: Final = "select id, lease_epoch from wakeboard.job_runs where locked_by <> 0"
_STILL_IN_FLIGHT: Final = """
select count(*)
  from wakeboard.job_runs as run join unnest(%s::bigint[], %s::bigint[]) as held (id, epoch) on held.id = run.id
 where run.locked_by <> 0 and run.lease_epoch = held.epoch
"""
_TAKEN_BACK: Final = """
select extract(epoch from max(back.at)) - %s,
       extract(epoch from max(next.at - back.at) filter (where run.crash_count < 2))
  from chaos.transitions as back
  join unnest(%s::bigint[], %s::bigint[]) as held (id, epoch)
    on held.id = back.run_id and back.epoch = held.epoch + 1
  join wakeboard.all_runs as run on run.id = back.run_id
  left join lateral (select min(at) as at from chaos.transitions as later
                      where later.run_id = back.run_id and later.what = 'claimed' and later.place > back.place) as next
    on true
 where back.what = 'taken back'
"""
_STEPS: Final = """
select step.at::text, step.what, coalesce(worker.name, '')
  from chaos.transitions as step left join chaos.workers_seen as worker on worker.worker_id = step.holder
 where step.run_id = %s order by step.place
"""
_PROBE: Final = (
    "select id from wakeboard.enqueue('quick', '{}', priority => 5, max_attempts => 100, backoff => 'fixed',"
    " backoff_base_s => 1)"
)


def measured(stage: Stage, kind: str, strike: Callable[[], Struck | None]) -> tuple[Struck | None, Recovery]:
    """Lets it strike, and waits until what was in flight has moved on and a new run has been run."""
    recovery = Recovery(kind)
    before = stage.ask(_IN_FLIGHT)
    began = time.time()
    struck = strike()
    if struck is None:
        return None, recovery
    ended = time.monotonic()
    probe = stage.ask(_PROBE)[0][0]
    if _wait(stage, "select 1 from wakeboard.job_run_history where id = %s and status = 'succeeded'", probe):
        recovery.serves = time.monotonic() - ended
        _explain(stage, kind, probe, recovery.serves)
    held = list({*before, *stage.ask(_IN_FLIGHT)})
    runs, epochs = [run for run, _ in held], [epoch for _, epoch in held]
    _wait(stage, f"select 1 where ({_STILL_IN_FLIGHT}) = 0", runs, epochs)
    time.sleep(0.3)  # what was taken back last is claimed by now, or counts as never
    row = stage.ask(_TAKEN_BACK, began, runs, epochs)[0]
    recovery.claimable, recovery.again = (None if value is None else float(value) for value in row)
    return struck, recovery


def _explain(stage: Stage, kind: str, probe: int, serves_s: float) -> None:
    """Writes down what became of a run that took long."""
    if serves_s < LONG_S:
        return
    steps = stage.ask(_STEPS, probe)
    with (stage.logs / "strikes.log").open("a") as log:
        log.write(f"after {kind} run {probe} took {serves_s:.1f} s: {'; '.join(' '.join(step) for step in steps)}\n")


def _wait(stage: Stage, query: str, *values: Any) -> bool:
    deadline = time.monotonic() + PATIENCE_S
    while time.monotonic() < deadline:
        if stage.ask(query, *values):
            return True
        time.sleep(LOOK_EVERY_S)
    return False
