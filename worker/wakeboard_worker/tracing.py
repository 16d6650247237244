"""Spans and metrics of a worker's runs. Only a worker whose OTEL_* variables name a destination imports this module.

The trace of a run is that of its enqueue. Without a trace context, its id is made from the run's uuid. The span of each
attempt is a child of the enqueue, with links to the enqueue and to the earlier attempts. Its id is made from the run's
uuid and the lease epoch, so every worker knows the spans of the others without having to store them.

A worker that is killed sends no spans of the attempts that it was executing. The next attempt of such a run therefore
sends the span of the crashed one, from the facts that `reap` stored. So each trace stays one tree.

Handlers are wrapped (`traced_handlers`). Nothing in the claim loop and in the executors depends on this module.
"""

from __future__ import annotations

import hashlib
import time
from collections.abc import Awaitable
from contextlib import AsyncExitStack, ExitStack
from dataclasses import replace
from http import HTTPStatus
from typing import TYPE_CHECKING, Any, Final, Self, cast

from opentelemetry import propagate, trace
from opentelemetry.context import Context, attach
from opentelemetry.metrics import CallbackOptions, Observation
from opentelemetry.trace import Link, NonRecordingSpan, SpanContext, SpanKind
from opentelemetry.trace.propagation import tracecontext

from wakeboard.engine.run import CANCELLED, Run
from wakeboard.engine.worker_api import Failure, read_backlog
from wakeboard.errors import DatabaseUnavailable, Locked, WakeboardError
from wakeboard.process.enqueue_span import SYSTEM
from wakeboard.process.telemetry import current, fail, with_ids
from wakeboard_worker.logs import log
from wakeboard_worker.outcomes import failure

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence
    from datetime import datetime
    from types import TracebackType

    from opentelemetry.trace import Span

    from wakeboard.engine.handlers import Handler
    from wakeboard.engine.run import ClaimedRow, Effect, Once
    from wakeboard.engine.worker_api import TraceContext, Worker, WorkerStore
    from wakeboard.process.telemetry import Telemetry
    from wakeboard_worker.attempt import Attempt
    from wakeboard_worker.in_flight import EndedCounts

MAX_CONTEXTS: Final = 20_000  # trace contexts of claimed runs; of more, the oldest are forgotten
BACKLOG_EVERY_S: Final = 30.0
BACKLOG_SCAN: Final = 10_000  # due rows that are counted of each queue and priority
# Seconds. The first fourteen are those that the semantic conventions recommend.
BUCKETS: Final = (
    *(0.005, 0.01, 0.025, 0.05, 0.075, 0.1, 0.25, 0.5, 0.75, 1.0, 2.5, 5.0, 7.5, 10.0),
    *(30.0, 60.0, 300.0, 1800.0, 3600.0),
)
_W3C: Final = tracecontext.TraceContextTextMapPropagator()


def trace_id_of(uuid: bytes) -> int:
    """The trace of a run that was enqueued outside of a span. Samplers read its last bytes, so these are random."""
    return int.from_bytes(uuid[8:] + uuid[:8], "big")


def span_id_of(uuid: bytes, epoch: int) -> int:
    """The span of an attempt; epoch 0: of the enqueue, if it had none."""
    digest = hashlib.blake2b(uuid + epoch.to_bytes(8, "big"), digest_size=8).digest()
    return int.from_bytes(digest, "big") or 1


def nanoseconds(at: datetime) -> int:
    """The time as OpenTelemetry counts it."""
    return int(at.timestamp() * 1e6) * 1000


class Tracing:
    """The spans and metrics of one worker."""

    def __init__(self, telemetry: Telemetry) -> None:
        self._telemetry, self._tracer = telemetry, telemetry.tracer
        self._contexts: dict[tuple[int, int], TraceContext] = {}  # of claimed runs, by run id and lease epoch
        self._trace_ids: dict[tuple[int, int], int] = {}  # of attempts, for their last log line
        self._open: dict[tuple[int, int], tuple[Attempt, Span]] = {}
        self._backlog: dict[str, int] = {}
        self._backlog_at: float | None = None  # time.monotonic()
        self._counts: EndedCounts | None = None
        meter = telemetry.meter
        self._duration = meter.create_histogram(
            "messaging.process.duration",
            "s",
            "Duration of attempts.",
            explicit_bucket_boundaries_advisory=BUCKETS,
        )
        self._lateness = meter.create_histogram(
            "wakeboard.run.lateness",
            "s",
            "Time from when a run was due until its attempt started.",
            explicit_bucket_boundaries_advisory=BUCKETS,
        )
        self._consumed = meter.create_counter(
            "messaging.client.consumed.messages", "{message}", "Attempts that ended, by outcome."
        )
        meter.create_observable_counter(
            "wakeboard.leases.lost", [self._observe_lost], "{lease}", "Leases that this worker lost."
        )
        meter.create_observable_gauge(
            "wakeboard.backlog", [self._observe_backlog], "{run}", "Runs that execute or are due, of each queue."
        )

    # -- facts from the store ------------------------------------------------------------------------------------------

    async def load(self, store: WorkerStore, rows: Sequence[ClaimedRow]) -> None:
        """Read the trace contexts of claimed runs. Raises DatabaseUnavailable; a lock and other errors are logged."""
        if not rows or not self._telemetry.sends_spans:
            return
        try:
            found = {context.run_id: context for context in await store.trace_contexts([row.id for row in rows])}
        except WakeboardError as error:
            if isinstance(error, DatabaseUnavailable) and not isinstance(error, Locked):
                raise
            log.warning("trace contexts could not be read: %s", error)
            return
        for row in rows:
            if (context := found.get(row.id)) is not None:
                self._contexts[row.id, row.lease_epoch] = context
        _forget_oldest(self._contexts)

    async def observe(self, conn: Any, worker: Worker, counts: EndedCounts) -> None:
        """Read the backlog of the worker's queues, twice a minute. The first call must not delay the first run."""
        self._counts = counts
        now = time.monotonic()
        if self._backlog_at is None:
            self._backlog_at = now
        elif now >= self._backlog_at:
            self._backlog_at = now + BACKLOG_EVERY_S
            try:
                self._backlog = await read_backlog(conn, worker, BACKLOG_SCAN)
            except WakeboardError as error:
                log.warning("the backlog could not be read: %s", error)

    # -- attempts ------------------------------------------------------------------------------------------------------

    def traced_handlers(self, handlers: Mapping[str, Handler]) -> dict[str, Handler]:
        """Handlers that do the same in a span."""
        return {name: replace(handler, function=self._traced(handler)) for name, handler in handlers.items()}

    def _traced(self, handler: Handler) -> Callable[[Any], Any]:
        function = handler.function

        async def in_span(attempt: Attempt) -> Any:
            self._begin(attempt)
            try:
                result = await function(attempt)
            except BaseException as error:
                self._end(attempt, error)
                raise
            self._end(attempt, None)
            return result

        def in_span_of_thread(attempt: Attempt) -> Any:
            self._begin(attempt)
            try:
                result = function(attempt)
            except BaseException as error:
                self._end(attempt, error)
                raise
            self._end(attempt, None)
            return result

        return in_span if handler.is_async else in_span_of_thread

    def _begin(self, attempt: Attempt) -> None:
        """Start the span of an attempt. Each attempt has a Context of its own, in which it stays the current span."""
        key, uuid = (attempt.id, attempt.epoch), attempt.uuid.bytes
        context = self._contexts.pop(key, None)
        parent = self._parent(attempt, uuid, context)
        in_trace = trace.set_span_in_context(NonRecordingSpan(parent))
        earlier = context.earlier if context is not None else []
        links = [Link(parent)]
        links += [Link(_with_span(parent, span_id_of(uuid, each.epoch))) for each in earlier]
        self._send_crashed(attempt, uuid, context, in_trace)
        with with_ids(span_id_of(uuid, attempt.epoch)):
            span = self._tracer.start_span(
                f"process {attempt.job_type}", in_trace, SpanKind.CONSUMER, self._attributes(attempt), links
            )
        lateness_s = max(0.0, time.time() - attempt.run_at.timestamp())
        span.set_attribute("wakeboard.run.lateness", round(lateness_s, 3))
        self._lateness.record(lateness_s, _metric_attributes(attempt), trace.set_span_in_context(span))
        self._open[key] = (attempt, span)
        self._trace_ids[key] = span.get_span_context().trace_id
        _forget_oldest(self._trace_ids)
        attach(trace.set_span_in_context(span))

    def _parent(self, attempt: Attempt, uuid: bytes, context: TraceContext | None) -> SpanContext:
        """The span context of the enqueue. A run without one gets a span for its enqueue, at the time of its tick."""
        if context is not None and context.traceparent:
            carrier = {"traceparent": context.traceparent, "tracestate": context.tracestate or ""}
            stored = trace.get_current_span(_W3C.extract(carrier, Context())).get_span_context()
            if stored.is_valid:
                return stored
        at = nanoseconds(attempt.scheduled_for)
        with with_ids(span_id_of(uuid, 0), trace_id_of(uuid)):
            span = self._tracer.start_span(
                f"enqueue {attempt.job_type}",
                Context(),
                SpanKind.PRODUCER,
                self._attributes(attempt, "enqueue", "send"),
                start_time=at,
            )
        if all(each.outcome == "crashed" for each in (context.earlier if context is not None else ())):
            span.end(
                at
            )  # otherwise an earlier attempt has sent it, and here it only shows whether the trace is sampled
        return _with_span(span.get_span_context(), span_id_of(uuid, 0))

    def _send_crashed(self, attempt: Attempt, uuid: bytes, context: TraceContext | None, in_trace: Context) -> None:
        """Send the spans of the attempts just before this one whose workers crashed."""
        for crashed in reversed(context.earlier if context is not None else []):
            if crashed.outcome != "crashed":
                return
            attributes = self._attributes(attempt) | {
                "wakeboard.attempt": crashed.attempt,
                "wakeboard.lease_epoch": crashed.epoch,
                "wakeboard.outcome": "crashed",
            }
            with with_ids(span_id_of(uuid, crashed.epoch)):
                span = self._tracer.start_span(
                    f"process {attempt.job_type}",
                    in_trace,
                    SpanKind.CONSUMER,
                    attributes,
                    start_time=nanoseconds(crashed.started_at),
                )
            fail(span, "crashed", "the worker ended while it executed the run")
            span.end(nanoseconds(crashed.ended_at))

    def _attributes(self, attempt: Attempt, operation: str = "process", kind: str = "process") -> dict[str, Any]:
        attributes = {
            "messaging.system": SYSTEM,
            "messaging.operation.name": operation,
            "messaging.operation.type": kind,
            "messaging.destination.name": attempt.queue,
            "messaging.message.id": str(attempt.id),
            "wakeboard.job_type": attempt.job_type,
            "wakeboard.run.uuid": str(attempt.uuid),
        }
        if attempt.schedule is not None:
            attributes["wakeboard.schedule"] = attempt.schedule
        if operation == "enqueue":
            return attributes
        return attributes | {"wakeboard.attempt": attempt.attempt, "wakeboard.lease_epoch": attempt.epoch}

    def _end(self, attempt: Attempt, error: BaseException | None) -> None:
        _, span = self._open.pop((attempt.id, attempt.epoch), (None, None))
        if span is None:  # the worker is ending
            return
        outcome, failed = _outcome(attempt, error)
        if failed is not None:
            span.add_event(
                "exception",
                {
                    "exception.type": failed.error_type,
                    "exception.message": failed.error,
                    "exception.stacktrace": failed.stack,
                },
            )
            fail(span, failed.error_type, failed.error)
        elif outcome == "lost":
            fail(span, "lease_lost")
        self._record(attempt, span, outcome, failed.error_type if failed is not None else None)

    def _record(self, attempt: Attempt, span: Span, outcome: str, error_type: str | None) -> None:
        span.set_attribute("wakeboard.outcome", outcome)
        attributes = _metric_attributes(attempt) | {"wakeboard.outcome": outcome}
        if error_type is not None:
            attributes["error.type"] = error_type
        in_span = trace.set_span_in_context(span)  # for exemplars
        self._duration.record(max(0.0, attempt.age_s() or 0.0), attributes, in_span)
        self._consumed.add(1, attributes, in_span)
        span.end()

    def flush(self, within_s: float) -> None:
        """End the spans of handlers that did not stop, and send what is left, within `within_s` seconds."""
        for key in list(self._open):
            attempt, span = self._open.pop(key, (None, None))
            if attempt is not None and span is not None:
                fail(span, "abandoned", "its handler did not stop")
                self._record(attempt, span, "abandoned", "abandoned")
        self._telemetry.flush(within_s)

    def log_fields(self, attempt: Attempt) -> dict[str, str]:
        """The ids of the current span, or of the attempt's, for its log records."""
        key = (attempt.id, attempt.epoch)
        inner = trace.get_current_span().get_span_context()
        trace_id = self._trace_ids.get(key)
        if trace_id is None:
            return {}
        span_id = inner.span_id if inner.trace_id == trace_id else span_id_of(attempt.uuid.bytes, attempt.epoch)
        return {"trace_id": f"{trace_id:032x}", "span_id": f"{span_id:016x}"}

    # -- within an attempt ---------------------------------------------------------------------------------------------

    def step(self, attempt: Attempt, name: str, function: Callable[..., Any], args: tuple[Any, ...]) -> Any:
        """As `Run.step`, in a span."""
        called = False

        def noted(*given: Any) -> Any:
            nonlocal called
            called = True
            return function(*given)

        def begin() -> Span:
            return self._tracer.start_span(f"step {name}", attributes={"wakeboard.step": name})

        if attempt.in_thread:
            with current(begin()) as span:
                result = Run.step(attempt, name, noted, *args)
                span.set_attribute("wakeboard.step.stored", not called)
                return result

        async def in_span() -> Any:
            with current(begin()) as span:
                result = await Run.step(attempt, name, noted, *args)
                span.set_attribute("wakeboard.step.stored", not called)
                return result

        return in_span()

    def once(self, attempt: Attempt, conn: Any, key: str, *, once: Once) -> Any:
        """As `Run.once`, in a span."""
        span = self._effect_span(key)
        with trace.use_span(span, end_on_exit=False):
            answer = Run.once(attempt, conn, key, once=once)
        if not isinstance(answer, Awaitable):
            span.set_attribute("wakeboard.effect.state", "new" if answer else "done")
            span.end()
            return answer

        async def in_span() -> Any:
            with current(span):
                is_new = await cast("Awaitable[Any]", answer)
                span.set_attribute("wakeboard.effect.state", "new" if is_new else "done")
                return is_new

        return in_span()

    def effect(self, attempt: Attempt, key: str, *, once: Once) -> Effect:
        """As `Run.effect`, in a span."""
        return cast("Effect", TracedEffect(Run.effect(attempt, key, once=once), lambda: self._effect_span(key)))

    def _effect_span(self, key: str) -> Span:
        return self._tracer.start_span("effect", attributes={"wakeboard.effect.key": key})

    def request(self, method: str, attributes: Mapping[str, Any]) -> RequestSpan:
        """The span of a request that the handler `http` sends."""
        given = {"http.request.method": method, **attributes}
        return RequestSpan(self._tracer.start_span(method, kind=SpanKind.CLIENT, attributes=given))

    # -- metrics -------------------------------------------------------------------------------------------------------

    def _observe_lost(self, _: CallbackOptions) -> Iterable[Observation]:
        return [Observation(self._counts.lost if self._counts is not None else 0, {"messaging.system": SYSTEM})]

    def _observe_backlog(self, _: CallbackOptions) -> Iterable[Observation]:
        return [
            Observation(due, {"messaging.system": SYSTEM, "messaging.destination.name": queue})
            for queue, due in self._backlog.items()
        ]


class TracedEffect:
    """An effect in a span. It has the attributes of `Effect`."""

    def __init__(self, effect: Effect, begin_span: Callable[[], Span]) -> None:
        self._effect, self._begin_span = effect, begin_span
        self._exits = ExitStack()
        self._async_exits = AsyncExitStack()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._effect, name)

    async def __aenter__(self) -> Self:
        async with AsyncExitStack() as exits:
            span = exits.enter_context(current(self._begin_span()))
            await exits.enter_async_context(self._effect)
            self._note_state(span)
            self._async_exits = exits.pop_all()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self._async_exits.__aexit__(kind, error, traceback)

    def __enter__(self) -> Self:
        with ExitStack() as exits:
            span = exits.enter_context(current(self._begin_span()))
            exits.enter_context(self._effect)
            self._note_state(span)
            self._exits = exits.pop_all()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._exits.__exit__(kind, error, traceback)

    def _note_state(self, span: Span) -> None:
        state = "done" if self._effect.done else "in doubt" if self._effect.in_doubt else "new"
        span.set_attribute("wakeboard.effect.state", state)


class RequestSpan:
    """The span of a request, within `with`. `headers`: those that carry the trace context to the server."""

    def __init__(self, span: Span) -> None:
        self._span, self._exits = span, ExitStack()
        self.headers: dict[str, str] = {}

    def __enter__(self) -> Self:
        self._exits.enter_context(current(self._span))
        propagate.inject(self.headers)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._exits.__exit__(kind, error, traceback)

    def answered(self, status: int) -> None:
        """Record the status of the response."""
        self._span.set_attribute("http.response.status_code", status)
        if status >= HTTPStatus.BAD_REQUEST:
            fail(self._span, str(status))


def _outcome(attempt: Attempt, error: BaseException | None) -> tuple[str, Failure | None]:
    """The outcome of an attempt, and its failure if it failed."""
    if attempt.abandoned:
        return "abandoned", None
    if attempt.lost:
        return "lost", None
    if error is None:
        return "succeeded", None
    ended = failure(attempt, error)
    if attempt.stopped_because == CANCELLED:
        return "cancelled", None
    return (ended.outcome, ended) if isinstance(ended, Failure) else (ended.reason, None)


def _metric_attributes(attempt: Attempt) -> dict[str, str]:
    return {
        "messaging.system": SYSTEM,
        "messaging.operation.name": "process",
        "messaging.destination.name": attempt.queue,
        "wakeboard.job_type": attempt.job_type,
    }


def _with_span(context: SpanContext, span_id: int) -> SpanContext:
    return SpanContext(context.trace_id, span_id, True, context.trace_flags, context.trace_state)  # noqa: FBT003


def _forget_oldest(known: dict[tuple[int, int], Any]) -> None:
    while len(known) > MAX_CONTEXTS:
        known.pop(next(iter(known)), None)
