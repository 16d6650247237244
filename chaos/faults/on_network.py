"""Connections that break, lose replies, delay them, or stop carrying anything."""

from __future__ import annotations

import signal
import time
from typing import TYPE_CHECKING, ClassVar, Final

from chaos.faults.fault import Fault, WorkerFault
from wakeboard.conformance.tcp_proxy import Action, Intercept

if TYPE_CHECKING:
    from collections.abc import Sequence

    from chaos.environment import Environment
    from chaos.faults.fault import Draw
    from chaos.processes import ManagedProcess

MATCH_TIMEOUT_S: Final = 2.5

# (part of a connection's application_name, part of a statement on it)
CLAIMS: Final = (("wakeboard claims", b"wakeboard.fetch_runs"),)
OUTCOMES: Final = (("wakeboard outcomes", b"wakeboard."),)
APPLICATIONS: Final = (
    ("chaos keyed", b"wakeboard.enqueue"),
    ("chaos orders", b"COMMIT"),
    ("chaos orders", b"wakeboard.enqueue"),
    ("chaos bulk", b"wakeboard.enqueue_many"),
    ("chaos unique", b"wakeboard.enqueue"),
    ("chaos after", b"COMMIT"),
)
EFFECTS: Final = (("chaos effects", b"COMMIT"), ("chaos effects", b"wakeboard.once"))
OTHERS: Final = (
    ("wakeboard heartbeat", b"wakeboard.renew"),
    ("wakeboard handlers", b"wakeboard."),
    ("wakeboard maintenance", b"wakeboard.enqueue_due_ticks"),
    ("wakeboard maintenance", b"wakeboard.enqueue_dependents"),
    ("wakeboard maintenance", b"wakeboard.continue_backfills"),
    ("wakeboard claims", b"wakeboard.enqueue_dependents"),
    ("chaos pipelines", b"wakeboard.sync_definitions"),
    ("chaos backfills", b"_backfill("),
    ("wakeboard claims", b"wakeboard.enqueue_due_ticks"),
    ("wakeboard claims", b"wakeboard.reap"),
    ("wakeboard claims", b"wakeboard.register_worker"),
)
EVERYTHING: Final = (*CLAIMS * 3, *OUTCOMES * 3, *APPLICATIONS, *EFFECTS, *OTHERS)


def _matched(environment: Environment, intercept: Intercept) -> bool:
    """Sets the intercept on every proxy. Returns whether a statement matched in time."""
    for proxy in environment.proxies:
        proxy.add(intercept)
    matched = intercept.matched.wait(MATCH_TIMEOUT_S)
    for proxy in environment.proxies:
        proxy.remove(intercept)
    return matched


class _StatementFault(Fault):
    """A fault of the next statement that matches one of `statements`."""

    statements: ClassVar[Sequence[tuple[str, bytes]]]

    def action(self, draw: Draw) -> Action:
        """What the proxy does to the statement."""
        return Action.DROP_REPLY

    def inject(self, environment: Environment, draw: Draw) -> str | None:
        connection, pattern = draw.choose(self.statements)
        matched = _matched(environment, Intercept(connection, pattern, self.action(draw)))
        return f"{connection}: {pattern.decode()}" if matched else None


class CutMidStatement(_StatementFault):
    """A connection breaks when the server has half of a statement, or nothing of it."""

    name = "cut in mid-statement"
    weight = 14
    statements = EVERYTHING

    def action(self, draw: Draw) -> Action:
        return Action.SEND_HALF if draw.more < 0.7 else Action.DROP_REQUEST


class ClaimReplyLost(_StatementFault):
    """The server has leased runs to a worker, and the reply is lost. The leases are orphaned."""

    name = "reply to a claim lost"
    statements = CLAIMS


class OutcomeReplyLost(_StatementFault):
    """Completions, failures or releases are committed, and the reply is lost. The worker repeats them."""

    name = "reply to an outcome lost"
    weight = 12
    statements = OUTCOMES


class EnqueueReplyLost(_StatementFault):
    """An application's enqueue is committed, and the reply is lost."""

    name = "reply to an enqueue lost"
    statements = APPLICATIONS


class EffectReplyLost(_StatementFault):
    """An effect is committed, and the reply is lost. The attempt fails, and the next one must not repeat the effect."""

    name = "reply to an effect lost"
    statements = EFFECTS


class OtherReplyLost(_StatementFault):
    """The reply to a heartbeat, a step, a maintenance task or a registration is lost after the commit."""

    name = "another reply lost"
    weight = 8
    statements = OTHERS


class _KilledWaiting(WorkerFault):
    """SIGKILL of a worker whose statement was sent and which has not read the reply."""

    connection: ClassVar[str]
    pattern: ClassVar[bytes]
    weight = 8

    def hit(self, worker: ManagedProcess, environment: Environment, draw: Draw) -> bool:
        # The name of a prepared statement says nothing about its text.
        pattern = b"" if worker.slot.settings.get("prepared_statements") == "true" else self.pattern
        if not _matched(environment, Intercept(f"{self.connection} {worker.name}", pattern, Action.HOLD_REPLY)):
            return False
        time.sleep(draw.between(0.01, 0.1))
        worker.send(signal.SIGKILL)
        return True


class KilledWhileClaiming(_KilledWaiting):
    """SIGKILL of a worker that has sent a claim and has not read the reply."""

    name = "worker killed while claiming"
    connection, pattern = "wakeboard claims", b"wakeboard.fetch_runs"


class KilledWhileCompleting(_KilledWaiting):
    """SIGKILL of a worker that has sent outcomes and has not read the reply."""

    name = "worker killed while completing"
    connection, pattern = "wakeboard outcomes", b"wakeboard."


class RepliesDelayed(Fault):
    """Replies to a worker on one connection (claims, outcomes, heartbeat) or on all are late by up to 1.6 leases."""

    name = "replies delayed"

    def inject(self, environment: Environment, draw: Draw) -> str | None:
        purpose = draw.choose(["wakeboard claims", "wakeboard outcomes", "wakeboard heartbeat", ""])
        found = [one for proxy in environment.proxies for one in proxy.connections("", purpose or "wakeboard claims")]
        connected = {one.name.rsplit(" ", 1)[-1] for one in found}
        worker = draw.pick([worker for worker in environment.supervisor.workers() if worker.name in connected])
        if worker is None:
            return None
        delayed = [(proxy, one) for proxy in environment.proxies for one in proxy.connections(worker.name, purpose)]
        for proxy, connection in delayed:
            proxy.hold(connection)
        time.sleep(draw.between(0.2, 3.2))
        for proxy, connection in delayed:
            proxy.release(connection)
        return f"{worker.name} {purpose}"


class WorkerCutOff(WorkerFault):
    """Nothing passes between a worker and the database for up to 2.5 leases, and no connection is closed."""

    name = "worker cut off"
    weight = 9

    def hit(self, worker: ManagedProcess, environment: Environment, draw: Draw) -> bool:
        for proxy in environment.proxies:
            proxy.block(worker.name)
        time.sleep(draw.between(1.0, 5.0))
        for proxy in environment.proxies:
            proxy.unblock(worker.name)
        return True


class PoolerRestarted(Fault):
    """PgBouncer (transaction mode) is killed or stopped, and started again."""

    name = "PgBouncer restarted"
    weight = 5
    needs = "pooler"

    def inject(self, environment: Environment, draw: Draw) -> str | None:
        pooler = environment.pooler
        assert pooler is not None
        number = draw.choose([signal.SIGKILL, signal.SIGTERM])
        pause_s = draw.between(0.0, 1.0)
        environment.own(lambda: (pooler.end(number), time.sleep(pause_s), pooler.start()))
        return "PgBouncer"
