"""Claims runs for the executors: as many as can start soon, in an order in which no run starves.

How many: one for each free slot, or as many as the executor ends in 50 ms if runs are so short that this is more
(`_rows_wanted`).

In which order: a share of the claims takes the oldest runs (oldest_first.py), the others go by priority
(queue_scan.py). Limited and unlimited runs take turns in being claimed first. Limited runs are claimed only for slots
that are free now. A quarantined run (one that was running when two workers died) runs only while nothing else is in
flight, and such runs take at most half of a worker's time (quarantine_turns.py).

A claimed row is used only if the reply came in time: see `_accept`.
"""

from __future__ import annotations

import asyncio
import math
import time
from typing import TYPE_CHECKING, Any

from wakeboard.engine.worker_api import Ahead
from wakeboard.errors import DatabaseUnavailable
from wakeboard.process.clock import boottime
from wakeboard.store.array_texts import text_array
from wakeboard.text.humanize import counted
from wakeboard_worker.heartbeat import VALID_SHARE
from wakeboard_worker.logs import failures, log, outages
from wakeboard_worker.oldest_first import OldestFirst
from wakeboard_worker.quarantine_turns import QuarantineTurns
from wakeboard_worker.queue_scan import QueueScan

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence

    from wakeboard.engine.worker_api import Answer, WorkerStore
    from wakeboard.settings import Settings
    from wakeboard.store.reconnecting import ReconnectingConnection
    from wakeboard_worker.coroutine_executor import CoroutineExecutor
    from wakeboard_worker.heartbeat import Heartbeat
    from wakeboard_worker.in_flight import ExecutorState, InFlightBuffer
    from wakeboard_worker.thread_executor import ThreadExecutor

PREFETCH_S = 0.05  # how much work may wait in this worker
LIMITED_PREFETCH_S = 0.005  # the same for limited runs
MAX_CLAIM = 1000  # rows of one claim
KEYS_PER_CLAIM = 200  # limit keys that one claim of limited runs considers; `fetch_runs` returns so many
LIMITED_PAUSE_S = 0.05  # after a claim of limited runs that found none
REGISTER_EVERY_S = 180.0  # readers consider the job types of workers that registered in the last 10 minutes
REGISTER_RETRY_S = 10.0  # after a registration that failed
BETWEEN_FETCHES_S = 0.003  # after one that emptied the queue, so that the next finds several runs where many come
COALESCE_S = 0.01  # how long to wait for more free slots, so that one claim fills several


class _Rate:
    """How many attempts of an executor end per second. It rises at once, and falls by half every PREFETCH_S at most."""

    def __init__(self, executor: ExecutorState) -> None:
        self._executor, self._ended, self._at, self._value = executor, executor.ended, time.monotonic(), 0.0

    def now(self) -> float:
        """Return the rate."""
        at = time.monotonic()
        passed = at - self._at
        if passed > PREFETCH_S / 10:
            measured = (self._executor.ended - self._ended) / passed
            self._value = max(self._value * 0.5 ** (passed / PREFETCH_S), measured)
            self._ended, self._at = self._executor.ended, at
        # While all slots are busy, long attempts that started together may have ended together.
        return self._value if self._executor.free_slots > 0 else min(self._value, self._executor.full_rate)


class Fetcher:
    """The claim loop of a worker. It calls `maintain` before each claim; the callee decides what is due."""

    def __init__(
        self,
        in_flight: InFlightBuffer,
        coroutines: CoroutineExecutor,
        threads: ThreadExecutor,
        connection: ReconnectingConnection[WorkerStore],
        heartbeat: Heartbeat,
        settings: Settings,
        stay_s: float,
        maintain: Callable[[Any, bool], Awaitable[None]],
    ) -> None:
        self._in_flight, self._coroutines, self._threads = in_flight, coroutines, threads
        self._connection, self._heartbeat = connection, heartbeat
        self._settings, self._stay_s, self._maintain = settings, stay_s, maintain
        self._scans = [QueueScan(executor, settings.queues) for executor in in_flight.executors]
        self._oldest = {id(scan): OldestFirst(scan, settings.queues) for scan in self._scans}
        self._rates = {id(executor): _Rate(executor) for executor in in_flight.executors}
        self._all_types = text_array(tuple(in_flight.handlers))
        self._max_reply_s = settings.lease_seconds * (1 - VALID_SHARE)
        self._started_at = time.monotonic()
        self._after_key = ""  # the limit key after which the next claim of limited runs continues
        self._limited_at = 0.0  # time.monotonic(); no claim of limited runs before it
        self._quarantine = QuarantineTurns()
        self._limited_first = False
        self._keys: Sequence[str] = ()  # limit keys with waiting runs that no claim has considered yet
        self._maintain_at = math.inf  # time.monotonic(): a tick or a run is due then
        self._answer: Answer | None = None  # the last one of this turn
        self._emptied = False  # in this turn, each executor had room for more runs than there were
        self._unregistered_before = 0  # the heartbeat's count at the last registration
        self._registered_at = self._started_at
        self._register_every_s = min(REGISTER_EVERY_S, settings.lease_seconds)
        self._register_at = 0.0  # time.monotonic(); no registration before it
        self._nothing_due_soon = False  # a query found nothing: if the next scans find nothing either, the worker exits
        self.stopped = False

    def stop(self) -> None:
        """Claim no more runs."""
        self.stopped = True
        self._in_flight.wakeup.set()

    async def run(self) -> None:
        """Claim until the worker stops. While the database is unavailable, retry as long as runs are in flight."""
        while not self._is_over():
            try:
                continues = await self._fetch_once(await self._connection.store())
                outages.recovered("claims")
                if not continues:
                    return
            except DatabaseUnavailable as error:
                outages.lost("claims", error)
                self._in_flight.note_orphaned_leases()
                too_old = self._age_s() > self._settings.max_lifetime_seconds
                if self._stay_s < math.inf and self._in_flight.empty and too_old:
                    raise
                await self._connection.pause()

    def _age_s(self) -> float:
        return time.monotonic() - self._started_at

    def _is_over(self) -> bool:
        if self.stopped or self._threads.exhausted or self._in_flight.blocked_too_long:
            return True
        return self._stay_s < math.inf and self._age_s() > self._settings.max_lifetime_seconds

    async def _fetch_once(self, store: WorkerStore) -> bool:
        """Run maintenance, claim, and wait if nothing was claimed. Returns False if nothing is due now or soon."""
        in_flight = self._in_flight
        in_flight.begin_turn()
        await self._log_failures_of(self._register_again(store), store, "registration")
        # Even while every slot is busy, because due ticks and expired leases must not wait for a free slot.
        if at_once := time.monotonic() >= self._maintain_at:
            self._maintain_at = math.inf
        await self._log_failures_of(self._maintain(store.conn, at_once), store, "maintenance")
        claimed, all_free = 0, in_flight.empty  # before any query: a run that ends meanwhile may queue its run again
        self._answer, self._emptied = None, True
        if self._heartbeat.leases_valid() and not await self._yields_to_quarantine(store):
            claimed = await self._claim_in_turns(store)
        answer = self._answer
        if claimed:
            self._nothing_due_soon = False
            if answer is None or not self._may_wait_for_news(answer):
                return True
            await asyncio.sleep(BETWEEN_FETCHES_S)
        elif any(scan.interrupted for scan in self._scans) or (
            (answer is None or answer.quarantined)
            and in_flight.empty
            and not self.stopped
            and await self._run_quarantined(store)
        ):
            return True
        if answer is None:
            await self._wait(self._settings.poll_seconds)
            return True
        return await self._idle(answer, all_free=all_free)

    def _may_wait_for_news(self, answer: Answer) -> bool:
        """Whether the ends of this worker's runs let no other run start: the next one is announced, or due later."""
        nothing_waits = self._emptied and not answer.limit_keys and not answer.quarantined
        return nothing_waits and self._settings.listen and self._age_s() < self._stay_s

    async def _log_failures_of(self, task: Awaitable[None], store: WorkerStore, what: str) -> None:
        """Do what a fetch does besides claims. A table that is locked, or the like, must not stop the claims.

        Raises DatabaseUnavailable if the connection was lost.
        """
        try:
            await task
        except DatabaseUnavailable as error:
            if store.conn.closed:
                raise
            failures.failed(what, error)
        else:
            failures.succeeded(what)

    async def _register_again(self, store: WorkerStore) -> None:
        """Register again if the store has removed this worker, and often enough that its job types stay known."""
        unregistered, now = self._heartbeat.unregistered, time.monotonic()
        due = unregistered != self._unregistered_before or now > self._registered_at + self._register_every_s
        if due and now >= self._register_at:
            self._register_at = now + REGISTER_RETRY_S  # it may have waited for a lock
            await store.register_worker(tuple(self._in_flight.handlers), again=True)
            self._register_at = now
            self._unregistered_before = unregistered
            self._registered_at = now

    # -- claims --------------------------------------------------------------------------------------------------------

    async def _claim_in_turns(self, store: WorkerStore) -> int:
        """Alternate whether limited or unlimited runs are claimed first, because the first may take all free slots."""
        turns = self._claim_limited, self._claim_unlimited
        first, second = turns if self._limited_first else reversed(turns)
        claimed = await first(store)
        if claimed:
            self._limited_first = not self._limited_first
        return claimed + await second(store)

    async def _claim_unlimited(self, store: WorkerStore) -> int:
        claimed = 0
        for scan in sorted(self._scans, key=QueueScan.backs_off):
            if self._emptied or not (claimed and scan.backs_off()):
                claimed += await self._claim(scan, self._rows_wanted(scan.executor), store)
        return claimed

    def _ahead(self) -> Ahead:
        """Return what this worker asks about the time after its claim."""
        settings, stays = self._settings, self._age_s() < self._stay_s
        within_s = settings.poll_seconds if stays else float(settings.drain_lookahead_seconds)
        return Ahead(self._all_types, within_s, self._after_key)

    def _rows_wanted(self, executor: ExecutorState) -> int:
        """Rows to claim for an executor: its free slots, or 50 ms of its rate if that is more; 0 while enough wait."""
        if executor.exhausted:
            return 0
        prefetch = int(self._rates[id(executor)].now() * PREFETCH_S)
        target = min(executor.prefetch_limit, max(executor.free_slots, prefetch))
        waiting = len(executor.waiting) + max(0, -executor.free_slots)  # attempts that no thread has started wait, too
        return 0 if waiting > target // 2 else min(MAX_CLAIM, target - waiting)

    async def _claim(self, scan: QueueScan, count: int, store: WorkerStore) -> int:
        if count <= 0 or self.stopped:
            scan.skip_turn()
            self._emptied = False
            return 0
        oldest, by_age = self._oldest[id(scan)], 0
        if share := oldest.share(count):
            sent = boottime()
            rows = await oldest.claim(store, share)
            self._accept(rows, sent)
            by_age = len(rows)
        scan.skip_turn()
        claimed = by_age
        if claimed < count:
            rows, self._answer = await scan.fetch(store, count - claimed, self._ahead())
            self._accept(rows, scan.sent)
            claimed += len(rows)
            self._keys = self._answer.limit_keys
            self._emptied &= not self._answer.further
        self._emptied &= claimed < count
        oldest.record(claimed, by_age, count)
        return claimed

    def _limited_wanted(self, executor: ExecutorState) -> int:
        """Limited runs to claim: those that start at once. While they wait, they occupy slots of their limit."""
        prefetch = int(self._rates[id(executor)].now() * LIMITED_PREFETCH_S)
        return max(executor.unassigned_slots, min(executor.concurrency, prefetch))

    async def _claim_limited(self, store: WorkerStore) -> int:
        """Claim limited runs of the next limit keys. The keys are served in turn, across calls."""
        now, keys = time.monotonic(), self._keys
        if now < self._limited_at or self.stopped or not keys:
            return 0
        scans = [scan for scan in self._scans if self._limited_wanted(scan.executor) > 0]
        if not scans:
            return 0
        self._keys, claimed = (), 0
        for scan in scans:
            sent = boottime()
            rows = await store.claim_limited(scan.job_types, keys, self._limited_wanted(scan.executor))
            self._accept(rows, sent, first=True)
            claimed += len(rows)
        self._after_key = keys[-1] if len(keys) == KEYS_PER_CLAIM else ""
        if not claimed and not self._after_key:
            self._limited_at = now + LIMITED_PAUSE_S
        return claimed or bool(self._after_key)

    async def _run_quarantined(self, store: WorkerStore) -> bool:
        """Claim one quarantined run and wait until it has ended. Returns False if there is none."""
        sent, began = boottime(), time.monotonic()
        rows = await store.claim_quarantined(self._all_types)
        if not rows:
            self._quarantine.none_left()
            return False
        log.warning("run %d was running when two workers died: it runs alone", rows[0].id)
        self._accept(rows, sent)
        while not self._in_flight.empty and not self._is_over():
            self._in_flight.begin_turn()
            await self._wait(1.0)
        self._quarantine.ran(began, time.monotonic())
        return True

    async def _yields_to_quarantine(self, store: WorkerStore) -> bool:
        """Whether this worker claims nothing now, so that it can run a quarantined run alone."""
        now = time.monotonic()
        if self._quarantine.query_due(now):
            self._quarantine.answered(await store.quarantined_wait_s(self._all_types), now)
        return self._quarantine.yielding

    def _accept(self, rows: list[Any], sent: float, *, first: bool = False) -> None:
        """Add claimed rows to the in-flight buffer, or release them if the reply came too late.

        The store counts a lease from no earlier than `sent`, and the worker may consider it valid for three quarters of
        a lease from now on. So a reply may take a quarter of a lease, and must be read while the leases are valid.
        """
        if not rows:
            return
        if self._heartbeat.leases_valid() and boottime() - sent <= self._max_reply_s:
            self._in_flight.add(rows, first=first)
            self._coroutines.start_waiting()
            self._threads.start_waiting()
            return
        log.warning("the reply to a claim came too late: %s released", counted(len(rows), "lease"))
        self._in_flight.release_late(rows)

    # -- waiting -------------------------------------------------------------------------------------------------------

    async def _idle(self, answer: Answer, *, all_free: bool) -> bool:
        """Wait until the next run or tick is due. Returns False if the worker should exit.

        A draining worker exits in two steps: a query finds nothing due soon, and then each scan finds nothing either.
        Both count only if no run was in flight when the claims began (`all_free`), so that every executor had a turn.
        """
        settings = self._settings
        stays = self._age_s() < self._stay_s
        if not stays and all_free and self._nothing_due_soon and all(scan.found_nothing for scan in self._scans):
            return False
        due_s = answer.due_s
        self._nothing_due_soon = due_s is None and all_free
        if self._nothing_due_soon and not stays:
            for scan in self._scans:  # for what became due between the last claim and the query
                scan.rewind()
            self._limited_at = 0.0  # a slot of a limit may have become free
            self._maintain_at = 0.0
            return True
        wait_s = settings.poll_seconds if due_s is None else min(settings.poll_seconds, max(0.0, due_s))
        if due_s is not None:  # it may be a tick
            self._maintain_at = min(self._maintain_at, time.monotonic() + due_s)
        if self._keys:
            wait_s = min(wait_s, max(0.0, self._limited_at - time.monotonic()))
        await self._wait(wait_s, ends_matter=not self._may_wait_for_news(answer))
        return True

    async def _wait(self, seconds: float, *, ends_matter: bool = True) -> None:
        """Wait until a run ends, a notification arrives, or the time is over."""
        # If only free slots are missing, wait briefly so that one claim can fill several.
        in_flight = self._in_flight
        if ends_matter:
            in_flight.await_ends()
        slots_missing = ends_matter and in_flight.running and not in_flight.waiting
        await asyncio.sleep(min(COALESCE_S, seconds) if slots_missing else 0)
        try:
            async with asyncio.timeout(seconds):
                await in_flight.wakeup.wait()
        except TimeoutError:
            return
