"""An OTLP collector on loopback: it decodes what processes send, and shows spans as trees."""

from __future__ import annotations

import gzip
import threading
from collections import defaultdict
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, Any, NamedTuple

from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from testbed.processes import wait_for

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterator

    from opentelemetry.proto.common.v1.common_pb2 import KeyValue


class SeenSpan(NamedTuple):
    """A span. `parent` is "" for a root. `links` are span ids. Times are in nanoseconds."""

    trace: str
    id: str
    parent: str
    name: str
    kind: int
    service: str
    attributes: dict[str, Any]
    links: list[str]
    failed: bool
    events: list[dict[str, Any]]
    began: int
    ended: int


class Point(NamedTuple):
    """A data point of a metric: the number, or the number of values of a histogram."""

    metric: str
    unit: str
    attributes: dict[str, Any]
    value: float
    resource: dict[str, Any]


class Collector:
    """`spans` and `points` in the order of their arrival."""

    def __init__(self) -> None:
        self.spans: list[SeenSpan] = []
        self.points: list[Point] = []
        self.status = 200
        self.port = 0

    @property
    def variables(self) -> dict[str, str]:
        """The environment of a process that sends everything here, soon."""
        return {"OTEL_EXPORTER_OTLP_ENDPOINT": f"http://127.0.0.1:{self.port}", "OTEL_BSP_SCHEDULE_DELAY": "100"}

    def wait_for_span(self, name: str, **attributes: Any) -> SeenSpan:
        def found() -> SeenSpan | None:
            return next((span for span in self.named(name) if attributes.items() <= span.attributes.items()), None)

        return wait_for(found, why=lambda: [span.name for span in self.spans])

    def named(self, name: str) -> list[SeenSpan]:
        return [span for span in list(self.spans) if span.name == name]

    def tree(self, trace: str) -> list[str]:
        """The names of a whole trace, indented by level and sorted by start. Fails if it is not one tree."""
        spans = sorted({span.id: span for span in self.spans if span.trace == trace}.values(), key=lambda s: s.began)
        children: defaultdict[str, list[SeenSpan]] = defaultdict(list)
        for span in spans:
            children[span.parent].append(span)

        def lines(parent: str, level: int) -> Iterator[str]:
            for span in children[parent]:
                yield "  " * level + span.name
                yield from lines(span.id, level + 1)

        tree = list(lines("", 0))
        assert len(tree) == len(spans), f"spans without a parent: {spans}"
        assert len(children[""]) == 1, f"several roots: {tree}"
        return tree

    def total(self, metric: str, **attributes: Any) -> float:
        """The sum of the newest points of a metric that have these attributes."""
        newest: dict[str, float] = {}
        for point in self.points:
            if point.metric == metric and attributes.items() <= point.attributes.items():
                newest[str((point.attributes, point.resource))] = point.value
        return sum(newest.values())

    def take(self, path: str, body: bytes) -> None:
        if path == "/v1/traces":
            for resource in ExportTraceServiceRequest.FromString(body).resource_spans:
                service = values(resource.resource.attributes)["service.name"]
                for scope in resource.scope_spans:
                    self.spans += [_seen(span, service) for span in scope.spans]
        elif path == "/v1/metrics":
            for resource in ExportMetricsServiceRequest.FromString(body).resource_metrics:
                described = values(resource.resource.attributes)
                for scope in resource.scope_metrics:
                    for metric in scope.metrics:
                        self.points += _points(metric, described)


def values(attributes: Any) -> dict[str, Any]:
    """Attributes as a dict."""

    def value(pair: KeyValue) -> Any:
        return getattr(pair.value, pair.value.WhichOneof("value") or "string_value")

    return {pair.key: value(pair) for pair in attributes}


def _seen(span: Any, service: str) -> SeenSpan:
    return SeenSpan(
        span.trace_id.hex(),
        span.span_id.hex(),
        span.parent_span_id.hex(),
        span.name,
        span.kind,
        service,
        values(span.attributes),
        [link.span_id.hex() for link in span.links],
        span.status.code == span.status.STATUS_CODE_ERROR,
        [values(event.attributes) for event in span.events],
        span.start_time_unix_nano,
        span.end_time_unix_nano,
    )


def _points(metric: Any, resource: dict[str, Any]) -> Iterator[Point]:
    data = getattr(metric, metric.WhichOneof("data"))
    for point in data.data_points:
        value = point.count if metric.HasField("histogram") else getattr(point, point.WhichOneof("value"))
        yield Point(metric.name, metric.unit, values(point.attributes), value, resource)


@contextmanager
def collecting() -> Generator[Collector]:
    """A collector while the block runs."""
    collector = Collector()
    server = ThreadingHTTPServer(("127.0.0.1", 0), _handler(collector))
    collector.port = server.server_address[1]
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield collector
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def _handler(collector: Collector) -> Callable[..., BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            if self.headers["Content-Encoding"] == "gzip":
                body = gzip.decompress(body)
            if collector.status == 200:
                collector.take(self.path, body)
            self.send_response(collector.status)
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - its name in the standard library
            pass

    return Handler
