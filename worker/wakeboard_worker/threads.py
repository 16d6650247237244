"""Threads: how plain functions run. They take rows from one queue; their outcomes come back to the loop in bundles.

A thread cannot be stopped. A handler that does not look at `run.cancelled` and outlives its timeout is abandoned (see
desk.py), and another thread takes its thread's place.
"""

from __future__ import annotations

import asyncio
import contextvars
import threading
import time
from collections import deque
from contextlib import suppress
from queue import Empty, SimpleQueue
from typing import TYPE_CHECKING, Any

from wakeboard_worker.attempts import Attempt, current_attempt

if TYPE_CHECKING:
    from collections.abc import Callable

    from wakeboard_worker.desk import Desk


def _call(function: Callable[[Attempt], Any], attempt: Attempt) -> Any:
    current_attempt.set(attempt)
    return function(attempt)


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
        self._replaced: set[Attempt] = set()  # abandoned ones whose thread has a successor
        self._in_reserve: set[Attempt] = set()  # at the last sweep

    @property
    def exhausted(self) -> bool:
        """Half of the places of some lane are lost to handlers that cannot be stopped."""
        return any(lane.exhausted for lane in self._desk.lanes)

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
        """Puts threads in the place of abandoned ones, and gives back what no thread takes out of the reserve."""
        for attempt in self._lane.abandoned - self._replaced:
            self._handed -= 1
            self._threads -= 1
            self._replaced.add(attempt)
        self._replaced &= self._lane.abandoned
        while self._threads < min(self._lane.width, self._handed):
            self._add_thread()
        before, self._in_reserve = self._in_reserve, {a for a in self._lane.running.values() if not a.started}
        if before & self._in_reserve:
            self._give_back_reserve()

    def _give_back_reserve(self) -> None:
        with suppress(Empty):
            while (attempt := self._work.get_nowait()) is not None:
                self._handed -= 1
                self._lane.leave(attempt)
                self._desk.give_back(attempt)

    def stop(self) -> None:
        """Threads end when they are idle; none is waited for."""
        for _ in range(self._threads):
            self._work.put(None)

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
                in_context = contextvars.copy_context().run
                self._end(attempt, in_context(_call, self._functions[attempt.job_type], attempt), None)
            except BaseException as error:  # noqa: BLE001 - a handler may raise anything, and fails alone
                self._end(attempt, None, error)
            if attempt.abandoned:
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
            self._lane.leave(attempt)
            if attempt.abandoned:
                continue
            self._handed -= 1
            if error is None:
                self._desk.succeed(attempt, result)
            else:
                self._desk.fail(attempt, error)
        self.kick()
        self._desk.flush.set()
        self._desk.room.set()
