"""Spans of the leader's work: reconciling and writing statuses. Without OTEL_* variables `span` does nothing."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

from wakeboard import __version__
from wakeboard.process import telemetry

if TYPE_CHECKING:
    from collections.abc import Generator

FLUSH_S: Final = 3.0  # how long the end of the operator waits until spans are sent


class _Process:
    """What this process sends with; None: nothing."""

    telemetry: telemetry.Telemetry | None = None


def start(identity: str) -> None:
    """Start to send spans. `identity`: of this replica. An OTEL_* variable names a destination."""
    attributes = {"service.version": __version__, "service.instance.id": identity}
    _Process.telemetry = telemetry.start("wakeboard-operator", attributes)


def flush() -> None:
    """Send what is left."""
    if _Process.telemetry is not None:
        _Process.telemetry.flush(FLUSH_S)


@contextmanager
def span(name: str, attributes: dict[str, str | int] | None = None, *, is_request: bool = False) -> Generator[None]:
    """A span of the block, if they are sent. `is_request`: the block is a request to the API server."""
    if _Process.telemetry is None:
        yield
        return
    from opentelemetry.trace import SpanKind

    kind = SpanKind.CLIENT if is_request else SpanKind.INTERNAL
    with telemetry.current(_Process.telemetry.tracer.start_span(name, kind=kind, attributes=attributes)):
        yield
