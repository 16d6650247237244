"""Where a lane looks for due runs, and when it looks again from the start.

A claim goes on behind the last row that the one before it looked at: past index entries that are dead, and past runs in
flight. What comes to lie before the mark meanwhile (late commits, retries, releases) is found by the next walk from the
start: after each walk that reached the end, and otherwise every two seconds or twenty times as long as a walk takes,
whichever is longer, so that walking costs a twentieth of the time.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from wakeboard.store.leasing import Marks, text_array

if TYPE_CHECKING:
    from collections.abc import Sequence

    from wakeboard.store.leasing import ClaimedRow, Leasing
    from wakeboard_worker.desk import Lane

BETWEEN_WALKS_S = 2.0
WALKS_PART = 20  # walking takes 1/20 of the time
QUEUE, PRIORITY, RUN_AT, ID = 9, 10, 8, 0  # columns of a claimed row


class Walk:
    """The walk of one lane over the due runs of its types."""

    def __init__(self, lane: Lane, queues: Sequence[str]) -> None:
        self.lane = lane
        self.job_types = text_array(lane.job_types)
        self._marks = Marks(queues)
        self._began = self._next = 0.0
        self._at_start = True
        self.found_nothing = False  # the last walk went from the start to the end, and nothing was due

    def rewind(self) -> None:
        """The next claim begins at the start."""
        self._marks.rewind()
        self._at_start = True

    async def claim(self, leasing: Leasing, count: int) -> list[ClaimedRow]:
        """Up to `count` due runs; none: there are none behind the mark."""
        now = time.monotonic()
        if now >= self._next and not self._at_start:
            self.rewind()
        if self._at_start:
            self._began, self._at_start, self.found_nothing = now, False, True
        rows = await leasing.claim(self._marks, self.job_types, count)
        while not rows and await self._look_further(leasing):
            rows = await leasing.claim(self._marks, self.job_types, count)
        self.found_nothing = self.found_nothing and not rows
        took = time.monotonic() - self._began
        if len(rows) >= count:
            self._move(rows)
            self._next = max(self._next, self._began + max(BETWEEN_WALKS_S, WALKS_PART * took))
        else:
            self._next = time.monotonic() + WALKS_PART * took
        self._marks.rotate()
        return rows

    async def _look_further(self, leasing: Leasing) -> bool:
        further = await leasing.look_ahead(self._marks, self._marks.pairs)
        for pair, run_at, run_id in further:
            self._marks.move(pair, run_at, run_id)
        return bool(further)

    def _move(self, rows: Sequence[ClaimedRow]) -> None:
        last: dict[tuple[str, int], tuple[int, int]] = {}
        for row in rows:
            pair, place = (row[QUEUE], row[PRIORITY]), (row[RUN_AT], row[ID])
            if pair not in last or place > last[pair]:
                last[pair] = place
        for pair, (run_at, run_id) in last.items():
            self._marks.move(pair, run_at, run_id)
