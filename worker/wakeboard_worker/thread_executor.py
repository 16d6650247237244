"""Runs plain functions in threads. They take attempts from a deque, and pass outcomes to the event loop in batches.

For short handlers, the switches between a thread and the loop would cost more than the work. So the deque holds a few
milliseconds of work in advance (the prefetch), and while outcomes keep arriving, the loop polls for them.

A thread cannot be stopped. A handler that ignores `run.cancelled` and exceeds its timeout is abandoned (in_flight.py),
and another thread takes the place of its thread.
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

PREFETCH_S = 0.005  # of work in the deque
MAX_PREFETCH = 250  # attempts in the deque
POLL_EVERY_S = 0.001  # while outcomes keep arriving
WORK, END = "work", "end"


def _call(function: Callable[[Attempt], Any], attempt: Attempt) -> Any:
    current_attempt.set(attempt)
    return function(attempt)


class _Ended(NamedTuple):
    """The end of an attempt. `thread_continues`: its thread takes further attempts."""

    attempt: Attempt
    at: float  # time.monotonic()
    result: Any
    error: BaseException | None
    thread_continues: bool


class ThreadExecutor:
    """Up to `concurrency` threads, which run the waiting rows of the in-flight buffer."""

    def __init__(self, in_flight: InFlightBuffer) -> None:
        self._in_flight = in_flight
        self._state = in_flight.threads
        self._functions = {name: in_flight.handlers[name].function for name in self._state.job_types}
        self._work: deque[Attempt] = deque()
        self._signals: SimpleQueue[str] = SimpleQueue()
        self._ended: deque[_Ended] = deque()
        self._surplus: deque[None] = deque()  # one item for each thread that has to end after its attempt
        self._polling = False  # the loop polls for outcomes, so threads need not call it
        self._next_poll: asyncio.TimerHandle | None = None
        self._threads = 0
        self._handed_out = 0  # attempts in the deque or in a thread
        self._replaced: set[Attempt] = set()  # abandoned attempts whose thread has been replaced
        self._not_started: set[Attempt] = set()  # at the last check

    @property
    def exhausted(self) -> bool:
        """Whether abandoned handlers occupy half of the slots of an executor."""
        return any(executor.exhausted for executor in self._in_flight.executors)

    def start_waiting(self) -> None:
        """Hand out waiting rows to free threads, and a prefetch, so that short handlers do not wait for the loop."""
        executor = self._state
        prefetch = max(executor.concurrency, min(MAX_PREFETCH, int(PREFETCH_S * executor.full_rate)))
        while executor.waiting and self._handed_out < executor.concurrency + prefetch:
            row = executor.next_row()
            if row is None:
                break
            attempt = ThreadAttempt(row, self._in_flight.context)
            self._handed_out += 1
            executor.started += 1
            executor.add_running(attempt)
            self._work.append(attempt)
        for _ in range(min(len(self._work), executor.concurrency) - self._signals.qsize()):
            self._signals.put(WORK)
        while self._threads < min(executor.concurrency, self._handed_out):
            self._add_thread()

    def check(self) -> None:
        """Replace the threads of abandoned attempts. Release prefetched attempts that wait since the last check."""
        for attempt in self._state.abandoned - self._replaced:
            self._handed_out -= 1
            self._threads -= 1
            self._replaced.add(attempt)
        self._replaced &= self._state.abandoned
        while self._threads < min(self._state.concurrency, self._handed_out):
            self._add_thread()
        before, self._not_started = self._not_started, {a for a in self._state.running.values() if not a.started}
        if before & self._not_started:
            self.release_prefetched()

    def release_prefetched(self) -> None:
        """Release the attempts that no thread has taken, so that other workers can claim their runs."""
        while attempt := self._next():
            self._handed_out -= 1
            self._in_flight.release_unstarted(self._state, attempt)

    def stop(self) -> None:
        """End the threads when they are idle. Does not wait for them."""
        for _ in range(self._threads):
            self._signals.put(END)

    def _add_thread(self) -> None:
        self._threads += 1
        threading.Thread(target=self._run_thread, name=f"handler {self._threads}", daemon=True).start()

    def _next(self) -> Attempt | None:
        try:
            return self._work.popleft()
        except IndexError:
            return None

    # -- in a thread ---------------------------------------------------------------------------------------------------

    def _run_thread(self) -> None:
        """Take attempts until `stop`, or until another thread has replaced this one."""
        while True:
            while attempt := self._next():
                if not self._run(attempt) or self._is_surplus():
                    return
            if self._ended:  # the loop adds work only when it has taken these
                self._call_loop()
            if self._signals.get() == END:
                return

    def _is_surplus(self) -> bool:
        if not self._surplus:
            return False
        try:
            self._surplus.pop()
        except IndexError:  # another thread has taken it
            return False
        return True

    def _run(self, attempt: Attempt) -> bool:
        """Run one attempt. Returns False if it was abandoned meanwhile."""
        if attempt.stopped_because is not None:  # before it started
            return self._end(attempt, None, asyncio.CancelledError())
        attempt.started = time.monotonic()
        try:
            in_context = contextvars.copy_context().run
            result = in_context(_call, self._functions[attempt.job_type], attempt)
        except BaseException as error:  # noqa: BLE001 - any error of a handler fails its own attempt only
            return self._end(attempt, None, error)
        return self._end(attempt, result, None)

    def _end(self, attempt: Attempt, result: Any, error: BaseException | None) -> bool:
        thread_continues = not attempt.abandoned
        self._ended.append(_Ended(attempt, time.monotonic(), result, error, thread_continues))
        if not self._polling:  # calls by two threads at once are harmless
            self._polling = True
            self._call_loop()
        return thread_continues

    def _call_loop(self) -> None:
        with suppress(RuntimeError):  # the loop is closed: the worker has ended
            self._in_flight.context.loop.call_soon_threadsafe(self._collect)

    # -- in the event loop ---------------------------------------------------------------------------------------------

    def _collect(self) -> None:
        """Take the outcomes from the threads and schedule the next poll. Until then no thread needs to call."""
        self._polling = True
        if self._next_poll is None:
            self._next_poll = self._in_flight.context.loop.call_later(POLL_EVERY_S, self._poll)
        while self._ended:
            ended = self._ended.popleft()
            ended.attempt.ended = ended.at
            self._state.remove(ended.attempt, ended.at)
            if ended.attempt.abandoned:
                if ended.thread_continues:  # its thread was replaced just after the attempt had ended
                    self._surplus.append(None)
                continue
            self._handed_out -= 1
            if ended.error is None:
                self._in_flight.succeed(ended.attempt, ended.result)
            else:
                self._in_flight.fail(ended.attempt, ended.error)
        self.start_waiting()
        self._in_flight.flush.set()
        self._in_flight.note_end()

    def _poll(self) -> None:
        self._next_poll = None
        self._polling = False  # reset before the check, so that a later outcome causes a call
        if self._ended:
            self._collect()
