"""Connections that break, lose answers, hold them back, or go silent."""

from __future__ import annotations

import signal
import time
from typing import TYPE_CHECKING, Final

from chaos.faults.fault import Fault, Struck, worker_of
from chaos.tcp_proxy import Loss, Trap

if TYPE_CHECKING:
    from collections.abc import Sequence

    from chaos.environment import Stage
    from chaos.faults.fault import Draw

SPRINGS_WITHIN_S: Final = 2.5

# (purpose of the line, what a statement on it carries)
CLAIMS: Final = (("wakeboard claims", b"wakeboard.claim"),)
OUTCOMES: Final = (("wakeboard outcomes", b"wakeboard."),)
APPLICATIONS: Final = (
    ("chaos shop", b"wakeboard.enqueue"),
    ("chaos orders", b"COMMIT"),
    ("chaos orders", b"wakeboard.enqueue"),
    ("chaos bulk", b"wakeboard.enqueue_many"),
)
EFFECTS: Final = (("chaos effects", b"COMMIT"), ("chaos effects", b"wakeboard.once"))
OTHERS: Final = (
    ("wakeboard heartbeat", b"wakeboard.renew"),
    ("wakeboard handlers", b"wakeboard."),
    ("wakeboard duties", b"wakeboard.enqueue_due_ticks"),
    ("wakeboard claims", b"wakeboard.enqueue_due_ticks"),
    ("wakeboard claims", b"wakeboard.reap"),
    ("wakeboard claims", b"wakeboard.register_worker"),
)
EVERYTHING: Final = (*CLAIMS * 3, *OUTCOMES * 3, *APPLICATIONS, *EFFECTS, *OTHERS)


def _spring(stage: Stage, draw: Draw, places: Sequence[tuple[str, bytes]], loss: Loss) -> Struck | None:
    """Sets a trap for one purpose; what it met, or None."""
    purpose, pattern = draw.choose(places)
    sprung = _sprung(stage, Trap(purpose, pattern, loss))
    return Struck(f"{purpose}: {pattern.decode()}") if sprung else None


def _sprung(stage: Stage, trap: Trap) -> bool:
    """Sets it on every switchboard, and waits for a while."""
    for store in stage.stores:
        store.set_trap(trap)
    sprung = trap.sprung.wait(SPRINGS_WITHIN_S)
    for store in stage.stores:
        store.remove_trap(trap)
    return sprung


class CutMidStatement(Fault):
    """A connection breaks when the server has half of a statement, or nothing of it."""

    name = "cut in mid-statement"
    weight = 14

    def strike(self, stage: Stage, draw: Draw) -> Struck | None:
        """Cuts a line of whatever purpose."""
        return _spring(stage, draw, EVERYTHING, Loss.HALF if draw.more < 0.7 else Loss.UNSENT)


class ClaimAnswerLost(Fault):
    """The server has leased runs to a worker, and the answer never arrives: leases that nobody knows of."""

    name = "answer of a claim lost"
    weight = 10

    def strike(self, stage: Stage, draw: Draw) -> Struck | None:
        """Loses it."""
        return _spring(stage, draw, CLAIMS, Loss.ANSWER)


class OutcomeAnswerLost(Fault):
    """Completions, failures or releases are committed, and the answer never arrives: the worker says them again."""

    name = "answer of an outcome lost"
    weight = 12

    def strike(self, stage: Stage, draw: Draw) -> Struck | None:
        """Loses it."""
        return _spring(stage, draw, OUTCOMES, Loss.ANSWER)


class EnqueueAnswerLost(Fault):
    """An application's enqueue is committed, and the application is not told."""

    name = "answer of an enqueue lost"
    weight = 10

    def strike(self, stage: Stage, draw: Draw) -> Struck | None:
        """Loses it."""
        return _spring(stage, draw, APPLICATIONS, Loss.ANSWER)


class EffectAnswerLost(Fault):
    """An effect is committed, and the handler is not told: its attempt fails, the next one must not repeat it."""

    name = "answer of an effect lost"
    weight = 10

    def strike(self, stage: Stage, draw: Draw) -> Struck | None:
        """Loses it."""
        return _spring(stage, draw, EFFECTS, Loss.ANSWER)


class OtherAnswerLost(Fault):
    """The answer of a heartbeat, a step, a duty or a registration is lost after the commit."""

    name = "another answer lost"
    weight = 8

    def strike(self, stage: Stage, draw: Draw) -> Struck | None:
        """Loses it."""
        return _spring(stage, draw, OTHERS, Loss.ANSWER)


class _KilledWaiting(Fault):
    """A worker is killed while it waits for an answer."""

    purpose, pattern = "", b""

    def strike(self, stage: Stage, draw: Draw) -> Struck | None:
        """Holds the answer back, and kills the worker before it can read it."""
        if (victim := worker_of(stage, draw)) is None:
            return None
        # A prepared statement comes without its text.
        pattern = b"" if victim.seat.settings.get("prepared_statements") == "true" else self.pattern
        if not _sprung(stage, Trap(f"{self.purpose} {victim.name}", pattern, Loss.HELD)):
            return None
        time.sleep(draw.between(0.01, 0.1))
        struck = Struck(victim.name, (victim.name,))
        victim.send(signal.SIGKILL)
        return struck


class KilledWhileClaiming(_KilledWaiting):
    """SIGKILL of a worker whose claim was sent and whose answer it has not read."""

    name = "worker killed while claiming"
    purpose, pattern = "wakeboard claims", b"wakeboard.claim"
    weight = 8


class KilledWhileCompleting(_KilledWaiting):
    """SIGKILL of a worker that has sent outcomes and not read the answer."""

    name = "worker killed while completing"
    purpose, pattern = "wakeboard outcomes", b"wakeboard."
    weight = 8


class AnswersHeldBack(Fault):
    """A worker's answers on one connection (claims, outcomes, heartbeat, all) are late by up to a lease and a half."""

    name = "answers held back"
    weight = 10

    def strike(self, stage: Stage, draw: Draw) -> Struck | None:
        """Holds them, and lets them go."""
        purpose = draw.choose(["wakeboard claims", "wakeboard outcomes", "wakeboard heartbeat", ""])
        lines = [(store, line) for store in stage.stores for line in store.lines("", purpose or "wakeboard claims")]
        connected = {line.name.rsplit(" ", 1)[-1] for _, line in lines}
        victim = draw.pick([worker for worker in stage.cast.workers() if worker.name in connected])
        if victim is None:
            return None
        struck = Struck(f"{victim.name} {purpose}")
        held = [(store, line) for store in stage.stores for line in store.lines(victim.name, purpose)]
        for store, line in held:
            store.hold(line)
        time.sleep(draw.between(0.2, 3.2))
        for store, line in held:
            store.let_go(line)
        return struck


class WorkerCutOff(Fault):
    """Nothing goes through between a worker and the database for longer than a lease, and nobody is told."""

    name = "worker cut off"
    weight = 9

    def strike(self, stage: Stage, draw: Draw) -> Struck | None:
        """Silences it, and ends the silence."""
        if (victim := worker_of(stage, draw)) is None:
            return None
        struck = Struck(victim.name, (victim.name,))
        for store in stage.stores:
            store.silence(victim.name)
        time.sleep(draw.between(1.0, 5.0))
        for store in stage.stores:
            store.end_silence(victim.name)
        return struck


class PoolerRestarted(Fault):
    """PgBouncer (transaction mode) is killed or told to go at once, and started again."""

    name = "PgBouncer restarted"
    weight = 5
    needs = "pooler"

    def strike(self, stage: Stage, draw: Draw) -> Struck | None:
        """Ends it and starts it, in the main thread."""
        pooler = stage.pooler
        assert pooler is not None
        struck = Struck("PgBouncer")
        number = draw.choose([signal.SIGKILL, signal.SIGTERM])
        pause_s = draw.between(0.0, 1.0)
        stage.in_main_thread(lambda: (pooler.end(number), time.sleep(pause_s), pooler.start()))
        return struck
