"""Reports the outcomes of attempts to the store: many in one statement, over a connection of its own.

A report that fails is repeated while the worker's leases are valid. The SQL functions are idempotent, so a repeat is
harmless. After that the outcomes are dropped, because other workers may have the runs. Those whose reports had no
answer may be stored: they are reported once more when the database answers again. The store then has them, also if
only now because the lease still holds, or refuses them, and a line says which.

An outcome is *blocked* if another transaction has locked its run, or what its outcome changes besides. It does not
delay the others. It is sent again twice a second over a second connection, and its lease is renewed meanwhile. The lock
is nearly always that of `run.once` in an abandoned handler. The completer then cancels the statement of the handler's
connection and closes it, and the server rolls the transaction back. If the worker does not know the connection and the
outcome is still blocked after a whole lease, the worker exits, which ends the transaction, too. It does not exit if
none of its handlers can hold the lock.

If a lock stops a whole statement, all outcomes of it are blocked. The second connection sends each alone, so that only
those wait that need the lock. A failure that pauses its limit key (`RetryAfter(limit=True)`) is
blocked while that key is locked: no run of the key can start then. After ten seconds it is reported without the pause.
"""

from __future__ import annotations

import asyncio
import random
import time
from typing import TYPE_CHECKING, TypeVar

from wakeboard.engine.worker_api import SNOOZED, Failure, Release, Times
from wakeboard.errors import DatabaseUnavailable, Locked, MissingRight, WakeboardError
from wakeboard.store.connection import may_have_committed
from wakeboard.text.humanize import counted, named_runs
from wakeboard_worker.in_flight import lease_of
from wakeboard_worker.logs import log, outages

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence

    from wakeboard.engine.worker_api import WorkerStore
    from wakeboard.store.reconnecting import ReconnectingConnection
    from wakeboard_worker.attempt import Attempt
    from wakeboard_worker.heartbeat import Heartbeat
    from wakeboard_worker.in_flight import BlockedOutcome, InFlightBuffer, Outcome, Outcomes

_Item = TypeVar("_Item", bound="Outcome")

COLLECT_S = 0.02  # how long outcomes wait for others, so that one statement reports many
FULL_BATCH = 1_000  # from this many succeeded attempts on, the completer does not wait
BATCH_SIZE = 2_000  # most outcomes in one statement
MEASURABLE_S = 0.001  # a handler that took less is stored as one that took no time, which costs the database nothing
MOMENT_S = 0.25  # such a handler is stored as having ended now, if it ended within this time
BLOCKED_RETRY_S = 0.5  # between two reports of a blocked outcome
BLOCKED_ROUND_S = 5.0  # for one report of the blocked outcomes; the next one may begin with those that are left
PAUSE_WITHIN_S = 10.0  # how long a failure waits for its locked limit key, which it pauses
HEARTBEAT_DELAY_S = 1.0  # the time in which the heartbeat notices that a lease has expired


class Completer:
    """Reports the outcomes in the in-flight buffer, until cancelled."""

    def __init__(
        self,
        in_flight: InFlightBuffer,
        connection: ReconnectingConnection[WorkerStore],
        blocked_connection: ReconnectingConnection[WorkerStore],
        heartbeat: Heartbeat,
        lease_s: float,
    ) -> None:
        self._in_flight, self._heartbeat, self._lease_s = in_flight, heartbeat, lease_s
        self._connection, self._blocked_connection = connection, blocked_connection
        self.ending = False  # the worker waits for nothing but the outcomes

    async def run(self) -> None:
        """Report outcomes whenever there are any."""
        in_flight = self._in_flight
        while True:
            if not in_flight.unreported:
                in_flight.flush.clear()
                await in_flight.flush.wait()
                continue
            if len(in_flight.succeeded) < FULL_BATCH and (in_flight.waiting or in_flight.running):
                await asyncio.sleep(COLLECT_S)
            outcomes = in_flight.take_outcomes()
            await self._report_all(self._connection, outcomes)
            in_flight.reported()
            in_flight.note_end()
            if outcomes.failures or outcomes.releases:  # the store knows when their runs are due again
                in_flight.wakeup.set()

    async def _report_all(self, connection: ReconnectingConnection[WorkerStore], outcomes: Outcomes) -> None:
        counts = self._in_flight.counts
        for batch in _batches(outcomes.succeeded):
            completed = await self._report(connection, batch, _complete)
            counts.succeeded += len(completed)  # after the wait, in which another task may count
        for batch in _batches(outcomes.failures):
            failed = await self._report(connection, batch, lambda store, items: store.fail(items))
            cancelled = sum(failure.cancelled for failure in failed)
            counts.cancelled += cancelled
            counts.failed += len(failed) - cancelled
        for batch in _batches(outcomes.releases):
            released = await self._report(connection, batch, lambda store, items: store.release(items))
            snoozed = sum(release.reason == SNOOZED for release in released)
            counts.snoozed += snoozed
            counts.released += len(released) - snoozed

    async def _report(
        self,
        connection: ReconnectingConnection[WorkerStore],
        items: Sequence[_Item],
        operation: Callable[[WorkerStore, Sequence[_Item]], Awaitable[list[int]]],
    ) -> Sequence[_Item]:
        """Report outcomes, and retry while the database is unavailable. Returns those that the store accepted."""
        try:
            answer = await self._answer(connection, items, operation)
        except Locked as error:
            outages.lost("blocked outcomes", error)
            for item in items:
                self._in_flight.block(item)
            return []
        except WakeboardError:
            if len(items) > 1:  # one by one, so that only the outcome that cannot be stored is lost
                return [one for item in items for one in await self._report(connection, [item], operation)]
            log.exception("an outcome cannot be stored; its run is queued again when the lease expires")
            self._in_flight.counts.lost += 1
            self._in_flight.note_orphaned_leases()
            self._unblock(items)
            return []
        if answer is None:
            self._defer(items)
            outages.remove("outcomes")
            self._unblock(items)
            return []
        refused, still_leased = answer
        known = self._defer_again(items, refused - still_leased) if self._in_flight.dropped else set[int]()
        if self._in_flight.unanswered:
            self._note_answers(items, refused, still_leased)
        if refused:
            self._handle_refused(items, refused, still_leased, known)
            return [item for item in items if item.id not in refused]
        if self._in_flight.blocked:
            self._unblock(items)
        return items

    async def _answer(
        self,
        connection: ReconnectingConnection[WorkerStore],
        items: Sequence[_Item],
        operation: Callable[[WorkerStore, Sequence[_Item]], Awaitable[list[int]]],
    ) -> tuple[set[int], set[int]] | None:
        """The answer of `_refused`, from the first connection that has one. None: the leases have expired."""
        while self._heartbeat.leases_valid():
            store = None
            try:
                store = await connection.store()
                answer = await _refused(store, items, operation)
            except Locked:
                raise
            except (DatabaseUnavailable, MissingRight) as error:  # a right that was revoked may be granted again
                outages.lost("outcomes", error)
                if store is not None and may_have_committed(store.conn, error):
                    for item in items:
                        self._in_flight.unanswered.setdefault(lease_of(item), False)
                await connection.pause()
            else:
                outages.recovered("outcomes")
                return answer
        return None

    def _defer(self, items: Sequence[Outcome]) -> None:
        """Keep what could not be reported before the leases expired, and say whether it may be stored."""
        in_flight = self._in_flight
        unsent = [item.id for item in items if lease_of(item) not in in_flight.unanswered]
        if unsent:
            of_runs = counted(len(unsent), "outcome"), named_runs(unsent)
            log.warning("lost: %s of %s could not be sent before the leases expired", *of_runs)
        if unanswered := [item for item in items if in_flight.unanswered.get(lease_of(item)) is False]:
            of_runs = counted(len(unanswered), "outcome"), named_runs([item.id for item in unanswered])
            log.warning("no answer came to %s of %s before the leases expired: they may be stored", *of_runs)
        in_flight.unanswered |= {lease_of(item): True for item in unanswered}
        in_flight.counts.lost += len(unsent)
        in_flight.note_orphaned_leases()
        in_flight.defer(items)

    def _defer_again(self, items: Sequence[Outcome], lost: set[int]) -> set[int]:
        """The runs of which a line has said that they are lost. Those refused are reported with the next heartbeats.

        A scan for expired leases may count a crash at the same moment, or another transaction lock the run.
        """
        in_flight = self._in_flight
        dropped = {lease_of(item): in_flight.dropped.pop(lease_of(item), 0) for item in items}
        for item in items:
            if item.id in lost and (left := dropped[lease_of(item)] - 1) > 0:
                in_flight.dropped[lease_of(item)] = left
                in_flight.defer([item])
        return {run for (run, _), reports in dropped.items() if reports}

    def _note_answers(self, items: Sequence[Outcome], refused: set[int], still_leased: set[int]) -> None:
        """Say whether outcomes are stored of which a line has said that they may be. Locked ones have no answer yet."""
        answered = [item for item in items if item.id not in still_leased]
        asked = [item for item in answered if self._in_flight.unanswered.pop(lease_of(item), False)]
        if stored := [item.id for item in asked if item.id not in refused]:
            outcomes = "outcome" if len(stored) == 1 else "outcomes"
            log.warning("stored: the %s of %s, to which no answer had come", outcomes, named_runs(stored))
        self._in_flight.defer(item for item in asked if item.id in refused)  # a reap may have counted crashes

    def _handle_refused(
        self, items: Sequence[Outcome], refused: set[int], still_leased: set[int], known: set[int]
    ) -> None:
        """Block the refused outcomes whose run is still leased, and therefore locked. Other refused ones are lost.

        `known`: a line has said so.
        """
        lost = refused - still_leased - known
        were_blocked = {item.id for item in items if item.id in lost and lease_of(item) in self._in_flight.blocked}
        for item in items:
            if item.id in still_leased:
                self._in_flight.block(item)
            else:
                self._in_flight.unblock(item)
        self._in_flight.counts.lost += len(lost)
        if were_blocked:
            log.warning(
                "lost: another transaction kept the outcome of %s from being stored until the lease was revoked",
                named_runs(were_blocked),
            )
        if others := lost - were_blocked:
            log.warning("lost: the database refused the outcome of %s", named_runs(others))

    def _unblock(self, items: Sequence[Outcome]) -> None:
        for item in items:
            self._in_flight.unblock(item)

    # -- blocked outcomes ----------------------------------------------------------------------------------------------

    async def run_blocked(self) -> None:
        """Report the blocked outcomes again twice a second, until cancelled."""
        while True:
            await asyncio.sleep(BLOCKED_RETRY_S)
            if not self._in_flight.blocked:
                continue
            self._close_abandoned_connections()
            await self._report_blocked()
            self._check_blocked_too_long()
            self._in_flight.wakeup.set()
            if not self._in_flight.blocked:
                outages.recovered("blocked outcomes")
                await self._blocked_connection.close()

    async def _report_blocked(self) -> None:
        """Report each alone. They are in a random order, as a lock may take all the time of a round."""
        blocked, until = list(self._in_flight.blocked.values()), time.monotonic() + BLOCKED_ROUND_S
        random.shuffle(blocked)
        for each in blocked:
            self._give_up_pause(each)
            await self._report_all(self._blocked_connection, each.alone())
            if time.monotonic() > until:
                break

    def _give_up_pause(self, blocked: BlockedOutcome) -> None:
        """Report a failure without the pause of its limit key, if that key is locked for long or the worker ends."""
        failure = blocked.outcome
        if not isinstance(failure, Failure) or not failure.pauses_limit:
            return
        if self.ending or blocked.since < time.monotonic() - min(PAUSE_WITHIN_S, self._lease_s / 2):
            blocked.outcome = failure._replace(pauses_limit=False)
            log.warning(
                "another transaction kept run %d or its limit key locked: its failure is reported without the pause",
                failure.id,
            )

    def _close_abandoned_connections(self) -> None:
        """Close the connections of attempts that have ended while their handlers still run: they must not commit."""
        for executor in self._in_flight.executors:
            for attempt in [*executor.abandoned, *executor.running.values()]:
                is_blocked = attempt.has_outcome and lease_of(attempt) in self._in_flight.blocked
                if is_blocked and attempt.effect_conn is not None:
                    conn, attempt.effect_conn = attempt.effect_conn, None
                    log.warning("closed the connection of a handler that does not stop", extra=attempt.log_fields())
                    conn.abort()

    def _check_blocked_too_long(self) -> None:
        """Drop outcomes that were blocked until their lease expired.

        If a lease is still renewed, and a handler may hold the lock, the worker exits.
        """
        in_flight, expired = self._in_flight, time.monotonic() - self._lease_s - HEARTBEAT_DELAY_S
        for each in [each for each in in_flight.blocked.values() if each.since < expired]:
            if each.lease_lost:  # the lock also prevents renewals, so it is not that of a handler's `run.once`
                in_flight.unblock(each.outcome)
                if lease_of(each.outcome) in in_flight.unanswered:
                    self._defer([each.outcome])  # the lock may be that of its own commit
                    continue
                in_flight.counts.lost += 1
                in_flight.note_orphaned_leases()
                run = each.outcome.id
                log.warning("lost: another transaction kept the outcome of run %d from being stored for a lease", run)
            elif self._handler_may_hold_lock(each.outcome) and not in_flight.blocked_too_long:
                in_flight.blocked_too_long = True
                log.error(
                    "another transaction has kept the outcome of run %d from being stored for %g s, probably one that a"
                    " handler left open; this worker exits, so that the server ends that transaction",
                    each.outcome.id,
                    self._lease_s,
                )

    def _handler_may_hold_lock(self, outcome: Outcome) -> bool:
        """Whether a handler may hold the lock: one that does not stop, or one that returned with an open `run.once`.

        A handler that raised an error has rolled its transaction back, so a failure alone is no sign.
        """
        if not isinstance(outcome, Failure | Release) and outcome.has_open_effect():
            return True
        return any(
            executor.abandoned or any(attempt.has_outcome for attempt in executor.running.values())
            for executor in self._in_flight.executors
        )


async def _refused(
    store: WorkerStore,
    items: Sequence[_Item],
    operation: Callable[[WorkerStore, Sequence[_Item]], Awaitable[list[int]]],
) -> tuple[set[int], set[int]]:
    """Report outcomes. Returns the runs of those that the store has not, and which of these this worker still leases.

    An outcome without its lease is reported again: an earlier report, whose commit hung, may have ended in between.
    """
    refused = set(await operation(store, items))
    if not refused:
        return refused, refused
    leases = [(item.id, item.epoch) for item in items if item.id in refused]
    still_leased = await store.still_leased(leases)
    if ended := [item for item in items if item.id in refused - still_leased]:
        refused = still_leased | set(await operation(store, ended))
    return refused, still_leased


async def _complete(store: WorkerStore, attempts: Sequence[Attempt]) -> list[int]:
    results = [f'"{attempt.id}":{attempt.result}' for attempt in attempts if attempt.result is not None]
    document = "{" + ",".join(results) + "}" if results else None
    ids, epochs = [attempt.id for attempt in attempts], [attempt.epoch for attempt in attempts]
    return await store.complete(ids, epochs, document, _measured_times(attempts))


def _measured_times(attempts: Sequence[Attempt]) -> dict[int, Times]:
    """When these handlers began and ended, except those that took no measurable time and ended a moment ago."""
    moment_ago = time.monotonic() - MOMENT_S
    return {
        at.id: Times(at.started, at.ended)
        for at in attempts
        if at.started < moment_ago or at.ended - at.started >= MEASURABLE_S
    }


def _batches(items: Sequence[_Item]) -> list[Sequence[_Item]]:
    """Split the outcomes for their statements. None names a run twice, so that its answer is about one lease."""
    by_run = {item.id: item for item in items}
    if len(by_run) < len(items):  # a run was claimed again before the outcome of its former lease was reported
        later = list(by_run.values())
        taken = set(map(id, later))
        return [*_batches([item for item in items if id(item) not in taken]), *_batches(later)]
    return [items[start : start + BATCH_SIZE] for start in range(0, len(items), BATCH_SIZE)]
