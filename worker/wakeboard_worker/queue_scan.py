"""Claims the due runs of one executor by priority, and remembers how far it has scanned each queue and priority.

A claim continues behind the last row that the previous claim considered, so it skips dead index entries and runs in
flight. Rows that become due behind the scan position (late commits, retries, releases) are found by the next full scan.
A full scan starts after two seconds or twenty times the duration of the last one, whichever is longer. Once the scan
has reached its end, the two seconds no longer apply. So scanning takes a twentieth of the time at most.

An executor whose scan finds nothing reads past the runs of other executors for `TURN_S` at most, and continues there in
its next turn. It backs off for a moment while another executor has work.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from wakeboard.engine.scan_positions import ScanPositions
from wakeboard.engine.worker_api import SCAN_LIMIT
from wakeboard.process.clock import boottime
from wakeboard.store.array_texts import text_array

if TYPE_CHECKING:
    from collections.abc import Sequence

    from wakeboard.engine.run import ClaimedRow
    from wakeboard.engine.scan_positions import Pair
    from wakeboard.engine.worker_api import Ahead, Answer, WorkerStore
    from wakeboard_worker.in_flight import ExecutorState

FULL_SCAN_EVERY_S = 2.0  # between two full scans, at least
FULL_SCAN_PAUSE = 20  # between two full scans, at least: times the duration of the last one
TURN_S = 0.005  # of scanning without a run, before other executors have their turn
BACK_OFF = 10  # times the duration of a claim that found nothing, while another executor has work …
MAX_BACK_OFF_S = 0.1  # … but not longer, so that new runs are found soon


class QueueScan:
    """The scan of one executor over the due runs of its job types."""

    def __init__(self, executor: ExecutorState, queues: Sequence[str]) -> None:
        self.executor = executor
        self.job_types = text_array(executor.job_types)
        self.positions = ScanPositions(queues)
        self._finished: set[Pair] = set()  # (queue, priority) pairs that this scan has read to their end
        self._from_start = True  # this scan has found no run yet, and has not reached its end
        self._unlimited = False  # the next claim has no scan limit, because the last one was full and skipped no rows
        self._full_scan_s = 0.0  # the time from the start of this scan to its first run, or to its end
        self._next_scan_at = 0.0
        self._backs_off_until = 0.0
        self.sent = 0.0  # boottime() when the last claim was sent
        self.found_nothing = False  # the last scan read everything, and no run was due
        self.interrupted = False  # the last turn ended before the scan found a run or reached its end

    def rewind(self) -> None:
        """Make the next claim start a full scan."""
        self.positions.rewind()
        self._finished.clear()
        self._from_start, self._unlimited, self._full_scan_s = True, False, 0.0

    def skip_turn(self) -> None:
        """Record that the executor has no room for runs, so nothing is known about them."""
        self.found_nothing = self.interrupted = False

    def backs_off(self) -> bool:
        """Whether the last claim found nothing a moment ago, so that other executors go first."""
        return time.monotonic() < self._backs_off_until

    async def fetch(self, store: WorkerStore, count: int, ahead: Ahead) -> tuple[list[ClaimedRow], Answer]:
        """Lease up to `count` due runs behind the scan position. An empty list: it found none in this turn."""
        began = time.monotonic()
        if began >= self._next_scan_at and not self._from_start:
            self.rewind()
        self.sent = boottime()
        scan_limit = None if self._unlimited else SCAN_LIMIT
        rows, answer = await store.fetch(self.positions, self.job_types, count, ahead, scan_limit=scan_limit)
        self.positions.follow(answer.further or ())
        self.interrupted = False
        while not rows and answer.further:
            self.interrupted = time.monotonic() - began > TURN_S
            if self.interrupted:
                break
            self.sent = boottime()
            rows, answer = await store.fetch(self.positions, self.job_types, count, ahead)
            self.positions.follow(answer.further or ())
        full = len(rows) >= count
        self._schedule_next(began, rows, full=full)
        self._unlimited = full and await self._advance_behind(rows, store)
        self.positions.rotate()
        return rows, answer

    def _schedule_next(self, began: float, rows: Sequence[ClaimedRow], *, full: bool) -> None:
        now = time.monotonic()
        self._backs_off_until = 0.0 if rows else now + min(MAX_BACK_OFF_S, BACK_OFF * (now - began))
        if self._from_start:
            self._full_scan_s += now - began
        self.found_nothing = self._from_start and not rows and not self.interrupted
        if self.interrupted:
            return
        if self._from_start:
            self._from_start = False
            self._next_scan_at = now + max(FULL_SCAN_EVERY_S, FULL_SCAN_PAUSE * self._full_scan_s)
        if not full:
            self._next_scan_at = min(self._next_scan_at, now + FULL_SCAN_PAUSE * self._full_scan_s)

    async def _advance_behind(self, rows: Sequence[ClaimedRow], store: WorkerStore) -> bool:
        """Move the scan positions behind a full batch. Returns whether no rows had to be skipped.

        Pairs before the last pair with claimed rows have no claimable row up to the scan limit. If they have more rows
        behind it (of other job types, or in flight), the next claim continues there. Otherwise a backlog of a lower
        priority would hide those rows for ever.
        """
        last = last_of_each_pair(rows)
        pairs = self.positions.pairs
        reached = max(pairs.index(pair) for pair in last)
        unfinished = [pair for pair in pairs[:reached] if pair not in self._finished]
        further = await store.advance_scan(self.positions, unfinished, self.job_types) if unfinished else []
        self._finished.update(set(unfinished) - {pair for pair, _, _ in further})
        for pair, (run_at, run_id) in last.items():
            self.positions.move(pair, run_at, run_id)
        for pair, run_at, run_id in further:
            self.positions.move(pair, run_at, run_id)
        return self._finished.issuperset(pairs[:reached])


def last_of_each_pair(rows: Sequence[ClaimedRow]) -> dict[Pair, tuple[int, int]]:
    """Return the last run of each (queue, priority) pair in `rows`, as (run_at, id)."""
    last: dict[Pair, tuple[int, int]] = {}
    for row in rows:
        pair, position = (row.queue, row.priority), (row.run_at, row.id)
        if pair not in last or position > last[pair]:
            last[pair] = position
    return last
