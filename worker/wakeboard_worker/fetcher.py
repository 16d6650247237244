"""Claims runs for the executors: as many as can start soon, in an order in which no run starves.

How many: one for each free slot, or as many as the executor ends in 50 ms if runs are so short that this is more
(`_rows_wanted`).

In which order: `fetch_runs` decides that, and says when to fetch again. Limited runs are claimed only if they start at
once (`_limited_wanted`). A quarantined run (one that was running when two workers died) runs only while nothing else is
in flight.

A claimed row is used only if the reply came in time: see `_accept`.
"""

from __future__ import annotations

import asyncio
import math
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

from wakeboard.errors import DatabaseUnavailable
from wakeboard.process.clock import boottime
from wakeboard.store.array_texts import text_array
from wakeboard.text.humanize import counted
from wakeboard_worker.heartbeat import VALID_SHARE
from wakeboard_worker.logs import failures, log, outages

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence

    from wakeboard.engine.run import ClaimedRow
    from wakeboard.engine.worker_api import FetchAnswer, WorkerStore
    from wakeboard.settings import Settings
    from wakeboard.store.reconnecting import ReconnectingConnection
    from wakeboard_worker.coroutine_executor import CoroutineExecutor
    from wakeboard_worker.executor_state import ExecutorState
    from wakeboard_worker.heartbeat import Heartbeat
    from wakeboard_worker.in_flight import InFlightBuffer
    from wakeboard_worker.thread_executor import ThreadExecutor

PREFETCH_S = 0.05  # how much work may wait in this worker
LIMITED_PREFETCH_S = 0.005  # the same for limited runs
MAX_CLAIM = 2_000  # rows of one claim
QUARANTINED_AT = 2  # crashes
REGISTER_EVERY_S = 180.0  # readers consider the job types of workers that registered in the last 10 minutes
REGISTER_RETRY_S = 10.0  # after a registration that failed
BETWEEN_FETCHES_S = 0.003  # after one that emptied the queue, so that the next finds several runs where many come
BACK_OFF = 10  # times the duration of a fetch that found nothing, while another executor has work …
MAX_BACK_OFF_S = 0.1  # … but not longer, so that new runs are found soon
NEEDED_KNOWN_S = 2.0  # how long what a fetch has said about maintenance holds while the next ones find runs
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


@dataclass(slots=True)
class _Share:
    """What one executor fetches, and how far its fetches have come."""

    executor: ExecutorState
    job_types: str  # as a text_array
    rate: _Rate
    state: str | None = None  # of its last fetch; None: the next one reads everything
    backs_off_until: float = 0.0

    def backs_off(self) -> bool:
        """Whether its last fetch found nothing a moment ago, so that other executors go first."""
        return time.monotonic() < self.backs_off_until


@dataclass(slots=True)
class _Turn:
    """What one turn of all executors has found. An executor without room, or that backs off, has no answer."""

    claimed: int = 0
    again: bool = False
    answers: list[FetchAnswer] = field(default_factory=list["FetchAnswer"])
    limited_left_out: bool = False
    """Whether an executor asked for no runs with a limit key, because none could start at once."""

    def waits(self) -> bool:
        """Whether something waits for the end of a run of this worker."""
        return self.limited_left_out or any(answer.waits for answer in self.answers)

    def maintenance(self) -> Sequence[str] | None:
        """The maintenance tasks that may have work, as the newest answer says that knows; None: unknown."""
        return next((each.maintain for each in reversed(self.answers) if each.maintain is not None), None)

    def soonest(self, name: Literal["due_s", "retry_s"]) -> float | None:
        """The least of the answers' seconds; None: no answer has any."""
        return min((at for answer in self.answers if (at := getattr(answer, name)) is not None), default=None)


class Fetcher:
    """The claim loop of a worker. It calls `maintain` before each claim; the callee decides what is due.

    Its arguments: whether a tick or a run is due now, and the tasks that may have work (None: unknown).
    """

    def __init__(
        self,
        in_flight: InFlightBuffer,
        coroutines: CoroutineExecutor,
        threads: ThreadExecutor,
        connection: ReconnectingConnection[WorkerStore],
        heartbeat: Heartbeat,
        settings: Settings,
        stay_s: float,
        maintain: Callable[[Any, bool, Sequence[str] | None], Awaitable[None]],
    ) -> None:
        self._in_flight, self._coroutines, self._threads = in_flight, coroutines, threads
        self._connection, self._heartbeat = connection, heartbeat
        self._settings, self._stay_s, self._maintain = settings, stay_s, maintain
        self._shares = [_Share(each, text_array(each.job_types), _Rate(each)) for each in in_flight.executors]
        self._all_types = text_array(tuple(in_flight.handlers))
        self._max_reply_s = settings.lease_seconds * (1 - VALID_SHARE)
        self._started_at = time.monotonic()
        self._maintain_at = math.inf  # time.monotonic(): a tick or a run is due then
        self._needed: Sequence[str] | None = None  # maintenance tasks, as a fetch has said that found no run
        self._needed_until = 0.0  # time.monotonic(): then it is not known any more
        self._unregistered_before = 0  # the heartbeat's count at the last registration
        self._registered_at = self._started_at
        self._register_every_s = min(REGISTER_EVERY_S, settings.lease_seconds)
        self._register_at = 0.0  # time.monotonic(); no registration before it
        self._reads_everything = False  # nothing was due: if a fetch from the start finds nothing, the worker exits
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
        task = self._maintain(store.conn, at_once, self._needed)
        await self._log_failures_of(task, store, "maintenance")
        alone, turn = in_flight.empty, _Turn()  # before any query: a run that ends meanwhile may queue its run again
        if self._heartbeat.leases_valid():
            await self._fetch_all(store, turn, alone=alone)
        self._reads_everything &= not turn.claimed
        if turn.again or self._note_needed(turn.maintenance()):
            return True
        if not turn.answers:
            await self._wait(self._settings.poll_seconds)
            return True
        if turn.claimed and self._may_wait_for_news(turn):
            await asyncio.sleep(BETWEEN_FETCHES_S)
        return await self._idle(turn, alone=alone and not turn.claimed)

    def _note_needed(self, needed: Sequence[str] | None) -> bool:
        """Note which maintenance tasks may have work. Returns whether there are some now, and were none before."""
        before, now = self._needed, time.monotonic()
        if needed is not None:
            self._needed, self._needed_until = needed, now + NEEDED_KNOWN_S
        elif now > self._needed_until:
            self._needed = None
        return bool(self._needed) and before == []

    def _may_wait_for_news(self, turn: _Turn) -> bool:
        """Whether the ends of this worker's runs let no other run start: the next one is announced, or due later."""
        nothing_waits = len(turn.answers) == len(self._shares) and not turn.waits()
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

    async def _fetch_all(self, store: WorkerStore, turn: _Turn, *, alone: bool) -> None:
        """Fetch for each executor that has room, unless another has work and this one found nothing a moment ago."""
        for share in sorted(self._shares, key=_Share.backs_off):
            count = self._rows_wanted(share)
            if count <= 0 or self.stopped or (turn.claimed and turn.again and share.backs_off()):
                continue
            limited = self._limited_wanted(share)
            turn.limited_left_out |= limited == 0
            rows, answer = await self._fetch(share, count, limited, store, alone=alone and not turn.claimed)
            turn.claimed += len(rows)
            turn.again |= answer.again
            turn.answers.append(answer)
            if any(row.crash_count >= QUARANTINED_AT for row in rows):
                log.warning("run %d was running when two workers died: it runs alone", rows[0].id)
                await self._wait_until_empty()
                turn.again = True
                return

    async def _fetch(
        self, share: _Share, count: int, limited: int, store: WorkerStore, *, alone: bool
    ) -> tuple[Sequence[ClaimedRow], FetchAnswer]:
        stays = self._age_s() < self._stay_s
        within_s = self._settings.poll_seconds if stays else float(self._settings.drain_lookahead_seconds)
        began, sent = time.monotonic(), boottime()
        rows, answer = await store.fetch(
            *(share.job_types, count, share.state),
            alone=alone,
            limited_count=limited,
            all_types=self._all_types,
            within_s=within_s,
        )
        now = time.monotonic()
        share.state = answer.state
        share.backs_off_until = 0.0 if rows else now + min(MAX_BACK_OFF_S, BACK_OFF * (now - began))
        self._accept(rows[: answer.limited], sent, first=True)
        self._accept(rows[answer.limited :], sent)
        return rows, answer

    def _rows_wanted(self, share: _Share) -> int:
        """Rows to claim for an executor: its free slots, or 50 ms of its rate if that is more; 0 while enough wait."""
        executor = share.executor
        if executor.exhausted:
            return 0
        prefetch = int(share.rate.now() * PREFETCH_S)
        target = min(executor.prefetch_limit, max(executor.free_slots, prefetch))
        waiting = len(executor.waiting) + max(0, -executor.free_slots)  # attempts that no thread has started wait, too
        return 0 if waiting > target // 2 else min(MAX_CLAIM, target - waiting)

    def _limited_wanted(self, share: _Share) -> int:
        """Limited runs to claim: those that start at once. While they wait, they occupy slots of their limit."""
        executor = share.executor
        return max(executor.unassigned_slots, min(executor.concurrency, int(share.rate.now() * LIMITED_PREFETCH_S)), 0)

    async def _wait_until_empty(self) -> None:
        while not self._in_flight.empty and not self._is_over():
            self._in_flight.begin_turn()
            await self._wait(1.0)

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

    async def _idle(self, turn: _Turn, *, alone: bool) -> bool:
        """Wait until the next run or tick is due. Returns False if the worker should exit.

        A draining worker exits in two steps: nothing is due soon, and then a fetch from the start of all queues finds
        nothing either. Both count only if no run was in flight when the fetches began (`alone`), so that each executor
        had a turn.
        """
        settings = self._settings
        due_s, retry_s = turn.soonest("due_s"), turn.soonest("retry_s")
        if self._age_s() >= self._stay_s and alone and due_s is None and retry_s is None and not turn.waits():
            if self._reads_everything:
                return False
            for share in self._shares:
                share.state = None
            self._maintain_at = 0.0
            self._reads_everything = True
            return True
        self._reads_everything = False
        if due_s is not None:  # it may be a tick
            self._maintain_at = min(self._maintain_at, time.monotonic() + due_s)
        wait_s = min(each for each in (settings.poll_seconds, due_s, retry_s) if each is not None)
        await self._wait(max(0.0, wait_s), ends_matter=not self._may_wait_for_news(turn))
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
