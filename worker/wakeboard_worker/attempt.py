"""The worker's implementation of `wakeboard.Run`: it records steps and effects in the store, and can be stopped."""

from __future__ import annotations

import asyncio
import time
from contextlib import nullcontext, suppress
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any, Final, Protocol

from wakeboard.engine.run import Run
from wakeboard.errors import DatabaseUnavailable, Locked, WakeboardError
from wakeboard_worker.error_texts import error_line

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Coroutine

    from wakeboard.engine.run import ClaimedRow, Effect, KnownEffect, Once, OnceCall, Reported
    from wakeboard.engine.worker_api import Worker, WorkerStore

# The attempt whose handler runs in this context: log records of the code that it calls carry the attempt's fields.
current_attempt: ContextVar[Attempt] = ContextVar("current_attempt")

FIRST_PAUSE_S: Final = 0.05  # before an operation is retried because the database is unavailable; it doubles
LONGEST_PAUSE_S: Final = 2.0
LONGEST_LOCKED_PAUSE_S: Final = 0.5  # while another transaction has locked what the operation needs


class Spans(Protocol):
    """The spans and metrics of a worker (tracing.py)."""

    def step(self, attempt: Attempt, name: str, function: Callable[..., Any], args: tuple[Any, ...]) -> Any:
        """As `Run.step`, in a span."""

    def once(self, attempt: Attempt, conn: Any, key: str, *, once: Once) -> Any:
        """As `Run.once`, in a span."""

    def effect(self, attempt: Attempt, key: str, *, once: Once) -> Effect:
        """As `Run.effect`, in a span."""
        ...

    def log_fields(self, attempt: Attempt) -> dict[str, str]:
        """The ids of the trace and of the span, for log records of the attempt."""
        ...

    async def observe(self, conn: Any, worker: Worker, counts: Any) -> None:
        """Measure what the metrics report besides attempts."""


class Logs(Protocol):
    """The logs of a worker's attempts (run_logs.py)."""

    def keeps(self, job_type: str) -> bool:
        """Whether logs of this job type are kept."""
        ...

    def add(self, attempt: Attempt, level: int, source: str, text: str) -> None:
        """Keep a line of the attempt."""

    def write(self, attempt: Attempt, source: str, text: str) -> None:
        """Keep the lines of a text that was written to a stream."""


class AttemptContext:
    """What all attempts of a worker share. `await worker_store()` returns a store on a connection only for handlers.

    `spans` is None unless OpenTelemetry is configured.
    """

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        worker_id: int,
        worker_store: Callable[[], Any],
        spans: Spans | None = None,
    ) -> None:
        self.loop = loop
        self.worker_id = worker_id
        self.worker_store = worker_store
        self.spans = spans
        self.progressed: Callable[[], None] = lambda: None  # lets the heartbeat send what attempts have reported
        self.logs: Logs | None = None  # None: they are turned off
        self.locked_turn = asyncio.Lock()  # of the operations that met a lock, one at a time uses the connection


class Attempt(Run):
    """An attempt whose handler is a coroutine function. The constructor runs thousands of times per second."""

    __slots__ = (
        *("abandoned", "context", "ended", "failed", "has_outcome", "kept_log", "result", "sent", "started"),
        "task",
    )

    in_thread = False

    def __init__(self, row: ClaimedRow, context: AttemptContext, started: float = 0.0) -> None:
        Run.__init__(self, row)  # half the cost of super()
        self.context = context
        self.abandoned = False  # its handler does not stop, and its slot was replaced
        self.has_outcome = False  # its outcome is decided: a second one is ignored
        self.failed = False
        self.kept_log: Any = None  # None: it has logged nothing
        self.result: str | None = None  # JSON, once it has succeeded
        self.started = started  # time.monotonic(); 0: not yet
        self.ended = 0.0  # when the handler ended, likewise
        self.task: asyncio.Task[Any] | None = None
        self.sent: Reported = {}  # the progress that the store has

    def stop(self, because: str) -> None:
        """Ask the handler to stop, once: an async handler is cancelled, and `cancelled` becomes true."""
        if self.stopped_because is None and not self.has_outcome:
            self.stopped_because = because
            if self.task is not None:
                self.task.cancel()

    def age_s(self) -> float | None:
        """Seconds since the handler started; None: it has not started."""
        return time.monotonic() - self.started if self.started else None

    def unsent_progress(self) -> Reported | None:
        """The progress that the store does not have. Called by the heartbeat's thread, too."""
        if not self.reported:
            return None
        return {step: each for step, each in self.reported.copy().items() if self.sent.get(step) is not each} or None

    def note_sent(self, progress: Reported) -> None:
        """Note that the store has this progress. What is not reported any more is forgotten."""
        reported = self.reported or {}
        self.sent = {step: each for step, each in {**self.sent, **progress}.items() if step in reported}

    def has_open_effect(self) -> bool:
        """Whether a connection that the handler passed to `once` is still in a transaction."""
        conns = [self.effect_conn, *(call.over for call in (self._effects or {}).values() if call is not None)]
        return any(conn is not None and conn.is_in_transaction() for conn in conns)

    def log_fields(self) -> dict[str, Any]:
        """The fields that each log record of this attempt carries."""
        fields, spans = Run.log_fields(self), self.context.spans
        return fields if spans is None else fields | spans.log_fields(self)

    def progress(self, fraction: float, message: str = "", *, step: str | None = None) -> None:
        """As `Run.progress`."""
        Run.progress(self, fraction, message, step=step)
        self.context.progressed()

    @property
    def keeps_log(self) -> bool:
        """As `Run.keeps_log`."""
        logs = self.context.logs
        return logs is not None and logs.keeps(self.job_type)

    def log_output(self, text: str, source: str = "output") -> None:
        """As `Run.log_output`."""
        if self.context.logs is not None:
            self.context.logs.write(self, source, text)

    @property
    def uuid_text(self) -> str:
        """`uuid` as Postgres reads it, in a fifth of the time."""
        return bytes(self._uuid).hex()

    @property
    def payload_json(self) -> bytes:
        """The payload as it is stored, whatever the handler has made of it."""
        return bytes(self._encoded_payload[1:])

    def step(self, name: str, function: Callable[..., Any], *args: Any) -> Any:
        """As `Run.step`."""
        spans = self.context.spans
        return Run.step(self, name, function, *args) if spans is None else spans.step(self, name, function, args)

    def once(self, conn: Any, key: str, *, once: Once = "per_run") -> Any:
        """As `Run.once`. Raise InvalidValue if `conn` is no connection: an attempt keeps connections only."""
        from wakeboard.store.callers_connection import callers_connection

        conn = callers_connection(conn)
        spans = self.context.spans
        return Run.once(self, conn, key, once=once) if spans is None else spans.once(self, conn, key, once=once)

    def effect(self, key: str, *, once: Once = "per_run") -> Effect:
        """As `Run.effect`."""
        spans = self.context.spans
        return Run.effect(self, key, once=once) if spans is None else spans.effect(self, key, once=once)

    async def _record_step(self, name: str, result: str | None = None) -> tuple[bool, Any]:
        return await self._repeated(lambda store: store.step(self.id, self.epoch, name, result))

    async def _record_failed_step(self, name: str, error: Exception) -> None:
        """Try it once: if the database does not answer, the outcome of the attempt still says that the step failed."""
        with suppress(WakeboardError):
            store = await self.context.worker_store()
            await store.step(self.id, self.epoch, name, error=error_line(error))

    async def _read_results(self) -> list[Any]:
        return await self._repeated(lambda store: store.run_results(self.id, self.epoch))

    async def _consume(self, units: int) -> None:
        await self._repeated(lambda store: store.consume(self.id, self.epoch, units))

    async def _begin_effect(self, key: str, *, forever: bool) -> KnownEffect:
        return await self._repeated(lambda store: store.effect(self.id, self.epoch, key, forever=forever))

    async def _finish_effect(self, key: str, *, forever: bool) -> Any:
        return await self._repeated(lambda store: store.effect(self.id, self.epoch, key, done=True, forever=forever))

    def _record_once(self, conn: Any, key: str, *, forever: bool) -> Any:
        from wakeboard.engine.effects import Lease, once

        return once(conn, Lease(self.context.worker_id, self.id, self.uuid, self.epoch), key, forever=forever)

    def _end_of_once(self, conn: Any, call: OnceCall) -> Any:
        from wakeboard.engine.effects import end_of_once

        return end_of_once(conn, call)

    async def _repeated(self, operation: Callable[[WorkerStore], Awaitable[Any]]) -> Any:
        """Repeat an idempotent operation until the database answers. Raises LeaseLost.

        An operation that meets a lock waits here, so that the handlers of other runs can use the connection meanwhile.
        """
        pause_s, turn = FIRST_PAUSE_S, nullcontext()
        while True:
            try:
                async with turn:
                    self._raise_if_lost()
                    return await operation(await self.context.worker_store())
            except Locked:
                turn, longest_s = self.context.locked_turn, LONGEST_LOCKED_PAUSE_S
            except DatabaseUnavailable:
                longest_s = LONGEST_PAUSE_S
            pause_s = min(longest_s, pause_s)
            await asyncio.sleep(pause_s)
            pause_s *= 2

    def _wait_for(self, coroutine: Coroutine[Any, Any, Any]) -> Any:
        return asyncio.run_coroutine_threadsafe(coroutine, self.context.loop).result()


class ThreadAttempt(Attempt):
    """An attempt whose handler is a plain function: it runs in a thread."""

    __slots__ = ()

    in_thread = True
