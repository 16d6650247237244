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

from wakeboard_worker.attempts import Attempt
from wakeboard_worker.outcomes import TIMED_OUT

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Generator

    from wakeboard_worker.desk import Desk

RUNS_WITHOUT_A_PAUSE = 250  # then other tasks of the loop have their turn
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


class Slots:
    """`width` tasks that take rows from the desk's loop lane and run their handlers."""

    def __init__(self, desk: Desk) -> None:
        self._desk = desk
        self._lane = desk.loop_lane
        self._functions = {name: desk.handlers[name].function for name in self._lane.job_types}
        self._idle: list[asyncio.Future[None]] = []
        self._tasks: list[asyncio.Task[None]] = []

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
        if len(self._tasks) < self._lane.width:
            self._add_slot()

    async def stop(self) -> None:
        """Ends the slots; whatever still runs in them is abandoned."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def _add_slot(self) -> None:
        self._tasks.append(asyncio.create_task(self._slot(), name=f"slot {len(self._tasks)}"))

    async def _slot(self) -> None:
        desk, lane, functions, around = self._desk, self._lane, self._functions, self._desk.around
        me = asyncio.current_task()
        assert me is not None
        loop = asyncio.get_running_loop()
        steps = 0
        while True:
            if not lane.waiting:
                future: asyncio.Future[None] = loop.create_future()
                self._idle.append(future)
                desk.flush.set()
                desk.room.set()
                await future
            loop.call_soon(self.kick)  # runs only when this slot waits: then another one takes over
            while lane.waiting:
                attempt = Attempt(lane.waiting.popleft(), around)
                attempt.started = time.monotonic()
                lane.started += 1
                in_context = contextvars.copy_context().run
                try:
                    coroutine = functions[attempt.job_type](attempt)
                    waits_for = in_context(coroutine.send, None)
                except StopIteration as end:
                    desk.succeed(attempt, end.value)
                except asyncio.CancelledError as error:
                    desk.fail(attempt, error)
                except BaseException as error:  # noqa: BLE001 - a handler may raise anything, and fails alone
                    desk.fail(attempt, error)
                else:
                    await self._rest(attempt, _Rest(coroutine, waits_for, in_context), me)
                steps += 1
                if steps >= RUNS_WITHOUT_A_PAUSE:
                    steps = 0
                    desk.flush.set()
                    desk.room.set()
                    await asyncio.sleep(0)

    async def _rest(self, attempt: Attempt, rest: _Rest, me: asyncio.Task[Any]) -> None:
        """Waits for a handler that waits. `attempt.stop` cancels this very task, which is then free again."""
        desk, lane = self._desk, self._lane
        attempt.task = me
        lane.running[attempt.id] = attempt
        timer = None
        if attempt.timeout_s < SHORT_TIMEOUT_S:
            timer = asyncio.get_running_loop().call_later(attempt.timeout_s, attempt.stop, TIMED_OUT)
        try:
            desk.succeed(attempt, await rest)
        except asyncio.CancelledError as error:
            if attempt.stopped_because is None and me.cancelling():
                raise  # the worker itself ends
            desk.fail(attempt, error)
        except BaseException as error:  # noqa: BLE001 - a handler may raise anything, and fails alone
            desk.fail(attempt, error)
        finally:
            attempt.task = None
            del lane.running[attempt.id]
            if timer:
                timer.cancel()
        while me.cancelling():  # a handler may have swallowed it
            me.uncancel()
        desk.flush.set()
        desk.room.set()
