"""Leader election for a source, and the calls of operators. The store rejects writes of a term that is over."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, NamedTuple

from wakeboard.engine.maintenance_api import MaintenanceStore
from wakeboard.store.array_texts import moment_array
from wakeboard.store.statements import connection_lock, execute, listen, translating

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from datetime import timedelta
    from uuid import UUID

    import psycopg

    from wakeboard.backfills.rules import BackfillRange, BackfillWords


class LeadershipState(NamedTuple):
    """The leader of a source. `is_leader`: it is the caller. `expires_in_s`: seconds until its lease expires.

    `seen_server`: for the next call; by it the database notices that it has gone back in time.
    """

    term: int
    is_leader: bool
    leader: str
    leader_release: str
    expires_in_s: float
    seen_server: str | None = None


class ActionResult(NamedTuple):
    """The result of an action, and whether this call executed it."""

    result: str
    new: bool


class ClaimedDelivery(NamedTuple):
    """A run of the job type wakeboard.alert that an operator has leased."""

    run_id: int
    epoch: int
    uuid: UUID
    payload: Any


class TerminatedRuns(NamedTuple):
    """What the report of an ended worker did to its runs. `skipped`: another transaction had locked them.

    `released` and `crashed` include those that are `dead`.
    """

    released: int
    crashed: int
    dead: int
    cancelled: int
    skipped: int


class OperatorStore(MaintenanceStore):
    """Calls that an operator makes without being the leader."""

    async def acquire_leadership(
        self, source: str, holder: str, release: str, lease_s: int, problem: str = "", seen: str | None = None
    ) -> LeadershipState:
        """Becomes the leader if there is none, or renews the own lease. Returns the current leader.

        Another operator may lead as soon as this connection ends, unless a pooler is between. `problem`: why
        the caller cannot list or watch JobSchedules, for `wakeboard check` and the board. `seen`: the seen_server of
        the former answer.
        """
        columns = "term, is_leader, leader, leader_release, expires_in_s, seen_server"
        query = f"select {columns} from wakeboard.acquire_leadership(%s, %s, %s, %s, %s, %s, %s)"
        values = (source, holder, release, lease_s, self.conn.info.backend_pid, problem, seen)
        return LeadershipState(*(await self.rows(query, *values))[0])

    async def release_leadership(self, source: str, term: int) -> bool:
        """Ends this leadership at once."""
        return await self.value("select wakeboard.release_leadership(%s, %s)", source, term)

    async def listen_for_released_leadership(self) -> bool:
        """Listens for released leaderships. False: the connection goes through a pooler and receives none."""
        if await self.value("select pg_catalog.pg_backend_pid()") != self.conn.info.backend_pid:
            return False
        await listen(self.conn, "wakeboard_leader")
        return True

    async def leadership_released(self, within_s: float) -> bool:
        """Waits up to `within_s` seconds until a leader releases leadership. True if one did. Listen first."""
        with translating(self.conn):
            async for _ in self.conn.notifies(timeout=within_s, stop_after=1):
                return True
        return False

    async def installation(self) -> str:
        """The id of this database."""
        found: UUID = await self.value("select id from wakeboard.installation")
        return str(found)

    async def is_removal_confirmed(self, source: str) -> bool:
        """Whether the pending removal is confirmed and not yet executed."""
        pending = await self.rows("select source, confirmed_at from wakeboard.pending_removals")
        return any(name == source and confirmed_at is not None for name, confirmed_at in pending)

    async def workers_of_pod(self, pod_uid: str, named: int | None = None) -> list[int]:
        """The registered worker processes of a pod, or the one that the pod has `named`.

        A process that registered with another pod's uid is not one of this pod, whatever the pod says.
        """
        rows = await self.rows("select worker_id, pod_uid from wakeboard.workers")
        if named is None:
            return [worker for worker, uid in rows if uid == pod_uid]
        return [worker for worker, uid in rows if worker == named and uid in {pod_uid, None}]

    async def report_worker_terminated(self, worker: int, cause: str, detail: str, pod: str) -> TerminatedRuns:
        """Revokes the leases of a worker process that has certainly ended. If runs were `skipped`, report it again."""
        query = (
            "select next_id, released, crashed, dead, cancelled, skipped"
            " from wakeboard.report_worker_terminated(%s, %s, %s, %s, %s)"
        )
        total, after_id = TerminatedRuns(0, 0, 0, 0, 0), 0
        while after_id is not None:
            after_id, *found = (await self.rows(query, worker, cause, detail, pod, after_id))[0]
            total = TerminatedRuns(*map(int.__add__, total, found))
        return total

    async def run_annotation_action(
        self,
        definition_id: int,
        action: str,
        token: str,
        *,
        record_only: bool,
        refusal: str | None = None,
        traceparent: str | None = None,
        backfill: tuple[BackfillWords, BackfillRange] | None = None,
    ) -> ActionResult:
        """Executes the action of an annotation, once for each token.

        `refusal`: why the token means no action. `traceparent`: the trace context of run-now. `backfill`: how the
        action backfill runs which ticks.
        """
        query = (
            "select result, new from wakeboard.run_annotation_action("
            "%s, %s, %s, %s, %s, %s, %s::pg_catalog.timestamptz[], %s, %s, %s, %s)"
        )
        ticks: tuple[Any, ...] = ("{}", None, None, 1, False)
        if backfill is not None:
            words, wanted = backfill
            ticks = (moment_array(wanted.ticks), wanted.begin, wanted.end, words.at_once, words.again)
        values = (definition_id, action, token, record_only, refusal, traceparent, *ticks)
        return ActionResult(*(await self.rows(query, *values))[0])

    async def claim_alert_delivery(self, worker: int, queue: str, receivers: Sequence[str]) -> ClaimedDelivery | None:
        """Leases a due delivery to one of these receivers, if no worker delivers those of this queue."""
        query = (
            "select run_id, lease_epoch, uuid, payload"
            " from wakeboard.claim_alert_delivery(%s, %s, %s::pg_catalog.text[])"
        )
        rows = await self.rows(query, worker, queue, list(receivers))
        return ClaimedDelivery(*rows[0]) if rows else None

    async def finish_alert_delivery(
        self,
        worker: int,
        delivery: ClaimedDelivery,
        outcome: str,
        *,
        error: tuple[str, str] = ("", ""),
        delay_s: float | None = None,
        result: Mapping[str, Any] | None = None,
    ) -> str:
        """Reports a delivery as sent, failed or released: accepted, locked (report it again) or lost.

        `error`: its type and its text.
        """
        query = (
            "select wakeboard.finish_alert_delivery("
            "%s, %s, %s, %s, %s, %s, %s::real, %s::pg_catalog.text::pg_catalog.jsonb)"
        )
        values = (
            delivery.run_id,
            delivery.epoch,
            outcome,
            *error,
            delay_s,
            None if result is None else json.dumps(result),
        )
        return await self.value(query, worker, *values)


class LeaderStore(OperatorStore):
    """The calls of a leader: each is a transaction that first checks the term. Raises LeadershipLost.

    `roll_up` and `finish_alert_delivery` do not check it.
    """

    def __init__(self, conn: psycopg.AsyncConnection[Any], source: str, term: int) -> None:
        super().__init__(conn)
        self._source, self._term = source, term

    async def rows(self, query: str, *values: Any) -> list[tuple[Any, ...]]:
        """The rows of one call, in a transaction that has checked the term."""
        with translating(self.conn):
            async with connection_lock(self.conn), self.conn.transaction():
                await execute(self.conn, "select wakeboard.require_leadership(%s, %s)", (self._source, self._term))
                return await execute(self.conn, query, values)

    async def roll_up(self, min_interval: timedelta) -> bool:
        """Without the term, as workers call it: a long count would keep the leadership's row locked."""
        return await MaintenanceStore(self.conn).roll_up(min_interval)

    async def finish_alert_delivery(self, *args: Any, **named: Any) -> str:
        """Without the term: the lease decides, so that the next leader does not send again what was sent."""
        return await OperatorStore(self.conn).finish_alert_delivery(*args, **named)
