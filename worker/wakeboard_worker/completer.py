"""Telling the board what became of attempts: many in one statement, over a connection of its own.

What could not be told is told again, as long as this worker may believe in its leases: the moves answer a repeat as
they answered the first time. After that it is dropped, because the runs are somebody else's by then.

An outcome whose run is locked by another transaction is *blocked*. It does not delay the others: it is sent again twice
a second over a second connection, and its lease is renewed meanwhile. The transaction is nearly always the `run.once`
of an abandoned handler: its connection is then closed, and the server rolls it back. If the connection is not known and
the outcome is still blocked after a whole lease, the worker exits, which also ends the transaction.
"""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING, TypeVar

from wakeboard.errors import DatabaseUnavailable, WakeboardError
from wakeboard.rules.humanize import counted
from wakeboard.store.connection import abort
from wakeboard.store.worker_api import SNOOZED, Failure, Release
from wakeboard_worker.in_flight import Blocked
from wakeboard_worker.logs import log, outages

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping, Sequence

    from wakeboard.store.reconnecting import ReconnectingConnection
    from wakeboard.store.worker_api import WorkerStore
    from wakeboard_worker.attempt import Attempt
    from wakeboard_worker.heartbeat import Heartbeat
    from wakeboard_worker.in_flight import InFlightBuffer, Outcome

_Item = TypeVar("_Item", bound="Outcome")

COLLECT_S = 0.02  # while more outcomes are on their way
ENOUGH = 500  # outcomes that are not kept waiting for others
AT_ONCE = 1000  # in one statement
BLOCKED_EVERY_S = 0.5  # between two tries of a blocked outcome
BEAT_S = 1.0  # within which the heartbeat learns that a lease has lapsed


class Completer:
    """Tells the board what lies on the desk, until cancelled."""

    def __init__(
        self,
        in_flight: InFlightBuffer,
        line: ReconnectingConnection[WorkerStore],
        blocked_line: ReconnectingConnection[WorkerStore],
        heartbeat: Heartbeat,
        lease_s: float,
    ) -> None:
        self._desk, self._line, self._blocked_line, self._heartbeat = in_flight, line, blocked_line, heartbeat
        self._lease_s = lease_s

    async def run(self) -> None:
        """Tells outcomes as they come."""
        in_flight = self._desk
        while True:
            if not in_flight.untold:
                in_flight.flush.clear()
                await in_flight.flush.wait()
                continue
            if len(in_flight.succeeded) < ENOUGH and (in_flight.waiting or in_flight.running):
                await asyncio.sleep(COLLECT_S)
            await self._tell_all()
            in_flight.room.set()

    async def _tell_all(self) -> None:
        in_flight = self._desk
        succeeded, failures, releases, results = (
            in_flight.succeeded,
            in_flight.failures,
            in_flight.releases,
            in_flight.results,
        )
        in_flight.succeeded, in_flight.failures, in_flight.releases, in_flight.results = [], [], [], {}
        in_flight.telling = [*succeeded, *failures, *releases]
        await self._tell_these(self._line, succeeded, failures, releases, results)
        in_flight.telling = []

    async def _tell_these(
        self,
        line: ReconnectingConnection[WorkerStore],
        succeeded: Sequence[Attempt],
        failures: Sequence[Failure],
        releases: Sequence[Release],
        results: Mapping[int, str],
    ) -> None:
        counts = self._desk.counts
        by_epoch: dict[int, list[Attempt]] = {}  # nearly always one: first attempts have epoch 1
        for attempt in succeeded:
            by_epoch.setdefault(attempt.epoch, []).append(attempt)
        for epoch, attempts in by_epoch.items():
            for some in _slices(attempts):
                counts.succeeded += len(await self._complete(line, some, epoch, results))
        for some in _slices(failures):
            counts.failed += len(await self._tell(line, some, lambda worker_store, some: worker_store.fail(some)))
        for some in _slices(releases):
            told = await self._tell(line, some, lambda worker_store, some: worker_store.release(some))
            snoozed = sum(release.reason == SNOOZED for release in told)
            counts.snoozed += snoozed
            counts.released += len(told) - snoozed

    async def _complete(
        self,
        line: ReconnectingConnection[WorkerStore],
        attempts: Sequence[Attempt],
        epoch: int,
        results: Mapping[int, str],
    ) -> Sequence[Attempt]:
        async def complete(worker_store: WorkerStore, some: Sequence[Attempt]) -> list[int]:
            ids = [attempt.id for attempt in some]
            return await worker_store.complete(ids, epoch, _joined(results, ids))

        return await self._tell(line, attempts, complete, results)

    async def _tell(
        self,
        line: ReconnectingConnection[WorkerStore],
        items: Sequence[_Item],
        move: Callable[[WorkerStore, Sequence[_Item]], Awaitable[list[int]]],
        results: Mapping[int, str] | None = None,
    ) -> Sequence[_Item]:
        """Sends outcomes, and retries while the database is away; returns those that were accepted."""
        while self._heartbeat.trusted():
            try:
                worker_store = await line.store()
                refused = set(await move(worker_store, items))
                held = await self._still_leased(worker_store, items, refused)
                outages.recovered("outcomes")
            except DatabaseUnavailable as error:
                outages.lost("outcomes", error)
                await line.pause()
                continue
            except WakeboardError:
                if len(items) > 1:  # the others must not be lost with one outcome that cannot be stored
                    return [one for item in items for one in await self._tell(line, [item], move, results)]
                log.exception("an outcome cannot be stored; its run is queued again when the lease lapses")
                break
            if refused:
                self._note_refused(items, refused, held, results or {})
                return [item for item in items if item.id not in refused]
            if self._desk.blocked:
                self._unblock(items)
            return items
        else:
            log.warning("lost: %s could not be sent before the leases lapsed", counted(len(items), "outcome"))
            self._desk.give_up(items)
            outages.remove("outcomes")
        self._desk.counts.lost += len(items)
        self._desk.lose_sight()
        self._unblock(items)
        return []

    async def _still_leased(self, worker_store: WorkerStore, items: Sequence[Outcome], refused: set[int]) -> set[int]:
        if not refused:
            return refused
        return await worker_store.still_leased([(item.id, item.epoch) for item in items if item.id in refused])

    def _note_refused(
        self, items: Sequence[Outcome], refused: set[int], held: set[int], results: Mapping[int, str]
    ) -> None:
        blocked, now = self._desk.blocked, time.monotonic()
        for item in items:
            if item.id in held:
                blocked.setdefault(item.id, Blocked(item, results.get(item.id), now))
            else:
                blocked.pop(item.id, None)
        if lost := refused - held:
            self._desk.counts.lost += len(lost)
            log.warning("lost: the database refused the outcome of runs %s", ", ".join(map(str, sorted(lost))))

    def _unblock(self, items: Sequence[Outcome]) -> None:
        for item in items:
            self._desk.blocked.pop(item.id, None)

    # -- what is blocked -----------------------------------------------------------------------------------------------

    async def run_blocked(self) -> None:
        """Sends blocked outcomes again, until cancelled."""
        while True:
            await asyncio.sleep(BLOCKED_EVERY_S)
            if not self._desk.blocked:
                continue
            self._cut_given_up()
            await self._tell_blocked()
            self._give_up_late()
            self._desk.room.set()
            if not self._desk.blocked:
                await self._blocked_line.close()

    async def _tell_blocked(self) -> None:
        blocked = list(self._desk.blocked.values())
        outcomes = [each.outcome for each in blocked]
        failures = [each for each in outcomes if isinstance(each, Failure)]
        releases = [each for each in outcomes if isinstance(each, Release)]
        succeeded = [each for each in outcomes if not isinstance(each, Failure | Release)]
        results = {each.outcome.id: each.result for each in blocked if each.result is not None}
        await self._tell_these(self._blocked_line, succeeded, failures, releases, results)

    def _cut_given_up(self) -> None:
        """Closes the connections of attempts that have ended while their handlers still run: they must not commit."""
        for executor in self._desk.executors:
            for attempt in [*executor.abandoned, *executor.running.values()]:
                if attempt.settled and attempt.effect_conn is not None and attempt.id in self._desk.blocked:
                    conn, attempt.effect_conn = attempt.effect_conn, None
                    log.warning("closed the connection of a handler that does not stop", extra=attempt.log_fields())
                    abort(conn)

    def _give_up_late(self) -> None:
        in_flight, late = self._desk, time.monotonic() - self._lease_s - BEAT_S
        for each in [each for each in in_flight.blocked.values() if each.since < late]:
            run = each.outcome.id
            if each.lost:  # its lease could not be renewed either: it is no handler's transaction
                del in_flight.blocked[run]
                in_flight.counts.lost += 1
                in_flight.lose_sight()
                log.warning("lost: another transaction kept run %d locked until its lease had lapsed", run)
            elif not in_flight.stuck:
                in_flight.stuck = True
                log.error(
                    "another transaction has kept run %d locked for %g s, probably one that its handler left open;"
                    " this worker ends, so that the server ends it",
                    run,
                    self._lease_s,
                )


def _joined(results: Mapping[int, str], ids: Sequence[int]) -> str | None:
    found = [f'"{run}":{results[run]}' for run in ids if run in results] if results else []
    return "{" + ",".join(found) + "}" if found else None


def _slices(items: Sequence[_Item]) -> list[Sequence[_Item]]:
    return [items[start : start + AT_ONCE] for start in range(0, len(items), AT_ONCE)]
