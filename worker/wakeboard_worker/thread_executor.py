"""Threads: how plain functions run. They take attempts from one deque; their outcomes come back to the loop in bundles.

Short handlers would spend their time on waking the loop and being woken by it, one by one. So threads find a few
milliseconds of work in reserve, and while outcomes keep coming the loop looks for them by itself.

A thread cannot be stopped. A handler that does not look at `run.cancelled` and outlives its timeout is abandoned (see
in_flight.py), and another thread takes its thread's place.
"""

from __future__ import annotations

import asyncio
import contextvars
import threading
import time
from collections import deque
from contextlib import suppress
from queue import SimpleQueue
from typing import TYPE_CHECKING, Any, NamedTuple

from wakeboard_worker.attempt import ThreadAttempt, current_attempt

if TYPE_CHECKING:
    from collections.abc import Callable

    from wakeboard_worker.attempt import Attempt
    from wakeboard_worker.in_flight import InFlightBuffer

RESERVE_S = 0.005  # of work that threads find without the loop
LARGEST_RESERVE = 250
COLLECT_EVERY_S = 0.001  # while outcomes keep coming
WORK, END = "work", "end"


def _call(function: Callable[[Attempt], Any], attempt: Attempt) -> Any:
    current_attempt.set(attempt)
    return function(attempt)


class _End(NamedTuple):
    """How an attempt ended, and when. `stays`: its thread goes on."""

    attempt: Attempt
    at: float  # time.monotonic()
    result: Any
    error: BaseException | None
    stays: bool


class ThreadExecutor:
    """Runs what waits in the desk's thread lane."""

    def __init__(self, in_flight: InFlightBuffer) -> None:
        self._desk = in_flight
        self._lane = in_flight.thread_lane
        self._functions = {name: in_flight.handlers[name].function for name in self._lane.job_types}
        self._work: deque[Attempt] = deque()
        self._bell: SimpleQueue[str] = SimpleQueue()
        self._ended: deque[_End] = deque()
        self._surplus: deque[None] = deque()  # one for each thread that is to end after what it runs
        self._collecting = False  # the loop looks for outcomes without being called
        self._next_look: asyncio.TimerHandle | None = None
        self._threads = 0
        self._handed = 0  # attempts that threads have or are about to take
        self._replaced: set[Attempt] = set()  # abandoned ones whose thread has a successor
        self._in_reserve: set[Attempt] = set()  # at the last sweep

    @property
    def exhausted(self) -> bool:
        """Half of the places of some lane are lost to handlers that cannot be stopped."""
        return any(executor.exhausted for executor in self._desk.executors)

    def kick(self) -> None:
        """Hands out rows while threads are free, with some in reserve: short handlers never wait for the loop."""
        executor = self._lane
        reserve = max(executor.width, min(LARGEST_RESERVE, int(RESERVE_S * executor.pace)))
        while executor.waiting and self._handed < executor.width + reserve:
            attempt = ThreadAttempt(executor.waiting.popleft(), self._desk.context)
            self._handed += 1
            executor.started += 1
            executor.running[attempt.id] = attempt
            self._work.append(attempt)
        for _ in range(min(len(self._work), executor.width) - self._bell.qsize()):
            self._bell.put(WORK)
        while self._threads < min(executor.width, self._handed):
            self._add_thread()

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
            self.give_back_reserve()

    def give_back_reserve(self) -> None:
        """What no thread has taken goes back to where others find it."""
        while attempt := self._next():
            self._handed -= 1
            self._desk.give_back(self._lane, attempt)

    def stop(self) -> None:
        """Threads end when they are idle; none is waited for."""
        for _ in range(self._threads):
            self._bell.put(END)

    def _add_thread(self) -> None:
        self._threads += 1
        threading.Thread(target=self._thread, name=f"handler {self._threads}", daemon=True).start()

    def _next(self) -> Attempt | None:
        try:
            return self._work.popleft()
        except IndexError:
            return None

    # -- in a thread ---------------------------------------------------------------------------------------------------

    def _thread(self) -> None:
        """Takes attempts until it is told to end, or was abandoned."""
        while True:
            while attempt := self._next():
                if not self._run(attempt) or self._is_surplus():
                    return  # another thread has taken this one's place
            if self._ended:  # nothing is left to do until the loop has seen these
                self._call_loop()
            if self._bell.get() == END:
                return

    def _is_surplus(self) -> bool:
        if not self._surplus:
            return False
        try:
            self._surplus.pop()
        except IndexError:  # another thread was faster
            return False
        return True

    def _run(self, attempt: Attempt) -> bool:
        """False: it was abandoned."""
        if attempt.stopped_because is not None:  # before it began
            return self._end(attempt, None, asyncio.CancelledError())
        attempt.started = time.monotonic()
        try:
            in_context = contextvars.copy_context().run
            result = in_context(_call, self._functions[attempt.job_type], attempt)
        except BaseException as error:  # noqa: BLE001 - a handler may raise anything, and fails alone
            return self._end(attempt, None, error)
        return self._end(attempt, result, None)

    def _end(self, attempt: Attempt, result: Any, error: BaseException | None) -> bool:
        stays = not attempt.abandoned
        self._ended.append(_End(attempt, time.monotonic(), result, error, stays))
        if not self._collecting:  # two threads that call at once do no harm
            self._collecting = True
            self._call_loop()
        return stays

    def _call_loop(self) -> None:
        with suppress(RuntimeError):  # the loop is closed: nobody waits for this any more
            self._desk.context.loop.call_soon_threadsafe(self._collect)

    # -- in the loop ---------------------------------------------------------------------------------------------------

    def _collect(self) -> None:
        """Takes the outcomes that threads have brought, and looks again soon: nobody need call meanwhile."""
        self._collecting = True
        if self._next_look is None:
            self._next_look = self._desk.context.loop.call_later(COLLECT_EVERY_S, self._look)
        while self._ended:
            end = self._ended.popleft()
            self._lane.leave(end.attempt, end.at)
            if end.attempt.abandoned:
                if end.stays:  # its thread was replaced just after it had ended: one too many
                    self._surplus.append(None)
                continue
            self._handed -= 1
            if end.error is None:
                self._desk.succeed(end.attempt, end.result)
            else:
                self._desk.fail(end.attempt, end.error)
        self.kick()
        self._desk.flush.set()
        self._desk.room.set()

    def _look(self) -> None:
        self._next_look = None
        self._collecting = False  # before the look: what comes later calls
        if self._ended:
            self._collect()
