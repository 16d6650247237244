"""One attempt of a run: what its handler is given (`wakeboard.Run`), and what the worker knows about it."""

from __future__ import annotations

import asyncio
import inspect
import json
import logging
import time
import uuid as uuids
from contextvars import ContextVar
from datetime import UTC
from typing import TYPE_CHECKING, Any, Final, Self

from wakeboard.errors import DatabaseUnavailable, LeaseLost
from wakeboard.handlers import unique_step
from wakeboard.store.worker_api import moment

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Coroutine
    from contextlib import AbstractContextManager
    from datetime import datetime
    from types import TracebackType

    from wakeboard.store.worker_api import ClaimedRow, WorkerStore

_log = logging.getLogger("wakeboard.run")

# The attempt whose handler is running here: log lines of whatever it calls carry the run.
current_attempt: ContextVar[Attempt] = ContextVar("current_attempt")

_UNREAD: Final = object()
_JSON: Final = json.JSONDecoder()

# Why the worker stops an attempt before its handler ends.
CANCELLED: Final = "cancelled"  # by an operator or a newer tick
TIMED_OUT: Final = "timed out"
LEASE_LOST: Final = "lease lost"  # the outcome is dropped
UNREACHABLE: Final = "unreachable"  # the database was; the lease is given up, and released later
SHUTDOWN: Final = "shutdown"

FIRST_PAUSE_S, LONGEST_PAUSE_S = 0.05, 2.0  # between two tries of a move while the database is away


class Surroundings:
    """What all attempts of a worker share: the loop, and the moves that handlers make under their lease."""

    def __init__(self, loop: asyncio.AbstractEventLoop, worker_nonce: int, worker_store: Callable[[], Any]) -> None:
        self.loop = loop
        self.worker_nonce = worker_nonce
        self.worker_store = (
            worker_store  # () -> awaitable Leasing, on a connection that claims and completions do not wait for
        )


class Attempt:
    """A claimed run in this worker. Implements `wakeboard.handlers.Run`."""

    __slots__ = (
        "_payload",
        "_payload_bytes",
        "_run_at",
        "_scheduled_for",
        "_steps",
        "_uuid_bytes",
        "abandoned",
        "around",
        "attempt",
        "crash_count",
        "definition_id",
        "effect_conn",
        "epoch",
        "fraction",
        "id",
        "in_thread",
        "job_type",
        "max_attempts",
        "priority",
        "queue",
        "schedule",
        "settled",
        "started",
        "stopped_because",
        "task",
        "timeout_s",
    )

    def __init__(self, row: ClaimedRow, around: Surroundings) -> None:
        (
            self.id,
            self.epoch,
            self.job_type,
            self._payload_bytes,
            self.attempt,
            self.max_attempts,
            self.timeout_s,
            self._scheduled_for,
            self._run_at,
            self.queue,
            self.priority,
            self.crash_count,
            self._uuid_bytes,
            self.definition_id,
            self.schedule,
        ) = row
        self._payload: Any = _UNREAD
        self.around = around
        self.in_thread = False
        self.abandoned = False  # its handler does not stop: it has no place in the lane any more
        self.settled = False  # its outcome is decided: a late second one is ignored
        self.started = 0.0  # time.monotonic(); 0: not yet
        self.stopped_because: str | None = None
        self.task: asyncio.Task[Any] | None = None
        self.fraction: float | None = None
        self.effect_conn: Any = None  # the connection in whose transaction `once` was called
        self._steps: set[str] | None = None  # that this attempt has begun

    # -- what the handler sees -----------------------------------------------------------------------------------------

    @property
    def payload(self) -> Any:
        """The payload, decoded at its first use."""
        if self._payload is _UNREAD:
            text = str(self._payload_bytes[1:], "utf-8")  # behind the version byte of binary jsonb
            self._payload = _JSON.raw_decode(text)[0]  # json.loads would look for an encoding and for an end
        return self._payload

    @property
    def uuid(self) -> uuids.UUID:
        """The run's name for the world, the same in every attempt."""
        return uuids.UUID(bytes=bytes(self._uuid_bytes))

    @property
    def scheduled_for(self) -> datetime:
        """The tick, in UTC."""
        return moment(self._scheduled_for).replace(tzinfo=UTC)

    @property
    def run_at(self) -> datetime:
        """From when on it was due, in UTC."""
        return moment(self._run_at).replace(tzinfo=UTC)

    @property
    def log(self) -> logging.LoggerAdapter[logging.Logger]:
        """A logger whose lines carry the run."""
        return logging.LoggerAdapter(_log, self.facts())

    @property
    def cancelled(self) -> bool:
        """Whether this attempt is to stop."""
        return self.stopped_because is not None

    def progress(self, fraction: float) -> None:
        """How far it is, 0 to 1; sent with the next heartbeat."""
        self.fraction = min(1.0, max(0.0, float(fraction)))

    def step(self, name: str, function: Callable[..., Any], *args: Any) -> Any:
        """Calls `function(*args)` unless an earlier attempt completed the step; see `wakeboard.Run`."""
        step = self._step_in_thread if self.in_thread else self._step_async
        return step(name, function, args)

    def _step_named(self, name: str) -> AbstractContextManager[None]:
        if self._steps is None:
            self._steps = set()
        return unique_step(self._steps, name)

    def once(self, conn: Any, key: str) -> Any:
        """The guard of an effect in the transaction of `conn`."""
        from wakeboard.store.effects import Lease, once

        self._raise_if_lost()
        self.effect_conn = conn
        guard: Any = once  # sync or async, as the connection is
        return guard(conn, Lease(self.around.worker_nonce, self.id, self.uuid, self.epoch), key)

    def effect(self, key: str) -> OutsideEffect:
        """An effect outside the database, recorded as begun and done."""
        return OutsideEffect(self, key)

    # -- inside --------------------------------------------------------------------------------------------------------

    def facts(self) -> dict[str, Any]:
        """What each log line about this attempt carries."""
        return {"run": self.id, "job_type": self.job_type, "schedule": self.schedule, "attempt": self.attempt}

    def stop(self, because: str) -> None:
        """Tells the handler to stop, once: async ones are cancelled, others see `cancelled`."""
        if self.stopped_because is None and not self.settled:
            self.stopped_because = because
            if self.task is not None:
                self.task.cancel()

    @property
    def lost(self) -> bool:
        """Whether the attempt has lost its lease; its handler may still be running."""
        return self.stopped_because in (LEASE_LOST, UNREACHABLE)

    def age_s(self) -> float | None:
        """Seconds since the handler started; None before."""
        return time.monotonic() - self.started if self.started else None

    async def record_effect(self, key: str, *, done: bool = False) -> str:
        """Records an outside effect; see the move."""
        return await self._make(lambda worker_store: worker_store.effect(self.id, self.epoch, key, done=done))

    async def _step_async(self, name: str, function: Callable[..., Any], args: tuple[Any, ...]) -> Any:
        with self._step_named(name):
            done, stored = await self._step_move(name)
            if done:
                return stored
            result = function(*args)
            if inspect.isawaitable(result):
                result = await result
            text = json.dumps(result, ensure_ascii=False)
            await self._step_move(name, text)
            return json.loads(text)

    def _step_in_thread(self, name: str, function: Callable[..., Any], args: tuple[Any, ...]) -> Any:
        with self._step_named(name):
            done, stored = self.in_loop(self._step_move(name))
            if done:
                return stored
            text = json.dumps(function(*args), ensure_ascii=False)
            self.in_loop(self._step_move(name, text))
            return json.loads(text)

    async def _step_move(self, name: str, result: str | None = None) -> tuple[bool, Any]:
        return await self._make(lambda worker_store: worker_store.step(self.id, self.epoch, name, result))

    async def _make(self, move: Callable[[WorkerStore], Awaitable[Any]]) -> Any:
        """The move's answer, asked for again while the database is away: it answers a repeat as it did at first."""
        pause_s = FIRST_PAUSE_S
        while True:
            self._raise_if_lost()
            try:
                return await move(await self.around.worker_store())
            except DatabaseUnavailable:
                await asyncio.sleep(pause_s)
                pause_s = min(LONGEST_PAUSE_S, 2 * pause_s)

    def in_loop(self, coroutine: Coroutine[Any, Any, Any]) -> Any:
        """Runs `coroutine` in the worker's loop and waits for it, from the handler's thread."""
        return asyncio.run_coroutine_threadsafe(coroutine, self.around.loop).result()

    def _raise_if_lost(self) -> None:
        if self.lost:
            raise LeaseLost(f"the lease of run {self.id} is lost")


class OutsideEffect:
    """`with run.effect(key)`, plain or async: see `wakeboard.handlers.Effect`."""

    def __init__(self, attempt: Attempt, key: str) -> None:
        self.key = key
        self.provider_key = str(uuids.uuid5(attempt.uuid, key))
        self.done = self.in_doubt = False
        self._attempt = attempt

    async def __aenter__(self) -> Self:
        known = await self._attempt.record_effect(self.key)
        self.done, self.in_doubt = known == "done", known == "in doubt"
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is None and not self.done:
            await self._attempt.record_effect(self.key, done=True)

    def __enter__(self) -> Self:
        self._in_loop(self.__aenter__())
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._in_loop(self.__aexit__(kind, error, trace))

    def _in_loop(self, coroutine: Coroutine[Any, Any, Any]) -> Any:
        if not self._attempt.in_thread:
            coroutine.close()
            raise TypeError("an async handler writes `async with run.effect(…)`")
        return self._attempt.in_loop(coroutine)
