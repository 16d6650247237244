"""Slots: how async handlers run, at a microsecond each when they never wait.

A task of its own for each run costs 3 to 5 µs, a timer 5 more (of a run that costs 6 in all). So a few long-lived
tasks, the slots, step the handlers' coroutines by hand: the first step directly, and only a handler that really waits
is registered and awaited. Each run has a Context of its own; timeouts are kept by one sweep over the runs that wait.
"""

from __future__ import annotations

import asyncio
import contextvars
import time
from typing import TYPE_CHECKING, Any

from wakeboard.run import TIMED_OUT
from wakeboard_worker.attempt import Attempt, current_attempt

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Generator

    from wakeboard_worker.in_flight import InFlightBuffer

TURN_S = 0.00025  # of handlers that never wait; then others have theirs: a claim's reply arrives in many pieces
STOP_WITHIN_S = 0.5
SHORT_TIMEOUT_S = 5  # below, the sweep is too coarse


class _Rest:
    """The rest of a coroutine that has taken its first step: awaited by a slot, each step in the run's own Context."""

    __slots__ = ("_coroutine", "_future", "_in_context")

    def __init__(self, coroutine: Coroutine[Any, Any, Any], future: Any, in_context: Callable[..., Any]) -> None:
        self._coroutine, self._future, self._in_context = coroutine, future, in_context

    def __await__(self) -> Generator[Any, Any, Any]:
        coroutine, future, in_context = self._coroutine, self._future, self._in_context
        while True:
            try:
                value = yield future
            except BaseException as error:  # noqa: BLE001 - whatever comes is the handler's to deal with
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
    """`width` tasks that take rows from the desk's loop lane and run their handlers."""

    def __init__(self, in_flight: InFlightBuffer) -> None:
        self._desk = in_flight
        self._lane = in_flight.loop_lane
        self._functions = {name: in_flight.handlers[name].function for name in self._lane.job_types}
        self._idle: list[asyncio.Future[None]] = []
        self._tasks: list[asyncio.Task[None]] = []
        self._ending = False

    def start(self) -> None:
        """Starts the first slot; each starts the next one when it has to wait."""
        self._add_slot()

    def kick(self) -> None:
        """There are rows: wakes a slot, or adds one."""
        if not self._lane.waiting:
            return
        while self._idle:
            future = self._idle.pop()
            if not future.done():
                future.set_result(None)
                return
        if len(self._tasks) - len(self._lane.abandoned) < self._lane.width:
            self._add_slot()

    async def stop(self) -> None:
        """Ends the slots; whatever still runs in them is left there."""
        self._ending = True
        for task in self._tasks:
            task.cancel()
        if self._tasks:  # a handler that does not stop must not keep the process
            await asyncio.wait(self._tasks, timeout=STOP_WITHIN_S)

    def _add_slot(self) -> None:
        task = asyncio.create_task(self._slot(), name=f"slot {len(self._tasks)}")
        task.add_done_callback(self._note_end)
        self._tasks.append(task)

    def _note_end(self, task: asyncio.Task[None]) -> None:
        if not task.cancelled() and (error := task.exception()) is not None:
            self._desk.broken = error

    async def _slot(self) -> None:
        in_flight, executor, functions, context = self._desk, self._lane, self._functions, self._desk.context
        clock = time.monotonic
        me = asyncio.current_task()
        assert me is not None
        loop = asyncio.get_running_loop()
        while True:
            if not executor.waiting:
                future: asyncio.Future[None] = loop.create_future()
                self._idle.append(future)
                in_flight.flush.set()
                in_flight.room.set()
                await future
            loop.call_soon(self.kick)  # runs only when this slot waits: then another one takes over
            turn_ends = clock() + TURN_S
            while executor.waiting:
                now = clock()
                if now >= turn_ends:
                    in_flight.flush.set()
                    in_flight.room.set()
                    await asyncio.sleep(0)
                    turn_ends = clock() + TURN_S
                    continue
                executor.stepping = attempt = Attempt(executor.waiting.popleft(), context, now)
                executor.started += 1
                in_context = contextvars.copy_context().run
                try:
                    coroutine = functions[attempt.job_type](attempt)
                    waits_for = in_context(_first_step, attempt, coroutine.send)
                except StopIteration as end:
                    in_flight.succeed(attempt, end.value)
                except asyncio.CancelledError as error:
                    in_flight.fail(attempt, error)
                except BaseException as error:  # noqa: BLE001 - a handler may raise anything, and fails alone
                    in_flight.fail(attempt, error)
                else:
                    await self._rest(attempt, _Rest(coroutine, waits_for, in_context), me)
                    if attempt.abandoned:  # this slot has been out of the count since
                        self._tasks.remove(me)
                        return
                    turn_ends = clock() + TURN_S

    async def _rest(self, attempt: Attempt, rest: _Rest, me: asyncio.Task[Any]) -> None:
        """Waits for a handler that waits. `attempt.stop` cancels this very task, which is then free again."""
        in_flight, executor = self._desk, self._lane
        attempt.task = me
        executor.running[attempt.id] = attempt
        timer = None
        if attempt.timeout_s < SHORT_TIMEOUT_S:
            timer = asyncio.get_running_loop().call_later(attempt.timeout_s, attempt.stop, TIMED_OUT)
        try:
            in_flight.succeed(attempt, await rest)
        except asyncio.CancelledError as error:
            if self._ending:
                raise
            in_flight.fail(attempt, error)  # stopped by the worker, or by itself
        except BaseException as error:  # noqa: BLE001 - a handler may raise anything, and fails alone
            in_flight.fail(attempt, error)
        finally:
            attempt.task = None
            executor.leave(attempt, time.monotonic())
            if timer:
                timer.cancel()
        while me.cancelling():  # a handler may have swallowed it
            me.uncancel()
        in_flight.flush.set()
        in_flight.room.set()
