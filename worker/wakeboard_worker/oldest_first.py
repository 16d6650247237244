"""Claims one run in twenty by age instead of by priority, so that higher priorities do not starve lower ones.

The rule: of each twenty runs that an executor claims from a backlog, one is the run of a queue that has been due
longest, whatever its priority (`SHARE`). The worker's queues take turns. Claims by age are at least 200 ms apart, and
each takes as many rows as the share amounts to since the previous one, so they add little cost. The count starts at a
random value, so that workers that make only a few claims also take one in twenty on average.
"""

from __future__ import annotations

import math
import random
import time
from collections import deque
from typing import TYPE_CHECKING

from wakeboard.engine.scan_positions import ScanPositions
from wakeboard_worker.queue_scan import FULL_SCAN_EVERY_S, FULL_SCAN_PAUSE, last_of_each_pair

if TYPE_CHECKING:
    from collections.abc import Sequence

    from wakeboard.engine.run import ClaimedRow
    from wakeboard.engine.worker_api import WorkerStore
    from wakeboard_worker.queue_scan import QueueScan

SHARE = 1 / 20  # of the claimed runs
EVERY_S = 0.2  # between two claims by age


class OldestFirst:
    """The share of one executor: how many rows to claim by age, and a scan for each queue."""

    def __init__(self, scan: QueueScan, queues: Sequence[str]) -> None:
        self._scans = deque(_AgeScan(queue, scan) for queue in queues)
        self._owed = random.random()  # noqa: S311 - no secret
        self._next_at = 0.0

    def share(self, count: int) -> int:
        """Return how many of the next `count` rows to claim by age."""
        if time.monotonic() < self._next_at:
            return 0
        return min(count, int(self._owed + count * SHARE))

    async def claim(self, store: WorkerStore, count: int) -> list[ClaimedRow]:
        """Lease up to `count` rows of the next queue that has a due run."""
        rows: list[ClaimedRow] = []
        for _ in range(len(self._scans)):
            self._scans.rotate(-1)
            rows = await self._scans[-1].claim(store, count)
            if rows:
                break
        self._next_at = time.monotonic() + EVERY_S
        return rows

    def record(self, claimed: int, by_age: int, wanted: int) -> None:
        """Record a claim of `claimed` rows, `by_age` of them by age. It counts only if there was a backlog."""
        if claimed >= wanted:
            self._owed = min(self._owed + claimed * SHARE - by_age, max(1.0, wanted))


class _AgeScan:
    """Scans the due runs of one queue in the order of run_at, with its own scan positions.

    If a claim finds only runs of other types or in flight, the next one continues behind them. Rows that become due
    behind the scan position are found by the next full scan, as in queue_scan.py.
    """

    def __init__(self, queue: str, scan: QueueScan) -> None:
        self._positions, self._by_priority, self._job_types = ScanPositions([queue]), scan, scan.job_types
        self._took_s = 0.0  # the duration of all claims of this scan
        self._next_scan_at = math.inf  # inf: the current scan has not reached the end
        self._finished = False

    async def claim(self, store: WorkerStore, count: int) -> list[ClaimedRow]:
        """Lease the oldest rows behind the scan position."""
        began = time.monotonic()
        if began >= self._next_scan_at:
            self._positions.rewind()
            self._took_s, self._next_scan_at, self._finished = 0.0, math.inf, False
        if self._finished:
            return []
        self._positions.catch_up(self._by_priority.positions)  # skips what the claims by priority have taken
        rows = await store.claim_oldest(self._positions, self._job_types, count)
        for pair, (run_at, run_id) in last_of_each_pair(rows).items():
            self._positions.move(pair, run_at, run_id)
        further = not rows and await self._advance(store)
        now = time.monotonic()
        self._took_s += now - began
        if further:
            self._next_scan_at = math.inf
        elif self._next_scan_at == math.inf:
            self._next_scan_at = now + max(FULL_SCAN_EVERY_S, FULL_SCAN_PAUSE * self._took_s)
        self._finished = not rows and not further
        return rows

    async def _advance(self, store: WorkerStore) -> bool:
        further = await store.advance_scan(self._positions, self._positions.pairs, self._job_types)
        for pair, run_at, run_id in further:
            self._positions.move(pair, run_at, run_id)
        return bool(further)
