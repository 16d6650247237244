"""A share of a lane's claims takes the oldest due runs, so that higher priorities do not starve lower ones.

Of each twenty runs that a lane claims from a backlog, one is the run of a queue that has been due for longest, whatever
its priority. The queues of the worker are served in turn. These claims are at least 200 ms apart. Each takes all rows
of the share that have accumulated, so that the other claims cost no more than before. The count starts at a random
value: workers that live for a few claims only then also give one in twenty on average.
"""

from __future__ import annotations

import math
import random
import time
from collections import deque
from typing import TYPE_CHECKING

from wakeboard.store.worker_api import ScanPositions
from wakeboard_worker.queue_scan import BETWEEN_WALKS_S, WALKS_PART, last_of_each_pair

if TYPE_CHECKING:
    from collections.abc import Sequence

    from wakeboard.run import ClaimedRow
    from wakeboard.store.worker_api import WorkerStore
    from wakeboard_worker.queue_scan import QueueScan

SHARE = 1 / 20  # of the starts
BETWEEN_TURNS_S = 0.2


class OldestFirst:
    """The share of one lane: how many rows are to be claimed by age, and a scan for each queue."""

    def __init__(self, walk: QueueScan, queues: Sequence[str]) -> None:
        self._scans = deque(_Scan(queue, walk) for queue in queues)
        self._owed = random.random()  # noqa: S311 - no secret
        self._next_at = 0.0

    def share(self, count: int) -> int:
        """How many of the next `count` rows go to the oldest runs."""
        if time.monotonic() < self._next_at:
            return 0
        return min(count, int(self._owed + count * SHARE))

    async def claim(self, worker_store: WorkerStore, count: int) -> list[ClaimedRow]:
        """Up to `count` rows of the next queue that has a due run."""
        rows: list[ClaimedRow] = []
        for _ in range(len(self._scans)):
            self._scans.rotate(-1)
            rows = await self._scans[-1].claim(worker_store, count)
            if rows:
                break
        self._next_at = time.monotonic() + BETWEEN_TURNS_S
        return rows

    def note(self, claimed: int, by_age: int, wanted: int) -> None:
        """Records a claim of `claimed` rows, `by_age` of them by age. Fewer than `wanted`: there was no backlog."""
        if claimed >= wanted:
            self._owed = min(self._owed + claimed * SHARE - by_age, max(1.0, wanted))


class _Scan:
    """Scans the due runs of one queue in the order of run_at, with scan positions (`Marks`) of its own.

    If a call finds only runs of other types or in flight, the next call continues behind them. Runs that become due
    behind the scan position are found by the next scan from the start, as in queue_scan.py.
    """

    def __init__(self, queue: str, walk: QueueScan) -> None:
        self._marks, self._walk, self._job_types = ScanPositions([queue]), walk, walk.job_types
        self._took_s = 0.0  # by this scan
        self._again_at = math.inf  # when the next scan from the start begins; inf: not known yet
        self._ended = False

    async def claim(self, worker_store: WorkerStore, count: int) -> list[ClaimedRow]:
        """Leases the oldest rows after the scan position."""
        began = time.monotonic()
        if began >= self._again_at:
            self._marks.rewind()
            self._took_s, self._again_at, self._ended = 0.0, math.inf, False
        if self._ended:
            return []
        self._marks.catch_up(self._walk.positions)  # what the lane has claimed since, however fast it is, costs nothing
        rows = await worker_store.claim_oldest(self._marks, self._job_types, count)
        for pair, (run_at, run_id) in last_of_each_pair(rows).items():
            self._marks.move(pair, run_at, run_id)
        further = not rows and await self._look_further(worker_store)
        now = time.monotonic()
        self._took_s += now - began
        if further:
            self._again_at = math.inf
        elif self._again_at == math.inf:
            self._again_at = now + max(BETWEEN_WALKS_S, WALKS_PART * self._took_s)
        self._ended = not rows and not further
        return rows

    async def _look_further(self, worker_store: WorkerStore) -> bool:
        found = await worker_store.advance_scan(self._marks, self._marks.pairs, self._job_types)
        for pair, run_at, run_id in found:
            self._marks.move(pair, run_at, run_id)
        return bool(found)
