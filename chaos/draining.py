"""After the last fault: everything drains, and every worker that stays is seen to work."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Final

from chaos.chaotic_handlers import GOOD
from chaos.results import Violation

if TYPE_CHECKING:
    from chaos.applications import Told
    from chaos.environment import Stage

DRAIN_WITHIN_S: Final = 120.0
WORK_WITHIN_S: Final = 20.0
LOOK_EVERY_S: Final = 0.1

_LEFT: Final = """
select id, job_type, status, run_at, attempts, crash_count, locked_by, locked_until, left(last_error, 200)
  from wakeboard.job_runs where status <> 'dead' and run_at < now() + interval '5 s' limit 20
"""
# What must end well and was given up all the same, because three of its workers were killed: a person tries it again.
_GIVEN_UP: Final = (
    "select id from wakeboard.job_runs where status = 'dead' and job_type = any (%s) order by id limit 500"
)
_PROBE: Final = "select id from wakeboard.enqueue('quick', '{}', queue => %s, max_attempts => 100)"
_DONE: Final = "select id from wakeboard.job_run_history where id = any (%s) and status = 'succeeded'"


def drain(stage: Stage, told: Told) -> tuple[float, list[Violation]]:
    """Waits until nothing is due any more; how many seconds that took, and what is stuck."""
    began = time.monotonic()
    while time.monotonic() < began + DRAIN_WITHIN_S:
        given_up = [row[0] for row in stage.ask(_GIVEN_UP, list(GOOD))]
        if given_up:
            told.decided.update(given_up)
            stage.ask("select wakeboard.retry(%s)", given_up)
        elif not stage.ask(_LEFT):
            return time.monotonic() - began, []
        time.sleep(LOOK_EVERY_S)
    left = [", ".join(map(str, row)) for row in stage.ask(_LEFT)]
    return time.monotonic() - began, [Violation("other", "no run is stuck", row) for row in left]


def try_every_worker(stage: Stage) -> list[Violation]:
    """A run for each seat alone: whoever sits there must run it, whatever has happened to it."""
    seats = [seat.name for seat in stage.cast.seats if "wakeboard_worker" in seat.words]
    probes = {stage.ask(_PROBE, f"only-{name}")[0][0]: name for name in seats}
    began, done = time.monotonic(), set[int]()
    while time.monotonic() < began + WORK_WITHIN_S:
        done = {row[0] for row in stage.ask(_DONE, list(probes))}
        if len(done) == len(probes):
            return []
        time.sleep(LOOK_EVERY_S)
    idle = [name for run, name in probes.items() if run not in done]
    return [Violation("other", "every worker works again", f"nobody at the seat of {name} works") for name in idle]
