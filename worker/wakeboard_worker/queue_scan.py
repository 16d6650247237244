"""Where a lane looks for due runs, and when it looks again from the start.

A claim goes on behind the last row that the one before it looked at: past index entries that are dead, and past runs in
flight. What comes to lie before the mark meanwhile (late commits, retries, releases) is found by the next walk from the
start: after each walk that reached the end, and otherwise every two seconds or twenty times as long as a walk takes,
whichever is longer, so that walking costs a twentieth of the time.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from wakeboard.clock import boottime
from wakeboard.store.worker_api import SCAN_LIMIT, ScanPositions, text_array

if TYPE_CHECKING:
    from collections.abc import Sequence

    from wakeboard.run import ClaimedRow
    from wakeboard.store.worker_api import Pair, WorkerStore
    from wakeboard_worker.in_flight import Executor

BETWEEN_WALKS_S = 2.0
WALKS_PART = 20  # walking takes 1/20 of the time
REST_PART = 10  # looks in vain take 1/10 of the time, while another lane has work …
LONGEST_REST_S = 0.1  # … or more: new runs of this lane have to be found
QUEUE, PRIORITY, RUN_AT, ID = 9, 10, 8, 0  # columns of a claimed row


class QueueScan:
    """The walk of one lane over the due runs of its types."""

    def __init__(self, executor: Executor, queues: Sequence[str]) -> None:
        self.executor = executor
        self.job_types = text_array(executor.job_types)
        self.positions = ScanPositions(queues)
        self._ended: set[Pair] = set()  # pairs that have been looked at to their end since the walk began
        self._from_start = True  # nothing has been claimed behind the marks yet
        self._rich = False  # the last claim was full, and nothing was in its way: the next one may look further
        self._last_s = 0.0  # what the last look from the start took, to the end or to a full batch
        self._again_at = 0.0
        self._rests_until = 0.0
        self.sent = 0.0  # boottime() when the last claim was sent
        self.found_nothing = False  # the last claim walked from the start to the end, and nothing was due

    def rewind(self) -> None:
        """The next claim begins at the start."""
        self.positions.rewind()
        self._ended.clear()
        self._from_start, self._rich = True, False

    def rests(self) -> bool:
        """Whether it has just looked in vain, so that another lane's runs may go first for a while."""
        return time.monotonic() < self._rests_until

    async def claim(self, worker_store: WorkerStore, count: int) -> list[ClaimedRow]:
        """Up to `count` due runs; none: there are none behind the marks."""
        began = time.monotonic()
        if began >= self._again_at and not self._from_start:
            self.rewind()
        self.sent = boottime()
        rows = await worker_store.claim(self.positions, self.job_types, count, None if self._rich else SCAN_LIMIT)
        while not rows and await self._look_further(worker_store):
            self.sent = boottime()
            rows = await worker_store.claim(self.positions, self.job_types, count)
        full = len(rows) >= count
        self._note(began, rows, full=full)
        self._rich = full and await self._go_on_behind(rows, worker_store)
        self.positions.rotate()
        return rows

    def _note(self, began: float, rows: Sequence[ClaimedRow], *, full: bool) -> None:
        now = time.monotonic()
        self._rests_until = 0.0 if rows else now + min(LONGEST_REST_S, REST_PART * (now - began))
        self.found_nothing = self._from_start and not rows
        if self._from_start:
            self._last_s, self._from_start = now - began, False
            self._again_at = now + max(BETWEEN_WALKS_S, WALKS_PART * self._last_s)
        if not full:
            self._again_at = min(self._again_at, now + WALKS_PART * self._last_s)

    async def _go_on_behind(self, rows: Sequence[ClaimedRow], worker_store: WorkerStore) -> bool:
        """Moves the marks after a full batch; whether nothing was in its way.

        Pairs before the last one that gave rows gave all that was looked at. Where more lies behind (rows of strangers,
        runs in flight) the next look goes on there; otherwise a backlog of lower priority would hide it for ever.
        """
        last = last_of_each_pair(rows)
        pairs = self.positions.pairs
        reached = max(pairs.index(pair) for pair in last)
        passed = [pair for pair in pairs[:reached] if pair not in self._ended]
        further = await worker_store.advance_scan(self.positions, passed, self.job_types) if passed else []
        self._ended.update(set(passed) - {pair for pair, _, _ in further})
        for pair, (run_at, run_id) in last.items():
            self.positions.move(pair, run_at, run_id)
        for pair, run_at, run_id in further:
            self.positions.move(pair, run_at, run_id)
        return self._ended.issuperset(pairs[:reached])

    async def _look_further(self, worker_store: WorkerStore) -> bool:
        further = await worker_store.advance_scan(self.positions, self.positions.pairs, self.job_types)
        for pair, run_at, run_id in further:
            self.positions.move(pair, run_at, run_id)
        return bool(further)


def last_of_each_pair(rows: Sequence[ClaimedRow]) -> dict[Pair, tuple[int, int]]:
    """The last run of each (queue, priority) among these, as (run_at, id)."""
    last: dict[Pair, tuple[int, int]] = {}
    for row in rows:
        pair, place = (row[QUEUE], row[PRIORITY]), (row[RUN_AT], row[ID])
        if pair not in last or place > last[pair]:
            last[pair] = place
    return last
