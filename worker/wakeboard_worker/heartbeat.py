"""The heartbeat: a thread with a connection of its own, so that no handler can stop it.

Every quarter of a lease it renews all leases in hand in one call. Trust is counted from the moment at which the last
answered request was *sent*: when three quarters of a lease have passed since then, this worker must not believe in its
leases any more. The clock is one that goes on while the machine sleeps.
"""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING, Any

from wakeboard.errors import WakeboardError
from wakeboard.store.connection import connect_blocking
from wakeboard.store.leasing import Held, renew
from wakeboard_worker.logs import log

if TYPE_CHECKING:
    from collections.abc import Iterable

    from wakeboard.store.leasing import Attention, Worker
    from wakeboard_worker.desk import Desk

BEATS_PER_LEASE = 4
TRUSTED_PART = 0.75  # of a lease without an answer
BUSY_AGAIN_S = 0.5
AFTER_FAILURE_S = 0.5

_CLOCK = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)


def clock() -> float:
    """Seconds on a clock that does not stop while the machine sleeps."""
    return time.clock_gettime(_CLOCK)


class Heartbeat:
    """Renews the leases on the desk until `stop`; tells the desk what needs attention."""

    def __init__(self, dsn: str, worker: Worker, desk: Desk) -> None:
        self._dsn, self._worker, self._desk = dsn, worker, desk
        self._trusted_until = clock() + worker.lease_s * TRUSTED_PART
        self._end = threading.Event()
        self._thread = threading.Thread(target=self._beat, name="heartbeat", daemon=True)
        self._conn: Any = None
        self._lost = False

    def start(self) -> None:
        """Starts the thread; the worker has just registered."""
        self._thread.start()

    def stop(self) -> None:
        """No more beats. A reply that does not come is not waited for."""
        self._end.set()
        self._thread.join(timeout=1.0)

    def trusted(self) -> bool:
        """Whether this worker may believe in its leases."""
        return clock() < self._trusted_until

    def _beat(self) -> None:
        every = self._worker.lease_s / BEATS_PER_LEASE
        pause, all_due_at = every, 0.0
        busy: set[int] = set()
        while not self._end.wait(pause):
            self._distrust()
            sent = clock()
            ask_all = sent >= all_due_at or not busy
            held = [lease for lease in self._desk.held() if ask_all or lease.id in busy]
            try:
                answers = self._renew(held)
            except (WakeboardError, OSError) as error:
                log.warning("a heartbeat failed: %s", error)
                self._close()
                pause = min(AFTER_FAILURE_S, every)
                self._distrust()
                continue
            busy = {answer.id for answer in answers if answer.answer == "busy"}
            if ask_all:  # a repeat for busy rows alone says nothing about the others
                all_due_at = sent + every
                self._trusted_until, self._lost = sent + self._worker.lease_s * TRUSTED_PART, False
            self._tell(answers)
            pause = min(BUSY_AGAIN_S, every) if busy else every

    def _renew(self, held: list[Held]) -> list[Attention]:
        if self._conn is None:
            self._conn = connect_blocking(self._dsn, name=f"wakeboard heartbeat {self._worker.name}")
        # A server that has gone silent must not hold the heartbeat for longer than the trust lasts.
        watchdog = threading.Timer(self._worker.lease_s / BEATS_PER_LEASE, _cut, [self._conn])
        watchdog.daemon = True
        watchdog.start()
        try:
            return renew(self._conn, self._worker, held)
        finally:
            watchdog.cancel()

    def _tell(self, answers: Iterable[Attention]) -> None:
        needed = [answer for answer in answers if answer.answer != "busy"]
        if needed:
            self._desk.around.loop.call_soon_threadsafe(self._desk.attend, needed)

    def _distrust(self) -> None:
        if not self.trusted() and not self._lost:
            self._lost = True
            self._desk.around.loop.call_soon_threadsafe(self._desk.lose_everything)

    def _close(self) -> None:
        if self._conn is not None:
            _cut(self._conn)
            self._conn = None


def _cut(conn: Any) -> None:
    from wakeboard.store.connection import cut

    cut(conn)
