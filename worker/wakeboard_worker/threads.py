"""Threads: how plain functions run. They take rows from one queue; their outcomes come back to the loop in bundles.

A thread cannot be stopped. A handler that does not look at `run.cancelled` and outlives its timeout is abandoned: its
attempt is settled as timed out, and another thread takes its thread's place. When half of the threads are lost that
way the worker claims nothing more, finishes the rest, and ends with an error.
"""

from __future__ import annotations

import asyncio
import threading
import time
from collections import deque
from queue import SimpleQueue
from typing import TYPE_CHECKING, Any

from wakeboard_worker.attempts import Attempt
from wakeboard_worker.logs import log
from wakeboard_worker.outcomes import LOST, TIMED_OUT, timed_out

if TYPE_CHECKING:
    from wakeboard_worker.desk import Desk

PATIENCE_S = 2.0  # between telling a plain handler to stop and abandoning it


class Threads:
    """Runs what waits in the desk's thread lane."""

    def __init__(self, desk: Desk) -> None:
        self._desk = desk
        self._lane = desk.thread_lane
        self._functions = {name: desk.handlers[name].function for name in self._lane.job_types}
        self._work: SimpleQueue[Attempt | None] = SimpleQueue()
        self._ended: deque[tuple[Attempt, Any, BaseException | None]] = deque()
        self._called = False
        self._threads = 0
        self._handed = 0  # attempts that threads have or are about to take
        self._abandoned: set[Attempt] = set()

    @property
    def exhausted(self) -> bool:
        """Half of the threads are lost to handlers that cannot be stopped."""
        return len(self._abandoned) * 2 >= self._lane.width

    def kick(self) -> None:
        """Hands out rows while threads are free, with one each in reserve: short handlers never wait for the loop."""
        while self._lane.waiting and self._handed < 2 * self._lane.width:
            attempt = Attempt(self._lane.waiting.popleft(), self._desk.around)
            attempt.in_thread = True
            self._handed += 1
            self._lane.started += 1
            self._lane.running[attempt.id] = attempt
            if self._threads < min(self._lane.width, self._handed):
                self._add_thread()
            self._work.put(attempt)

    def sweep(self) -> None:
        """Abandons handlers that do not stop."""
        now = time.monotonic()
        for attempt in list(self._lane.running.values()):
            if not attempt.started or attempt.settled or attempt.stopped_because not in (TIMED_OUT, LOST):
                continue
            if now > attempt.started + attempt.timeout_s + PATIENCE_S:
                self._abandon(attempt)

    def stop(self) -> None:
        """Threads end when they are idle; none is waited for."""
        for _ in range(self._threads):
            self._work.put(None)

    def _abandon(self, attempt: Attempt) -> None:
        self._abandoned.add(attempt)
        self._handed -= 1
        del self._lane.running[attempt.id]
        if attempt.stopped_because == TIMED_OUT:
            self._desk.settle(attempt, timed_out(attempt))
        attempt.settled = True
        log.error("a handler of %s does not stop; its thread is abandoned", attempt.job_type, extra=attempt.facts())
        self._add_thread()
        self._desk.room.set()

    def _add_thread(self) -> None:
        self._threads += 1
        threading.Thread(target=self._thread, name=f"handler {self._threads}", daemon=True).start()

    def _thread(self) -> None:
        """In a thread: takes attempts until it is told to end, or was abandoned."""
        while (attempt := self._work.get()) is not None:
            if attempt.stopped_because is not None:  # before it began
                self._end(attempt, None, asyncio.CancelledError())
                continue
            attempt.started = time.monotonic()
            try:
                self._end(attempt, self._functions[attempt.job_type](attempt), None)
            except BaseException as error:  # noqa: BLE001 - a handler may raise anything, and fails alone
                self._end(attempt, None, error)
            if attempt in self._abandoned:
                return  # another thread has taken this one's place

    def _end(self, attempt: Attempt, result: Any, error: BaseException | None) -> None:
        self._ended.append((attempt, result, error))
        if not self._called:  # one call for a bundle; two threads that call at once do no harm
            self._called = True
            self._desk.around.loop.call_soon_threadsafe(self._collect)

    def _collect(self) -> None:
        """In the loop: the outcomes that threads have brought since the last look."""
        self._called = False  # before the look: what comes later calls again
        while self._ended:
            attempt, result, error = self._ended.popleft()
            if attempt.settled:
                continue
            self._handed -= 1
            del self._lane.running[attempt.id]
            if error is None:
                self._desk.succeed(attempt, result)
            else:
                self._desk.fail(attempt, error)
        self.kick()
        self._desk.flush.set()
        self._desk.room.set()
