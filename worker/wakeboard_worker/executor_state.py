"""What one executor of a worker has: rows that wait, attempts that run, and how fast they start and end."""

from __future__ import annotations

from collections import deque
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from wakeboard.engine.run import LEASE_LOST

if TYPE_CHECKING:
    from collections.abc import Sequence

    from wakeboard.engine.run import ClaimedRow
    from wakeboard_worker.attempt import Attempt

MAX_PREFETCH = 4_000  # rows that may wait for an executor, if they start soon
MEAN_WEIGHT = 16  # each new value counts for one sixteenth of the mean
STARTED_SOON = 0.1  # the attempts that start within 50 ms, as a share of those that started in the last 500 ms


@dataclass(slots=True)
class ExecutorState:
    """The rows and attempts of one executor (the event loop or the threads), and how fast they start and end."""

    concurrency: int  # slots: attempts at once
    job_types: tuple[str, ...]
    waiting: deque[ClaimedRow] = field(default_factory=deque["ClaimedRow"])
    running: dict[int, Attempt] = field(default_factory=dict[int, "Attempt"])
    abandoned: set[Attempt] = field(default_factory=set["Attempt"])  # their handlers still run
    starting: Attempt | None = None  # its first step runs in the event loop, and may block it
    mean_duration_s: float = 1.0  # of recent attempts in `running`
    started: int = 0
    added: int = 0
    prefetch_limit: int = MAX_PREFETCH
    _started_before: int = 0
    _added_before: int = 0

    @property
    def free_slots(self) -> int:
        """Slots without an attempt."""
        return self.concurrency - len(self.running)

    @property
    def unassigned_slots(self) -> int:
        """Slots without an attempt and without a waiting row."""
        return self.free_slots - len(self.waiting)

    @property
    def exhausted(self) -> bool:
        """Whether abandoned handlers, which do not stop, occupy half of the slots."""
        return len(self.abandoned) * 2 >= self.concurrency

    @property
    def ended(self) -> int:
        """The number of attempts that have ended."""
        return self.started - len(self.running)

    @property
    def full_rate(self) -> float:
        """Attempts that end per second while all slots are busy, estimated from their mean duration."""
        return self.concurrency / max(self.mean_duration_s, 1e-6)

    def add_rows(self, rows: Sequence[ClaimedRow], *, first: bool = False) -> None:
        """Append claimed rows, or put them `first`, in their order."""
        self.added += len(rows)
        if first:
            self.waiting.extendleft(reversed(rows))
        else:
            self.waiting.extend(rows)

    def add_running(self, attempt: Attempt) -> None:
        """Add an attempt whose handler runs, and stop an older attempt of the same run, whose lease must be lost."""
        older = self.running.get(attempt.id)
        if older is not None:
            older.stop(LEASE_LOST)
        self.running[attempt.id] = attempt

    def stop_older(self, ids: set[int]) -> None:
        """Stop the attempts of these runs, which have a newer lease."""
        for run in self.running.keys() & ids:
            self.running[run].stop(LEASE_LOST)

    def remove(self, attempt: Attempt, at: float) -> None:
        """Remove an attempt whose handler ended at `at` (time.monotonic())."""
        if attempt.started and not attempt.abandoned:
            self.mean_duration_s += (at - attempt.started - self.mean_duration_s) / MEAN_WEIGHT
        if self.running.get(attempt.id) is attempt:
            del self.running[attempt.id]
        self.abandoned.discard(attempt)

    def next_row(self) -> ClaimedRow | None:
        """Remove and return the first waiting row. None: the heartbeat has taken it, because the loop was blocked."""
        try:
            return self.waiting.popleft()
        except IndexError:
            return None

    def take_waiting(self) -> list[ClaimedRow]:
        """Remove and return all waiting rows, except those that another thread takes at the same time."""
        rows: list[ClaimedRow] = []
        with suppress(IndexError):
            while True:
                rows.append(self.waiting.popleft())
        return rows

    def pop_excess(self) -> list[ClaimedRow]:
        """Remove and return rows that have waited since the last call and will not start soon.

        Lowers the prefetch limit if there are any, and raises it if no row waits.
        """
        started, added = self.started - self._started_before, self.added - self._added_before
        self._started_before, self._added_before = self.started, self.added
        if len(self.waiting) <= added:
            if not self.waiting:
                self.prefetch_limit = min(MAX_PREFETCH, 4 * self.prefetch_limit)
            return []
        soon = max(0, int(started * STARTED_SOON))  # attempts that were released unstarted reduce `started`
        self.prefetch_limit = max(1, soon)
        excess: list[ClaimedRow] = []
        with suppress(IndexError):
            while len(self.waiting) > soon:
                excess.append(self.waiting.pop())
        return excess
