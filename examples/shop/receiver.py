"""A web server that accepts orders from notify-partner.yaml, on this machine only.

Each request has the run's uuid as its `Idempotency-Key`, the same in every attempt, so the receiver can accept an order
once however often it is delivered. To show a retry, it answers the first request of each key with 503.
"""

from __future__ import annotations

import json
import signal
import sys
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

orders: dict[str, str] = {}  # Idempotency-Key -> "expected" or "accepted"


class Receiver(BaseHTTPRequestHandler):
    """Answers the first POST of a key with 503 and later ones with 200."""

    def do_POST(self) -> None:
        """Accepts one order."""
        self.rfile.read(int(self.headers.get("Content-Length", 0)))
        key = self.headers.get("Idempotency-Key", "")
        if key not in orders:
            orders[key] = "expected"
            self.answer(503, {"error": "just starting"}, {"Retry-After": "2"})
        elif orders[key] == "expected":
            orders[key] = "accepted"
            self.answer(200, {"order": "accepted", "orders": list(orders.values()).count("accepted")})
        else:
            self.answer(200, {"order": "already accepted"})

    def answer(self, status: int, body: dict[str, object], headers: dict[str, str] | None = None) -> None:
        """Sends a JSON response."""
        text = json.dumps(body).encode()
        self.send_response(status)
        for name, value in {**(headers or {}), "Content-Type": "application/json", "Content-Length": len(text)}.items():
            self.send_header(name, str(value))
        self.end_headers()
        self.wfile.write(text)

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - its name in the standard library
        """Prints one line per request."""
        print(format % args, flush=True)


def main(port: int) -> None:
    """Serves until SIGINT or SIGTERM."""
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        server = ThreadingHTTPServer(("127.0.0.1", port), Receiver)
    except OSError as error:
        sys.exit(
            f"port {port} cannot be used ({error.strerror}): choose another in wakeboard.env and notify-partner.yaml"
        )
    try:
        server.serve_forever()
    except KeyboardInterrupt:
        server.server_close()


if __name__ == "__main__":
    main(int(sys.argv[1]))
