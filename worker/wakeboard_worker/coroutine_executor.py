"""Runs async handlers in the event loop, at the cost of about a microsecond each if they never wait.

A task for each run would cost 3 to 5 µs, and a timer 5 more (a whole run costs 6). So a few long-lived tasks, the
slots, step the handlers' coroutines themselves. The first step is a direct call. Only a handler that waits is then
registered as running and awaited. Each run has its own Context. `enforce_limits` in in_flight.py checks the timeouts of
all handlers that wait.
"""

from __future__ import annotations

import asyncio
import contextvars
import time
from typing import TYPE_CHECKING, Any

from wakeboard.engine.run import TIMED_OUT
from wakeboard_worker.attempt import Attempt, current_attempt

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Generator

    from wakeboard_worker.in_flight import InFlightBuffer

TIME_SLICE_S = 0.00025  # handlers that never wait run this long before other tasks do, such as the read of a reply
STOP_WITHIN_S = 0.5
SHORT_TIMEOUT_S = 5  # timeouts below this have a timer: `enforce_limits` is too coarse for them


class _StartedCoroutine:
    """A coroutine that has taken its first step. A slot awaits it; each step runs in the run's own Context."""

    __slots__ = ("_coroutine", "_future", "_in_context")

    def __init__(self, coroutine: Coroutine[Any, Any, Any], future: Any, in_context: Callable[..., Any]) -> None:
        self._coroutine, self._future, self._in_context = coroutine, future, in_context

    def __await__(self) -> Generator[Any, Any, Any]:
        coroutine, future, in_context = self._coroutine, self._future, self._in_context
        while True:
            try:
                value = yield future
            except BaseException as error:  # noqa: BLE001 - the handler may catch it
                try:
                    future = in_context(coroutine.throw, error)
                except StopIteration as end:
                    return end.value
            else:
                try:
                    future = in_context(coroutine.send, value)
                except StopIteration as end:
                    return end.value


def _first_step(attempt: Attempt, send: Callable[[None], Any]) -> Any:
    current_attempt.set(attempt)
    return send(None)


class CoroutineExecutor:
    """Up to `concurrency` slots, which take waiting rows from the in-flight buffer and run their handlers."""

    def __init__(self, in_flight: InFlightBuffer) -> None:
        self._in_flight = in_flight
        self._state = in_flight.coroutines
        self._functions = {name: in_flight.handlers[name].function for name in self._state.job_types}
        self._idle: list[asyncio.Future[None]] = []
        self._slots: list[asyncio.Task[None]] = []
        self._stopping = False

    def start(self) -> None:
        """Start the first slot. When a slot has to wait, another one takes over."""
        self._add_slot()

    def start_waiting(self) -> None:
        """Let a slot take the waiting rows: wake an idle one, or add one."""
        if not self._state.waiting:
            return
        while self._idle:
            future = self._idle.pop()
            if not future.done():
                future.set_result(None)
                return
        if len(self._slots) - len(self._state.abandoned) < self._state.concurrency:
            self._add_slot()

    async def stop(self) -> None:
        """End the slots. Handlers that do not stop within half a second are left running."""
        self._stopping = True
        for slot in self._slots:
            slot.cancel()
        if self._slots:
            await asyncio.wait(self._slots, timeout=STOP_WITHIN_S)

    def _add_slot(self) -> None:
        slot = asyncio.create_task(self._run_slot(), name=f"slot {len(self._slots)}")
        slot.add_done_callback(self._record_error)
        self._slots.append(slot)

    def _record_error(self, slot: asyncio.Task[None]) -> None:
        if not slot.cancelled() and (error := slot.exception()) is not None:
            self._in_flight.fatal_error = error

    async def _run_slot(self) -> None:
        in_flight, executor, functions, context = self._in_flight, self._state, self._functions, self._in_flight.context
        clock = time.monotonic
        slot = asyncio.current_task()
        assert slot is not None
        loop = asyncio.get_running_loop()
        while True:
            if not executor.waiting:
                future: asyncio.Future[None] = loop.create_future()
                self._idle.append(future)
                in_flight.flush.set()
                in_flight.note_end()
                await future
            loop.call_soon(self.start_waiting)  # called when this slot waits, so that another one takes over
            now = clock()
            slice_ends = now + TIME_SLICE_S
            while executor.waiting:
                if now >= slice_ends or (row := executor.next_row()) is None:
                    in_flight.flush.set()
                    in_flight.note_end()
                    await asyncio.sleep(0)
                    now = clock()
                    slice_ends = now + TIME_SLICE_S
                    continue
                executor.starting = attempt = Attempt(row, context, now)
                executor.started += 1
                in_context = contextvars.copy_context().run
                try:
                    coroutine = functions[attempt.job_type](attempt)
                    waits_for = in_context(_first_step, attempt, coroutine.send)
                except StopIteration as end:
                    attempt.ended = now = clock()  # the next handler begins then
                    in_flight.succeed(attempt, end.value)
                except BaseException as error:  # noqa: BLE001 - any error of a handler fails its own attempt only
                    attempt.ended = clock()
                    in_flight.fail(attempt, error)
                    now = clock()
                else:
                    await self._await_rest(attempt, _StartedCoroutine(coroutine, waits_for, in_context), slot)
                    if attempt.abandoned:  # another slot has replaced this one
                        self._slots.remove(slot)
                        return
                    now = clock()
                    slice_ends = now + TIME_SLICE_S

    async def _await_rest(self, attempt: Attempt, rest: _StartedCoroutine, slot: asyncio.Task[Any]) -> None:
        """Wait until the handler has ended. `attempt.stop` cancels this slot's task; then the slot continues."""
        in_flight, executor = self._in_flight, self._state
        attempt.task = slot
        executor.add_running(attempt)
        timer = None
        if attempt.timeout_s < SHORT_TIMEOUT_S:
            timer = asyncio.get_running_loop().call_later(attempt.timeout_s, attempt.stop, TIMED_OUT)
        try:
            result = await rest
            attempt.ended = time.monotonic()
            in_flight.succeed(attempt, result)
        except BaseException as error:
            if self._stopping and isinstance(error, asyncio.CancelledError):
                raise
            attempt.ended = time.monotonic()
            in_flight.fail(attempt, error)  # stopped by the worker, or by itself; its error fails its own attempt only
        finally:
            attempt.task = None
            executor.remove(attempt, attempt.ended or time.monotonic())
            if timer:
                timer.cancel()
        while slot.cancelling():  # the handler may have swallowed the cancellation
            slot.uncancel()
        in_flight.flush.set()
        in_flight.note_end()
