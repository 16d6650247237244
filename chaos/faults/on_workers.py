"""Workers and the maintenance process are killed, frozen, terminated, or have a wrong clock."""

from __future__ import annotations

import signal
import time
from typing import TYPE_CHECKING, Final

from chaos.faults.fault import Fault, WorkerFault
from chaos.processes import LEASE_S

if TYPE_CHECKING:
    from chaos.environment import Environment
    from chaos.faults.fault import Draw
    from chaos.processes import ManagedProcess


ENDS_WITHIN_S: Final = 5.0
_REPORT: Final = (
    "select reported.* from chaos.workers_seen as seen"
    " cross join lateral wakeboard.report_worker_terminated(seen.worker_id, %s, 'chaos', seen.name) as reported"
    " where seen.name = %s"
)


class WorkerKilled(WorkerFault):
    """SIGKILL of a worker at a random moment, while it claims, runs or completes."""

    name = "worker killed"
    weight = 22

    def hit(self, worker: ManagedProcess, environment: Environment, draw: Draw) -> bool:
        worker.send(signal.SIGKILL)
        return True


class WorkerEndReported(WorkerFault):
    """SIGKILL of a worker whose end is reported, as by the operator: at once, twice, and after others have its runs."""

    name = "worker killed and reported"
    weight = 14

    def hit(self, worker: ManagedProcess, environment: Environment, draw: Draw) -> bool:
        worker.send(signal.SIGKILL)
        if not worker.wait(ENDS_WITHIN_S):
            return True
        cause = draw.choose(["OOMKilled", "Error", "Evicted", "Deleted"])
        for pause_s in (draw.between(0.0, 0.5), 0.0, draw.between(0.0, 2 * LEASE_S)):
            time.sleep(pause_s)
            environment.query(_REPORT, cause, worker.name)
        return True


class WorkerFrozen(WorkerFault):
    """SIGSTOP of a worker for longer than its lease, then SIGCONT. The worker may still report lost leases."""

    name = "worker frozen past its lease"
    weight = 14
    seconds = (LEASE_S + 0.2, 5.0)

    def hit(self, worker: ManagedProcess, environment: Environment, draw: Draw) -> bool:
        _freeze(worker, draw.between(*self.seconds))
        return True


class WorkerFrozenBriefly(WorkerFrozen):
    """SIGSTOP of a worker for less than its lease, then SIGCONT."""

    name = "worker frozen briefly"
    weight = 12
    seconds = (0.05, 1.5)


class WorkerTerminated(WorkerFault):
    """SIGTERM of a worker (an eviction, a deployment), sometimes followed by a second SIGTERM or by SIGKILL."""

    name = "worker terminated"
    weight = 12

    def hit(self, worker: ManagedProcess, environment: Environment, draw: Draw) -> bool:
        worker.send(signal.SIGTERM)
        second = draw.choose([None, None, signal.SIGTERM, signal.SIGKILL])
        if second is not None:
            time.sleep(draw.between(0.0, 1.2))
            worker.send(second)
        return True


class MaintenanceKilled(Fault):
    """SIGKILL or SIGSTOP of the process that runs only maintenance tasks."""

    name = "maintenance killed or frozen"
    weight = 5

    def inject(self, environment: Environment, draw: Draw) -> str | None:
        found = [process for process in environment.supervisor.running() if process.slot.name == "maintenance"]
        if not found:
            return None
        if draw.how < 0.5:
            found[0].send(signal.SIGKILL)
        else:
            _freeze(found[0], draw.between(0.5, 4.0))
        return "maintenance"


class ClockWrong(Fault):
    """The wall clock of one process's machine jumps by up to twelve hours, either way, and is corrected later."""

    name = "clock wrong"
    weight = 8

    def inject(self, environment: Environment, draw: Draw) -> str | None:
        if (process := draw.pick(environment.supervisor.running())) is None:
            return None
        process.set_clock_error((draw.how - 0.5) * 24 * 3600)
        time.sleep(draw.between(0.5, 5.0))
        if draw.more < 0.7:  # otherwise the clock stays wrong for the next process in this slot
            process.set_clock_error(0.0)
        return process.name


def _freeze(process: ManagedProcess, seconds: float) -> None:
    process.send(signal.SIGSTOP)
    time.sleep(seconds)
    process.send(signal.SIGCONT)
