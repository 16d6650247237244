"""Somebody else's web server, as far as the examples are concerned: it takes orders, on this machine alone.

Each delivery carries the run's uuid as its `Idempotency-Key`, the same in every attempt. So a receiver can take an
order once, however often it is delivered. To show a retry, this one is "just starting" when it first meets a key.
"""

from __future__ import annotations

import json
import signal
import sys
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

orders: dict[str, str] = {}  # Idempotency-Key -> what became of that order


class Receiver(BaseHTTPRequestHandler):
    """Answers POST with 503 at first, with 200 from then on."""

    def do_POST(self) -> None:
        """Takes one delivery."""
        self.rfile.read(int(self.headers.get("Content-Length", 0)))
        key = self.headers.get("Idempotency-Key", "")
        if key not in orders:
            orders[key] = "expected"
            self.answer(503, {"error": "just starting"}, {"Retry-After": "2"})
        elif orders[key] == "expected":
            orders[key] = "taken"
            self.answer(200, {"order": "taken", "orders": list(orders.values()).count("taken")})
        else:
            self.answer(200, {"order": "already here"})

    def answer(self, status: int, body: dict[str, object], headers: dict[str, str] | None = None) -> None:
        """Sends JSON."""
        text = json.dumps(body).encode()
        self.send_response(status)
        for name, value in {**(headers or {}), "Content-Type": "application/json", "Content-Length": len(text)}.items():
            self.send_header(name, str(value))
        self.end_headers()
        self.wfile.write(text)

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - its name in the standard library
        """Tells each request in one line, as the terminal of a web server would."""
        print(format % args, flush=True)


def main(port: int) -> None:
    """Serves until it is told to stop."""
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        server = ThreadingHTTPServer(("127.0.0.1", port), Receiver)
    except OSError as error:
        sys.exit(
            f"port {port} cannot be used ({error.strerror}): choose another in wakeboard.env and tell-partner.yaml"
        )
    try:
        server.serve_forever()
    except KeyboardInterrupt:
        server.server_close()


if __name__ == "__main__":
    main(int(sys.argv[1]))
