"""Renews the worker's leases from a thread with its own connection, so that no handler can delay it.

Every quarter of a lease it renews all leases in one call. Between these it renews those whose handlers have reported
progress, so that users see it within a second. The leases count as valid for three quarters of a lease (the
lease validity window) from the moment at which the last answered renewal was *sent*. After that the worker drops them:
other workers may have the runs. The clock includes the time that the machine is suspended.

If renewals failed or were not answered, the worker releases the dropped leases once the database answers again. Until
then they count as crashed (docs/decisions/0017-what-counts-as-a-crash.md). If the thread itself was blocked, for
example by a handler, nothing is released, and the expired leases count as crashes. A renewal that meets the locks of an
earlier one, whose commit hangs, records nothing and was not answered: `renew` raises Locked.

The thread also watches the event loop. If the loop is blocked for longer than the longest timeout of the handlers in it
and a grace period, the process exits, so that other workers can claim its runs. Before that, as soon as the loop is
noticed to be blocked, the thread releases the runs that have not started: idle workers can run them.
"""

from __future__ import annotations

import os
import threading
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from wakeboard.engine.worker_api import Renewal, release, renew
from wakeboard.errors import DatabaseUnavailable, Locked
from wakeboard.process.clock import boottime
from wakeboard.store.connection import abort, cancel_and_abort, connect_blocking, is_broken
from wakeboard.store.reply_limit import CANCEL_S, ReplyLimit
from wakeboard_worker.logs import log, outages

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable

    from wakeboard.engine.worker_api import Attention, Worker
    from wakeboard_worker.in_flight import InFlightBuffer

RENEWALS_PER_LEASE = 4
VALID_SHARE = 0.75  # the lease validity window, as a share of a lease
PROGRESS_S = 0.5  # before a renewal that is made only because of progress
PROGRESS_SHARE = 0.05  # of the time, which such renewals take at most
BUSY_RETRY_S = 0.5  # before leases whose row was locked are renewed again
FAILURE_RETRY_S = 0.5  # or a sixth of the interval between renewals, if that is longer
STOP_S = 1.0  # how long the end of the worker waits for the reply to a renewal
LOOP_BLOCKED_S = 1.0  # without a check of the event loop, which makes two a second
LOOP_GRACE_S = 15.0  # how much longer than its handlers' longest timeout the event loop may be blocked


class Heartbeat:
    """Renews the leases in the in-flight buffer until `stop`, and passes the store's answers to the buffer."""

    def __init__(self, dsn: str, worker: Worker, in_flight: InFlightBuffer) -> None:
        self._dsn, self._worker, self._in_flight = dsn, worker, in_flight
        self._valid_until = boottime() + worker.lease_s * VALID_SHARE
        self._stopped = threading.Event()
        self._progressed = threading.Event()  # or stopped
        self._progress_pause_s = PROGRESS_S
        in_flight.context.progressed = self._progressed.set
        self._interval_s = worker.lease_s / RENEWALS_PER_LEASE
        self._thread = threading.Thread(target=self._run, name="heartbeat", daemon=True)
        self._reply_limit = ReplyLimit(self._interval_s)  # within the validity window
        self._conn: Any = None
        self._dropped = False  # the leases were dropped since the last answered renewal
        self._failed = False  # a renewal failed, or has not been answered yet, since the last answered one
        self.unregistered = 0  # renewals that found this worker unregistered
        self._busy: set[tuple[int, int]] = set()  # leases (id, epoch) whose row was locked
        self._all_due_at = 0.0
        self._loop_checks: int = 0  # `in_flight.checks` when the event loop was last checked
        self._loop_checked_at, self._loop_blocked_s = boottime(), 0.0
        self._loop_timeout_s = 0.0  # the longest timeout of the handlers that ran since the event loop is blocked

    def start(self) -> None:
        """Start the thread. Call it when the worker has just registered."""
        self._thread.start()

    def stop(self) -> None:
        """Stop renewing. Waits for an outstanding reply for a second, and then cancels the statement."""
        self._stopped.set()
        self._progressed.set()
        self._thread.join(timeout=STOP_S)
        conn = self._conn
        if self._thread.is_alive() and conn is not None:  # the process may end before the reply comes
            cancel_and_abort(conn).join(timeout=CANCEL_S)

    def leases_valid(self) -> bool:
        """Whether the worker's leases are in their validity window."""
        return boottime() < self._valid_until

    def drop_invalid_leases(self) -> None:
        """Drop the leases if they are not valid any more. The event loop calls it too, while this thread connects."""
        if not self.leases_valid() and not self._dropped:
            self._dropped = True
            self._call_loop(self._in_flight.drop_all_leases, self._failed)

    def _run(self) -> None:
        pause_s = self._interval_s
        while not self._waits(pause_s):
            try:
                self._check_event_loop()
                self._release_unstarted()
                pause_s = self._renew_due()
                outages.recovered("heartbeat")
            except Exception as error:  # noqa: BLE001 - continues even if memory or descriptors run out
                pause_s = min(max(FAILURE_RETRY_S, self._interval_s / 6), self._interval_s)
                self._all_due_at = 0.0
                with suppress(Exception):
                    if isinstance(error, DatabaseUnavailable):
                        outages.lost("heartbeat", error)
                    else:
                        log.warning("a heartbeat failed: %s", error)
                    if not isinstance(error, Locked):
                        self._close()
                    self.drop_invalid_leases()
        self._close()

    def _waits(self, pause_s: float) -> bool:
        """Wait, or until an attempt reports progress. Returns whether the thread has to stop."""
        if self._stopped.wait(min(pause_s, self._progress_pause_s)):
            return True
        self._progressed.wait(max(0.0, pause_s - self._progress_pause_s))
        self._progressed.clear()
        return self._stopped.is_set()

    def _renew_due(self) -> float:
        """Renew the leases that are due, and those with progress. Returns the seconds until the next call."""
        self.drop_invalid_leases()
        sent = boottime()
        renews_all = sent >= self._all_due_at
        # Dropped leases are not renewed, even if the event loop has not processed the drop yet.
        leases = self._in_flight.leases_in_report() if self._dropped else self._in_flight.leases()
        due = [lease for lease in leases if renews_all or lease.reported or lease[:2] in self._busy]
        were_busy = self._busy
        answers = self._renew(due) if due or renews_all else []
        self._progress_pause_s = max(PROGRESS_S, (boottime() - sent) / PROGRESS_SHARE)
        self.unregistered += any(answer.answer == "unregistered" for answer in answers)
        self._busy = {(answer.id, answer.epoch) for answer in answers if answer.answer == "busy"}
        if due:
            self._in_flight.note_sent(lease for lease in due if lease[:2] not in self._busy)
        if renews_all:  # progress and retries for busy rows do not renew the other leases
            self._all_due_at = sent + self._interval_s
            self._valid_until = sent + self._worker.lease_s * VALID_SHARE
            if self._in_flight.deferred:
                self._call_loop(self._in_flight.flush_deferred)
            self._dropped = self._failed = False
        self._pass_on(answers, were_busy)
        pause_s = max(0.0, self._all_due_at - boottime())
        return min(BUSY_RETRY_S, pause_s) if self._busy else pause_s

    def _check_event_loop(self) -> None:
        """Exit if the event loop is blocked for too long. Otherwise this thread would renew its leases for ever."""
        now, checks = boottime(), self._in_flight.checks
        # After a suspend, all threads resume together, so the pause counts as one interval.
        waited_s = min(now - self._loop_checked_at, 2 * self._interval_s)
        if checks == self._loop_checks:
            self._loop_blocked_s += waited_s
        else:
            self._loop_blocked_s = self._loop_timeout_s = 0.0
        self._loop_checks, self._loop_checked_at = checks, now
        # The handler that blocked the loop may have just ended, before the next check.
        self._loop_timeout_s = max(self._loop_timeout_s, self._in_flight.longest_timeout_s())
        allowed_s = self._loop_timeout_s + LOOP_GRACE_S
        if self._loop_blocked_s > allowed_s:
            # Not through logging: the handler that blocks the loop may have locked it.
            os.write(2, f"wakeboard worker: a handler has blocked the event loop for {allowed_s:g} s\n".encode())
            os._exit(1)

    def _release_unstarted(self) -> None:
        """Release what waits behind a handler that blocks the event loop."""
        if self._loop_blocked_s < max(LOOP_BLOCKED_S, self._interval_s) or self._conn is None:
            return
        refused = releases = self._in_flight.take_waiting()
        if not releases:
            return
        try:
            not_accepted = release(self._conn, self._worker, releases)
            refused = [each for each in releases if each.id in not_accepted]
        finally:
            self._call_loop(self._in_flight.released_while_blocked, len(releases), refused)

    def _renew(self, leases: list[Renewal]) -> list[Attention]:
        failed, self._failed = self._failed, True
        if self._conn is not None and is_broken(self._conn):
            self._close()
        if self._conn is None:
            name = f"wakeboard heartbeat {self._worker.name}"
            self._conn = connect_blocking(self._dsn, name=name, reply_limit=self._reply_limit)
        answers = renew(self._conn, self._worker, leases)
        self._failed = failed
        return answers

    def _pass_on(self, answers: Iterable[Attention], were_busy: Collection[tuple[int, int]]) -> None:
        """Pass on the answers that stop attempts. `were_busy`: leases whose row was locked at the previous renewal."""
        relevant = [answer for answer in answers if answer.answer in ("cancel", "refused")]
        if relevant:
            self._call_loop(self._in_flight.apply_answers, relevant, were_busy)

    def _call_loop(self, function: Any, *args: Any) -> None:
        self._in_flight.context.loop.call_soon_threadsafe(function, *args)

    def _close(self) -> None:
        if self._conn is not None:
            abort(self._conn)
            self._conn.close()
            self._conn = None
