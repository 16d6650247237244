"""OpenTelemetry for workers and operators: providers that send spans and metrics by OTLP, as the OTEL_* variables say.

Nothing is imported before `start`, and callers call it only if `is_configured`. Errors of the exporters are logged, and
affect no run.
"""

from __future__ import annotations

import logging
import os
import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Generator, Mapping

    from opentelemetry.metrics import Meter
    from opentelemetry.sdk.metrics import MeterProvider
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.trace import Span, Tracer

# These say where spans or metrics go. Without one, nothing is sent, not even to OpenTelemetry's default address.
DESTINATIONS: Final = (
    "OTEL_EXPORTER_OTLP_ENDPOINT",
    "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT",
    "OTEL_EXPORTER_OTLP_METRICS_ENDPOINT",
    "OTEL_TRACES_EXPORTER",
    "OTEL_METRICS_EXPORTER",
)
_EXPORTERS: Final = ("otlp", "console", "none")
log = logging.getLogger("wakeboard.telemetry")
_ids = threading.local()


def is_configured(environ: Mapping[str, str]) -> bool:
    """Whether an OTEL_* variable names a destination, and none disables OpenTelemetry."""
    if environ.get("OTEL_SDK_DISABLED", "").strip().lower() == "true":
        return False
    return any(environ.get(name, "").strip() not in {"", "none"} for name in DESTINATIONS)


class Telemetry:
    """The tracer and the meter of this process. `sends_spans`: spans have a destination."""

    def __init__(
        self, tracer: Tracer, meter: Meter, tracers: TracerProvider | None, meters: MeterProvider | None
    ) -> None:
        self.tracer, self.meter = tracer, meter
        self._tracers, self._meters = tracers, meters

    @property
    def sends_spans(self) -> bool:
        """Whether spans have a destination."""
        return self._tracers is not None

    def flush(self, within_s: float) -> None:
        """Send what is left, for at most `within_s` seconds. Nothing is recorded after that."""
        threads = [
            threading.Thread(target=provider.shutdown, name="telemetry", daemon=True)
            for provider in (self._tracers, self._meters)
            if provider is not None
        ]
        for thread in threads:
            thread.start()
        both = threading.Thread(target=lambda: [thread.join() for thread in threads], name="telemetry", daemon=True)
        both.start()
        both.join(within_s)
        if both.is_alive():
            log.warning("OpenTelemetry: spans or metrics could not be sent within %g s", within_s)


def start(service: str, attributes: Mapping[str, str]) -> Telemetry | None:
    """Start to send spans and metrics. `service` holds unless OTEL_SERVICE_NAME is set.

    None: OpenTelemetry is not installed, or a variable has a value that it cannot use; the log says which.
    """
    try:
        return _start(service, attributes)
    except ImportError as error:
        log.warning(
            "an OTEL_* variable is set, but the Python module %s is not installed: nothing is sent;"
            " type: pip install 'wakeboard[otel]'",
            error.name,
        )
    except Exception as error:  # noqa: BLE001 - runs matter more than their traces
        reason = " ".join(str(error).split()) or repr(error)
        log.warning("OpenTelemetry does not start, and nothing is sent: %s", reason)
    return None


def _start(service: str, attributes: Mapping[str, str]) -> Telemetry:
    from opentelemetry import metrics, propagate, trace
    from opentelemetry.sdk.metrics import MeterProvider
    from opentelemetry.sdk.metrics.export import PeriodicExportingMetricReader
    from opentelemetry.sdk.resources import Resource
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.export import BatchSpanProcessor
    from opentelemetry.sdk.trace.id_generator import RandomIdGenerator

    class _Ids(RandomIdGenerator):
        """Random ids, and inside of `with_ids` the given ones."""

        def generate_trace_id(self) -> int:
            return getattr(_ids, "trace_id", None) or super().generate_trace_id()

        def generate_span_id(self) -> int:
            return getattr(_ids, "span_id", None) or super().generate_span_id()

    propagate.get_global_textmap()  # its module has raised an error if OTEL_PROPAGATORS names one that is not installed
    named = "OTEL_SERVICE_NAME" in os.environ or "service.name=" in os.environ.get("OTEL_RESOURCE_ATTRIBUTES", "")
    resource = Resource.create({**attributes, **({} if named else {"service.name": service})})
    tracers = meters = None
    if (spans := _exporter("TRACES")) is not None:
        tracers = TracerProvider(resource=resource, id_generator=_Ids(), shutdown_on_exit=False)
        tracers.add_span_processor(BatchSpanProcessor(spans))
        trace.set_tracer_provider(tracers)  # spans of handlers and of instrumented libraries go the same way
    if (points := _exporter("METRICS")) is not None:
        meters = MeterProvider([PeriodicExportingMetricReader(points)], resource, shutdown_on_exit=False)
        metrics.set_meter_provider(meters)
    return Telemetry(
        trace.get_tracer("wakeboard", tracer_provider=tracers or trace.NoOpTracerProvider()),
        metrics.get_meter("wakeboard", meter_provider=meters or metrics.NoOpMeterProvider()),
        tracers,
        meters,
    )


def _exporter(signal: str) -> Any:
    """The exporter of TRACES or METRICS. None: this signal is not sent."""
    kind = os.environ.get(f"OTEL_{signal}_EXPORTER", "").strip() or "otlp"
    if kind not in _EXPORTERS:
        raise ValueError(f"OTEL_{signal}_EXPORTER is {kind!r}; write otlp, console or none")
    if kind == "none":
        return None
    if kind == "console":
        from opentelemetry.sdk.metrics.export import ConsoleMetricExporter
        from opentelemetry.sdk.trace.export import ConsoleSpanExporter

        return ConsoleSpanExporter() if signal == "TRACES" else ConsoleMetricExporter()
    general = os.environ.get("OTEL_EXPORTER_OTLP_PROTOCOL", "").strip()
    protocol = os.environ.get(f"OTEL_EXPORTER_OTLP_{signal}_PROTOCOL", "").strip() or general or "http/protobuf"
    if protocol != "http/protobuf":
        raise ValueError(f"the protocol {protocol!r} is not supported; set OTEL_EXPORTER_OTLP_PROTOCOL=http/protobuf")
    _check_address(signal)
    if signal == "TRACES":
        from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter

        return OTLPSpanExporter()
    from opentelemetry.exporter.otlp.proto.http.metric_exporter import OTLPMetricExporter

    return OTLPMetricExporter()


def _check_address(signal: str) -> None:
    """Raises ValueError for an address without a scheme, and does not repeat it.

    Every request to it would fail, and log the address: its password is not recognised without a scheme.
    """
    for name in (f"OTEL_EXPORTER_OTLP_{signal}_ENDPOINT", "OTEL_EXPORTER_OTLP_ENDPOINT"):
        address = os.environ.get(name, "").strip().lower()
        if address and not address.startswith(("http://", "https://")):
            raise ValueError(f"{name} must begin with http:// or https://")
        if address:
            return


@contextmanager
def with_ids(span_id: int, trace_id: int | None = None) -> Generator[None]:
    """A span that is started within has this id. `trace_id`: of its trace, if it begins one."""
    _ids.span_id, _ids.trace_id = span_id, trace_id
    try:
        yield
    finally:
        _ids.span_id = _ids.trace_id = None


@contextmanager
def current(span: Span) -> Generator[Span]:
    """Make `span` the current one, and end it. An error is recorded by its type: its message may contain a secret."""
    from opentelemetry.trace import use_span

    with use_span(span, end_on_exit=True, record_exception=False, set_status_on_exception=False):
        try:
            yield span
        except BaseException as error:
            fail(span, type(error).__qualname__)
            raise


def fail(span: Span, error_type: str, message: str | None = None) -> None:
    """Mark a span as failed."""
    from opentelemetry.trace import Status, StatusCode

    span.set_attribute("error.type", error_type)
    span.set_status(Status(StatusCode.ERROR, message))
