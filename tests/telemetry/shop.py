"""A web application with OpenTelemetry: `POST /JOB_TYPE` enqueues a run with the body as its payload.

It prints its port. `python -m tests.telemetry.shop` runs it.
"""

from __future__ import annotations

import json
import os
from http.server import BaseHTTPRequestHandler, HTTPServer

import psycopg
from opentelemetry import propagate, trace
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor

import wakeboard

DSN = os.environ["WAKEBOARD_DSN"]


class Shop(BaseHTTPRequestHandler):
    def do_POST(self) -> None:
        payload = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        context = propagate.extract(dict(self.headers))
        tracer = trace.get_tracer("shop")
        with (
            tracer.start_as_current_span(f"POST {self.path}", context, trace.SpanKind.SERVER),
            psycopg.connect(DSN) as conn,
        ):
            run = wakeboard.enqueue(conn, self.path[1:], payload, backoff_base_s=1, timeout_s=60)
        answer = str(run.id).encode()
        self.send_response(202)
        self.send_header("Content-Length", str(len(answer)))
        self.end_headers()
        self.wfile.write(answer)


def main() -> None:
    provider = TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(OTLPSpanExporter()))
    trace.set_tracer_provider(provider)
    server = HTTPServer(("127.0.0.1", 0), Shop)
    print(f"port {server.server_address[1]}", flush=True)  # noqa: T201 - the test reads it
    server.serve_forever()


if __name__ == "__main__":
    main()
