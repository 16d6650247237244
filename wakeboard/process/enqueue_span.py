"""The span of an enqueue, and the trace context that travels with its runs.

Only the application imports OpenTelemetry. Without it, or outside of a span, there is no span and no cost.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any, Final, Self

if TYPE_CHECKING:
    from types import TracebackType

SYSTEM: Final = "wakeboard"  # messaging.system


class EnqueueSpan:
    """A span of the application's tracer, within `with`. `traceparent`, `tracestate`: its trace context (W3C)."""

    def __init__(self, span: Any) -> None:
        self._span = span
        context = span.get_span_context()
        self.traceparent = f"00-{context.trace_id:032x}-{context.span_id:016x}-{context.trace_flags:02x}"
        self.tracestate: str | None = context.trace_state.to_header() or None

    def created(self, run_id: int) -> None:
        """Record the id of the run."""
        self._span.set_attribute("messaging.message.id", str(run_id))

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is not None:  # without the message, which may contain a value of the payload
            from opentelemetry.trace import Status, StatusCode

            self._span.set_attribute("error.type", kind.__qualname__)
            self._span.set_status(Status(StatusCode.ERROR))
        self._span.end()


def start_enqueue_span(job_type: str, queue: str, count: int = 1) -> EnqueueSpan | None:
    """Start the span of an enqueue of `count` runs. None: the caller is in no span."""
    trace = sys.modules.get("opentelemetry.trace")
    if trace is None or getattr(trace.__spec__, "_initializing", False):  # another thread imports it
        return None
    if not trace.get_current_span().get_span_context().is_valid:
        return None
    attributes: dict[str, Any] = {
        "messaging.system": SYSTEM,
        "messaging.operation.name": "enqueue",
        "messaging.operation.type": "send",
        "messaging.destination.name": queue,
        "wakeboard.job_type": job_type,
    }
    if count > 1:
        attributes["messaging.batch.message_count"] = count
    tracer = trace.get_tracer("wakeboard")
    return EnqueueSpan(tracer.start_span(f"enqueue {job_type}", kind=trace.SpanKind.PRODUCER, attributes=attributes))
