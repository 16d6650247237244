"""Processes of the cast that die, sleep, or are sent away."""

from __future__ import annotations

import signal
import time
from typing import TYPE_CHECKING

from chaos.faults.fault import Fault, Struck, worker_of

if TYPE_CHECKING:
    from chaos.environment import Stage
    from chaos.faults.fault import Draw


class WorkerKilled(Fault):
    """SIGKILL of a worker at a random moment: claiming, running, completing."""

    name = "worker killed"
    weight = 22

    def strike(self, stage: Stage, draw: Draw) -> Struck | None:
        """Kills it."""
        if (victim := worker_of(stage, draw)) is None:
            return None
        struck = Struck(victim.name, (victim.name,))
        victim.send(signal.SIGKILL)
        return struck


class WorkerFrozen(Fault):
    """SIGSTOP of a worker for longer than its lease, then SIGCONT: a zombie that believes in what it holds."""

    name = "worker frozen past its lease"
    weight = 14

    def strike(self, stage: Stage, draw: Draw) -> Struck | None:
        """Freezes it, and lets it go on."""
        if (victim := worker_of(stage, draw)) is None:
            return None
        struck = Struck(victim.name, (victim.name,))
        victim.send(signal.SIGSTOP)
        time.sleep(draw.between(2.2, 5.0))
        victim.send(signal.SIGCONT)
        return struck


class WorkerStumbles(Fault):
    """SIGSTOP of a worker for less than its lease, then SIGCONT."""

    name = "worker frozen briefly"
    weight = 12

    def strike(self, stage: Stage, draw: Draw) -> Struck | None:
        """Freezes it, and lets it go on."""
        if (victim := worker_of(stage, draw)) is None:
            return None
        struck = Struck(victim.name)
        victim.send(signal.SIGSTOP)
        time.sleep(draw.between(0.05, 1.5))
        victim.send(signal.SIGCONT)
        return struck


class WorkerSentAway(Fault):
    """SIGTERM of a worker (an eviction, a deployment), sometimes twice, sometimes with SIGKILL soon after."""

    name = "worker sent away"
    weight = 12

    def strike(self, stage: Stage, draw: Draw) -> Struck | None:
        """Asks it to go."""
        if (victim := worker_of(stage, draw)) is None:
            return None
        struck = Struck(victim.name)
        victim.send(signal.SIGTERM)
        insist = draw.choose([None, None, signal.SIGTERM, signal.SIGKILL])
        if insist is not None:
            time.sleep(draw.between(0.0, 1.2))
            victim.send(insist)
            struck.hurt = (victim.name,)
        return struck


class DutiesKilled(Fault):
    """SIGKILL or SIGSTOP of the process that makes ticks and takes back leases beside the workers."""

    name = "duties killed or frozen"
    weight = 5

    def strike(self, stage: Stage, draw: Draw) -> Struck | None:
        """Kills it, or freezes it for a while."""
        victims = [actor for actor in stage.cast.living() if actor.seat.name == "duties"]
        if not victims:
            return None
        struck = Struck("duties")
        if draw.how < 0.5:
            victims[0].send(signal.SIGKILL)
            return struck
        victims[0].send(signal.SIGSTOP)
        time.sleep(draw.between(0.5, 4.0))
        victims[0].send(signal.SIGCONT)
        return struck


class ClockMoved(Fault):
    """The wall clock of a worker's machine jumps by up to twelve hours, either way, and comes back later."""

    name = "clock moved"
    weight = 8

    def strike(self, stage: Stage, draw: Draw) -> Struck | None:
        """Moves it, and moves it back."""
        if (victim := draw.pick(stage.cast.living())) is None:
            return None
        struck = Struck(victim.name)
        victim.move_clock((draw.how - 0.5) * 24 * 3600)
        time.sleep(draw.between(0.5, 5.0))
        if draw.more < 0.7:  # otherwise its machine stays wrong, for whoever sits there next
            victim.move_clock(0.0)
        return struck
