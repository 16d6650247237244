"""Claiming: what can start at once, and a little ahead when runs are short; when to wait, and when to go.

Limited runs and suspects have moves of their own: limited ones are claimed only into free slots, a suspect (a run that
was running when two workers died) only by a worker that has nothing else in hand.

No run starves: a share of the claims takes the oldest runs (oldest_first.py), limited runs and others alternate in
being claimed first, and suspects take at most half of a worker's time (quarantine_turns.py).
"""

from __future__ import annotations

import asyncio
import math
import time
from typing import TYPE_CHECKING, Any

from wakeboard.clock import boottime
from wakeboard.errors import DatabaseUnavailable
from wakeboard.rules.humanize import counted
from wakeboard.store.worker_api import NOT_STARTED, Release, text_array
from wakeboard_worker.heartbeat import TRUSTED_PART
from wakeboard_worker.logs import log, outages
from wakeboard_worker.oldest_first import OldestFirst
from wakeboard_worker.quarantine_turns import QuarantineTurns
from wakeboard_worker.queue_scan import QueueScan

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from wakeboard.settings import Settings
    from wakeboard.store.reconnecting import ReconnectingConnection
    from wakeboard.store.worker_api import WorkerStore
    from wakeboard_worker.coroutine_executor import CoroutineExecutor
    from wakeboard_worker.heartbeat import Heartbeat
    from wakeboard_worker.in_flight import Executor, InFlightBuffer
    from wakeboard_worker.thread_executor import ThreadExecutor

AHEAD_S = 0.05  # of work that may wait in this worker while others are idle
AT_ONCE = 1000  # rows of one claim
LIMIT_KEYS = 200  # looked at in one go
LIMITED_AHEAD_S = 0.005
LIMITED_EVERY_S = 0.05
KNOWN_AGAIN_S = 180.0  # readers look at the job types that were known in the last 10 minutes
SHORTEST_PAUSE_S = 0.01


class _Rate:
    """How many runs a lane ends per second, lately."""

    def __init__(self, executor: Executor) -> None:
        self._lane, self._ended, self._at, self._value = executor, executor.ended, time.monotonic(), 0.0

    def now(self) -> float:
        """The rate; quick to rise, slow to fall: half of it in as much time as runs may wait here."""
        at = time.monotonic()
        passed = at - self._at
        if passed > AHEAD_S / 10:
            seen = (self._lane.ended - self._ended) / passed
            self._value = max(self._value * 0.5 ** (passed / AHEAD_S), seen)
            self._ended, self._at = self._lane.ended, at
        # In a full lane handlers that take long may have begun, and ended, together.
        return self._value if self._lane.places > 0 else min(self._value, self._lane.pace)


class Fetcher:
    """The loop that claims, until the wake is over. `duties` is called when there is time for it."""

    def __init__(
        self,
        in_flight: InFlightBuffer,
        slots: CoroutineExecutor,
        threads: ThreadExecutor,
        line: ReconnectingConnection[WorkerStore],
        heartbeat: Heartbeat,
        settings: Settings,
        stay_s: float,
        duties: Callable[[Any, bool], Awaitable[None]],
    ) -> None:
        self._desk, self._slots, self._threads, self._line, self._heartbeat = in_flight, slots, threads, line, heartbeat
        self._settings, self._stay_s, self._duties = settings, stay_s, duties
        self._walks = [QueueScan(executor, settings.queues) for executor in in_flight.executors]
        self._oldest = {id(walk): OldestFirst(walk, settings.queues) for walk in self._walks}
        self._rates = {id(executor): _Rate(executor) for executor in in_flight.executors}
        self._all_types = text_array(tuple(in_flight.handlers))
        self._prompt_s = settings.lease_seconds * (1 - TRUSTED_PART)
        self._born = time.monotonic()
        self._after_key = ""
        self._limited_at = 0.0
        self._suspects = QuarantineTurns()
        self._round_at_once = self._limited_first = False
        self._forgotten = 0  # what the heartbeat had counted when this worker last said who it is
        self._registered_at = self._born
        self._nothing_ahead = False  # nothing will be due soon; what is due by then, the next walk tells
        self.stopped = False

    def stop(self) -> None:
        """Claim nothing more."""
        self.stopped = True
        self._desk.room.set()

    async def run(self) -> None:
        """Claims until the wake is over. A database that is away is waited for, while anything can still be saved."""
        while not self._over():
            try:
                goes_on = await self._pass(await self._line.store())
                outages.recovered("claims")
                if not goes_on:
                    return
            except DatabaseUnavailable as error:
                outages.lost("claims", error)
                self._desk.lose_sight()
                if self._stay_s < math.inf and self._desk.empty and self._age_s() > self._settings.max_lifetime_seconds:
                    raise
                await self._line.pause()

    def _age_s(self) -> float:
        return time.monotonic() - self._born

    def _over(self) -> bool:
        if self.stopped or self._threads.exhausted or self._desk.stuck:
            return True
        return self._stay_s < math.inf and self._age_s() > self._settings.max_lifetime_seconds

    async def _pass(self, worker_store: WorkerStore) -> bool:
        """One look for work, and the pause after it. False: nothing is due, and nothing will be soon."""
        in_flight = self._desk
        in_flight.room.clear()
        await self._introduce_again(worker_store)
        # Also while every slot is busy: ticks and lapsed leases do not wait for room.
        at_once, self._round_at_once = self._round_at_once, False
        await self._duties(worker_store.conn, at_once)
        if worker_store.conn.closed:
            await self._line.pause()
            return True
        claimed = 0
        full = not any(self._wanted(executor) > 0 for executor in in_flight.executors)
        if self._heartbeat.trusted() and not await self._suspect_goes_first(worker_store):
            claimed = await self._claim_in_turns(worker_store)
        if claimed:
            self._nothing_ahead = False
            return True
        if in_flight.empty and not self.stopped and await self._claim_suspect(worker_store):
            return True
        if full:
            await self._room(self._settings.poll_seconds)
            return True
        return await self._pause(worker_store)

    async def _introduce_again(self, worker_store: WorkerStore) -> None:
        """Registers again when the database has forgotten this worker, and often enough to remain known."""
        forgotten, now = self._heartbeat.forgotten, time.monotonic()
        long_ago = now > self._registered_at + min(KNOWN_AGAIN_S, self._settings.lease_seconds)
        if forgotten != self._forgotten or long_ago:
            await worker_store.register_worker(tuple(self._desk.handlers), again=True)
            self._forgotten = forgotten
            self._registered_at = now

    # -- claims --------------------------------------------------------------------------------------------------------

    async def _claim_in_turns(self, worker_store: WorkerStore) -> int:
        """Alternates whether limited runs or others are claimed first, because the first may take all free slots."""
        turns = self._claim_limited, self._claim_unlimited
        first, second = turns if self._limited_first else reversed(turns)
        claimed = await first(worker_store)
        if claimed:
            self._limited_first = not self._limited_first
        return claimed + await second(worker_store)

    async def _claim_unlimited(self, worker_store: WorkerStore) -> int:
        claimed = 0
        for walk in sorted(self._walks, key=QueueScan.rests):
            if not (claimed and walk.rests()):
                claimed += await self._claim(walk, self._wanted(walk.executor), worker_store)
        return claimed

    def _wanted(self, executor: Executor) -> int:
        """Rows to claim for a lane: its free places, or 50 ms of its rate if that is more; 0 while enough wait."""
        if executor.exhausted:
            return 0
        ahead = int(self._rates[id(executor)].now() * AHEAD_S)
        target = min(executor.appetite, max(executor.places, ahead))
        waiting = len(executor.waiting) + max(0, -executor.places)  # what threads have in reserve waits, too
        return 0 if waiting > target // 2 else min(AT_ONCE, target - waiting)

    async def _claim(self, walk: QueueScan, count: int, worker_store: WorkerStore) -> int:
        if count <= 0 or self.stopped:
            walk.found_nothing = False
            return 0
        oldest, by_age = self._oldest[id(walk)], 0
        if share := oldest.share(count):
            sent = boottime()
            rows = await oldest.claim(worker_store, share)
            self._take(rows, sent)
            by_age = len(rows)
        walk.found_nothing = False
        claimed = by_age
        if claimed < count:
            rows = await walk.claim(worker_store, count - claimed)
            self._take(rows, walk.sent)
            claimed += len(rows)
        oldest.note(claimed, by_age, count)
        return claimed

    def _wanted_limited(self, executor: Executor) -> int:
        """Rows that would start at once, as they go first: while they wait they hold places that others could use."""
        return max(executor.free, min(executor.width, int(self._rates[id(executor)].now() * LIMITED_AHEAD_S)))

    async def _claim_limited(self, worker_store: WorkerStore) -> int:
        """Round the keys: this pass goes on where the last one ended."""
        now = time.monotonic()
        if now < self._limited_at or self.stopped:
            return 0
        walks = [walk for walk in self._walks if self._wanted_limited(walk.executor) > 0]
        if not walks:
            return 0
        keys = await worker_store.due_limit_keys(self._after_key, LIMIT_KEYS)
        claimed = 0
        for walk in walks if keys else ():
            sent = boottime()
            rows = await worker_store.claim_limited(walk.job_types, keys, self._wanted_limited(walk.executor))
            self._take(rows, sent, first=True)
            claimed += len(rows)
        self._after_key = keys[-1] if len(keys) == LIMIT_KEYS else ""
        if not claimed and not self._after_key:
            self._limited_at = now + LIMITED_EVERY_S
        return claimed or bool(self._after_key)

    async def _claim_suspect(self, worker_store: WorkerStore) -> bool:
        sent, began = boottime(), time.monotonic()
        rows = await worker_store.claim_quarantined(self._all_types)
        if not rows:
            self._suspects.none_left()
            return False
        log.warning("run %d has been running when two workers died: it runs alone", rows[0][0])
        self._take(rows, sent)
        while not self._desk.empty and not self._over():
            self._desk.room.clear()
            await self._room(1.0)
        self._suspects.ran(began, time.monotonic())
        return True

    async def _suspect_goes_first(self, worker_store: WorkerStore) -> bool:
        """Whether the worker has stopped claiming so that it can run a suspect alone."""
        now = time.monotonic()
        if self._suspects.asks(now):
            self._suspects.answered(await worker_store.quarantined_wait_s(self._all_types), now)
        return self._suspects.making_room

    def _take(self, rows: list[Any], sent: float, *, first: bool = False) -> None:
        """Rows that came too late go back at once: their lease could lapse before this worker stops believing in it.

        A lease counts from no earlier than `sent`, and the trust may last three quarters of a lease from now on.
        """
        if not rows:
            return
        if self._heartbeat.trusted() and boottime() - sent <= self._prompt_s:
            self._desk.take(rows, first=first)
            self._slots.kick()
            self._threads.kick()
            return
        log.warning("the reply to a claim came too late: %s released", counted(len(rows), "lease"))
        self._desk.counts.claimed += len(rows)
        self._desk.releases.extend(Release(row[0], row[1], reason=NOT_STARTED) for row in rows)
        self._desk.flush.set()

    # -- pauses --------------------------------------------------------------------------------------------------------

    async def _pause(self, worker_store: WorkerStore) -> bool:
        """Nothing could be claimed: until when, or is the wake over?"""
        in_flight, settings = self._desk, self._settings
        stays = self._age_s() < self._stay_s
        nothing_in_hand = in_flight.empty  # before any question: what is told meanwhile may come back
        if not stays and nothing_in_hand and self._nothing_ahead and all(walk.found_nothing for walk in self._walks):
            return False
        within_s = settings.poll_seconds if stays else float(settings.drain_lookahead_seconds)
        due_s = await worker_store.next_due_s(self._all_types, within_s)
        self._nothing_ahead = due_s is None and nothing_in_hand
        if self._nothing_ahead and not stays:
            for walk in self._walks:  # what became due between the last claim and the question is found by one more
                walk.rewind()
            self._limited_at = 0.0  # and a slot that became free
            self._round_at_once = True
            return True
        self._round_at_once = due_s is not None  # it may be a tick
        await self._room(min(settings.poll_seconds, within_s if due_s is None else max(0.0, due_s)))
        return True

    async def _room(self, seconds: float) -> None:
        """Waits until something ends, somebody notifies, or the time is over."""
        # Where places are all that is missing, several become free meanwhile: one claim for them.
        for_places = self._desk.running and not self._desk.waiting
        await asyncio.sleep(min(SHORTEST_PAUSE_S, seconds) if for_places else 0)
        try:
            async with asyncio.timeout(seconds):
                await self._desk.room.wait()
        except TimeoutError:
            return
