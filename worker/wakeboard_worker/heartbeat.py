"""The heartbeat: a thread with a connection of its own, so that no handler can stop it.

Every quarter of a lease it renews all leases in hand in one call. Trust is counted from the moment at which the last
answered request was *sent*: when three quarters of a lease have passed since then, this worker must not believe in its
leases any more. The clock is one that goes on while the machine sleeps.

A worker whose heartbeats have failed gives up its leases, and releases them when it reaches the database again. Until
then they count as crashed (see docs/decisions/0020-what-counts-as-a-crash.md). If the heartbeat thread did not run at
all, for example because of a handler, the worker releases nothing, and the lapsed leases remain crashes.

It also watches the event loop. One that has not turned for the whole timeout of the handler that runs in it, and the
grace after that, will not turn again: the process ends, so that what it holds goes to workers that work.
"""

from __future__ import annotations

import os
import threading
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from wakeboard.clock import boottime
from wakeboard.errors import DatabaseUnavailable
from wakeboard.store.connection import connect_blocking, is_broken
from wakeboard.store.worker_api import Renewal, renew
from wakeboard_worker.logs import log, outages
from wakeboard_worker.watchdog import Watchdog

if TYPE_CHECKING:
    from collections.abc import Iterable

    from wakeboard.store.worker_api import Attention, Worker
    from wakeboard_worker.in_flight import InFlightBuffer

BEATS_PER_LEASE = 4
TRUSTED_PART = 0.75  # of a lease without an answer
BUSY_AGAIN_S = 0.5
AFTER_FAILURE_S = 0.5
LOOP_GRACE_S = 15.0  # for the event loop, beyond the longest timeout of what runs in it


class Heartbeat:
    """Renews the leases on the desk until `stop`; tells the desk what needs attention."""

    def __init__(self, dsn: str, worker: Worker, in_flight: InFlightBuffer) -> None:
        self._dsn, self._worker, self._desk = dsn, worker, in_flight
        self._trusted_until = boottime() + worker.lease_s * TRUSTED_PART
        self._end = threading.Event()
        self._thread = threading.Thread(target=self._beat, name="heartbeat", daemon=True)
        self._watchdog = Watchdog()
        self._conn: Any = None
        self._lost = self._tried = False  # leases were given up; a heartbeat failed since the last answered one
        self.forgotten = 0  # beats whose answer was that the board does not know this worker
        self._every = worker.lease_s / BEATS_PER_LEASE
        self._busy: set[tuple[int, int]] = set()  # leases whose row another transaction had locked
        self._all_due_at = 0.0
        self._sweeps, self._looked_at, self._still_s = 0, boottime(), 0.0  # of the event loop

    def start(self) -> None:
        """Starts the thread; the worker has just registered."""
        self._watchdog.start()
        self._thread.start()

    def stop(self) -> None:
        """No more beats. A reply that does not come is not waited for."""
        self._end.set()
        self._thread.join(timeout=1.0)

    def trusted(self) -> bool:
        """Whether this worker may believe in its leases."""
        return boottime() < self._trusted_until

    def _beat(self) -> None:
        pause = self._every
        while not self._end.wait(pause):
            try:
                self._watch_loop()
                pause = self._renew_what_is_due()
                outages.recovered("heartbeat")
            except Exception as error:  # noqa: BLE001 - whatever it is (no memory, no descriptor left), the heart goes on
                pause = min(AFTER_FAILURE_S, self._every)
                with suppress(Exception):
                    self._tried = self._tried or isinstance(error, DatabaseUnavailable)
                    if isinstance(error, DatabaseUnavailable):
                        outages.lost("heartbeat", error)
                    else:
                        log.warning("a heartbeat failed: %s", error)
                    self._close()
                    self._distrust()
        self._close()

    def _renew_what_is_due(self) -> float:
        """One beat; the seconds until the next one."""
        self._distrust()
        sent = boottime()
        ask_all = sent >= self._all_due_at or not self._busy
        # What was given up must lapse when it would have: the event loop may not have dropped it yet.
        held = self._desk.on_its_way() if self._lost else self._desk.held()
        answers = self._renew([lease for lease in held if ask_all or lease[:2] in self._busy])
        self.forgotten += any(answer.answer == "unregistered" for answer in answers)
        self._busy = {(answer.id, answer.epoch) for answer in answers if answer.answer == "busy"}
        if ask_all:  # a repeat for busy rows alone says nothing about the others
            self._all_due_at = sent + self._every
            self._trusted_until = sent + self._worker.lease_s * TRUSTED_PART
            if self._desk.given_up:
                self._desk.context.loop.call_soon_threadsafe(self._desk.tell_given_up)
            self._lost = self._tried = False
        self._tell(answers)
        return min(BUSY_AGAIN_S, self._every) if self._busy else self._every

    def _watch_loop(self) -> None:
        """Ends the process when the event loop is blocked for good: what it holds could never be given back."""
        now, sweeps, allowed_s = boottime(), self._desk.sweeps, self._desk.longest_timeout_s() + LOOP_GRACE_S
        turned = sweeps != self._sweeps
        # A process that was frozen wakes up in all its threads: what it slept through counts as one beat.
        self._still_s = 0.0 if turned else self._still_s + min(now - self._looked_at, 2 * self._every)
        self._sweeps, self._looked_at = sweeps, now
        if self._still_s > allowed_s:
            # Whoever blocks the loop may hold the lock of the log.
            os.write(2, f"wakeboard worker: a handler has blocked the event loop for {allowed_s:g} s\n".encode())
            os._exit(1)

    def _renew(self, held: list[Renewal]) -> list[Attention]:
        if self._conn is not None and is_broken(self._conn):
            self._close()
        if self._conn is None:
            self._conn = connect_blocking(self._dsn, name=f"wakeboard heartbeat {self._worker.name}")
        # A server that has gone silent must not hold the heartbeat for longer than the trust lasts.
        with self._watchdog.waiting(self._conn, self._every):
            return renew(self._conn, self._worker, held)

    def _tell(self, answers: Iterable[Attention]) -> None:
        needed = [answer for answer in answers if answer.answer in ("cancel", "refused")]
        if needed:
            self._desk.context.loop.call_soon_threadsafe(self._desk.attend, needed)

    def _distrust(self) -> None:
        if not self.trusted() and not self._lost:
            self._lost = True
            self._desk.context.loop.call_soon_threadsafe(self._desk.lose_everything, self._tried)

    def _close(self) -> None:
        if self._conn is not None:
            _cut(self._conn)
            self._conn.close()
            self._conn = None


def _cut(conn: Any) -> None:
    from wakeboard.store.connection import abort

    abort(conn)
