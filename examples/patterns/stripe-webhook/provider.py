"""Plays Stripe on this machine, and misbehaves: an API with the current state, and webhooks with what happened.

- Events arrive in a random order, and one in three is delivered twice or three times, some of them at the same moment.
- An invoice can have two events with different ids.
- One request in twenty of the API fails (500).
- It also sends what an attacker would: events with a wrong signature or a signature of yesterday.

When all events are delivered, truth.json has the final state and the times of the answers.
"""

from __future__ import annotations

import hashlib
import hmac
import http.client
import json
import os
import random
import time
from concurrent.futures import ThreadPoolExecutor
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

OUT = Path(os.environ.get("PATTERN_OUT") or Path(__file__).with_name("out"))
CHANGES = ("incomplete", "trialing", "active", "past_due", "active", "canceled")
ROUND_S = 0.5  # between two changes of a subscription
SENDERS = 32
START = int(time.time())  # ids are new after a restart
LATE_S = 2.0  # a delivery is at most so late


class Stripe:
    """The objects, and the log of what was answered."""

    def __init__(self, count: int) -> None:
        self.subscriptions = {f"sub_{number}": CHANGES[0] for number in range(count)}
        self.invoices: dict[str, int] = {}
        self.answers_ms: list[float] = []
        self.forged_accepted = 0

    def object(self, kind: str, name: str) -> dict[str, Any] | None:
        """An object as the API shows it."""
        if kind == "subscriptions" and name in self.subscriptions:
            return {"id": name, "object": "subscription", "status": self.subscriptions[name]}
        if kind == "invoices" and name in self.invoices:
            return {"id": name, "object": "invoice", "amount_paid": self.invoices[name]}
        return None

    def change(self, number: int) -> list[dict[str, Any]]:
        """One change of each subscription. Returns the events."""
        events: list[dict[str, Any]] = []
        for name in self.subscriptions:
            self.subscriptions[name] = CHANGES[number]
            events.append(event("customer.subscription.updated", name, f"{name}_{number}"))
            if CHANGES[number] == "active":
                invoice = f"in_{START}_{name}_{number}"
                self.invoices[invoice] = 100 * number
                events += [event("invoice.paid", invoice, f"{invoice}_{copy}") for copy in range(random.choice((1, 2)))]
        return events


def event(kind: str, name: str, number: str) -> dict[str, Any]:
    """An event, without what this example does not use."""
    return {"id": f"evt_{START}_{number}", "object": "event", "type": kind, "data": {"object": {"id": name}}}


def deliver(stripe: Stripe, body: str, header: str, *, forged: bool = False) -> None:
    """Delivers an event until the endpoint answers 2xx. A forged one is delivered once."""
    time.sleep(random.uniform(0, LATE_S))
    while True:
        began = time.perf_counter()
        connection = http.client.HTTPConnection("127.0.0.1", int(os.environ["WEBHOOK_PORT"]), timeout=10)
        try:
            connection.request("POST", "/webhook", body, {"Stripe-Signature": header})
            accepted = connection.getresponse().status == 200
            stripe.answers_ms.append((time.perf_counter() - began) * 1000)
        except OSError:
            accepted = False
        finally:
            connection.close()
        if forged:
            stripe.forged_accepted += accepted
        if accepted or forged:
            return
        time.sleep(0.5)


def sign(body: str, secret: str, at: float) -> str:
    """The value of Stripe-Signature."""
    stamp = int(at)
    digest = hmac.new(secret.encode(), f"{stamp}.{body}".encode(), hashlib.sha256).hexdigest()
    return f"t={stamp},v1={digest}"


def api(stripe: Stripe) -> type[BaseHTTPRequestHandler]:
    """GET /v1/KIND/ID."""

    class Api(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            *_, kind, name = self.path.partition("?")[0].split("/")
            if name == "subscriptions":
                data = [stripe.object(name, each) for each in stripe.subscriptions]
                self.answer(200, {"object": "list", "url": "/v1/subscriptions", "has_more": False, "data": data})
            elif random.random() < 0.05:
                self.answer(500, {"error": {"type": "api_error", "message": "an error of this example"}})
            else:
                found = stripe.object(kind, name)
                self.answer(200 if found else 404, found or {"error": {"message": f"no such object: {name}"}})

        def answer(self, status: int, body: dict[str, Any]) -> None:
            text = json.dumps(body).encode()
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(text)))
            self.end_headers()
            self.wfile.write(text)

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - its name in the standard library
            pass

    return Api


def main() -> None:
    """Serves the API, and delivers every event."""
    OUT.mkdir(parents=True, exist_ok=True)
    secret = os.environ["STRIPE_WEBHOOK_SECRET"]
    stripe = Stripe(int(os.environ["STRIPE_SUBSCRIPTIONS"]))
    server = ThreadingHTTPServer(("127.0.0.1", int(os.environ["STRIPE_API_PORT"])), api(stripe))
    Thread(target=server.serve_forever, daemon=True).start()
    with ThreadPoolExecutor(SENDERS) as senders:
        for number in range(1, len(CHANGES)):
            events = stripe.change(number)
            random.shuffle(events)
            for each in events:
                body = json.dumps(each)
                for _ in range(random.choice((1, 1, 1, 1, 2, 3))):
                    senders.submit(deliver, stripe, body, sign(body, secret, time.time()))
            forged = json.dumps(event("invoice.paid", "in_forged", f"forged_{number}"))
            senders.submit(deliver, stripe, forged, sign(forged, "guessed", time.time()), forged=True)
            senders.submit(deliver, stripe, forged, sign(forged, secret, time.time() - 86_400), forged=True)
            time.sleep(ROUND_S)
    truth = {name: getattr(stripe, name) for name in ("subscriptions", "invoices", "answers_ms", "forged_accepted")}
    (OUT / "truth.new").write_text(json.dumps(truth), encoding="utf-8")
    (OUT / "truth.new").replace(OUT / "truth.json")
    print(f"{len(stripe.answers_ms)} deliveries are answered", flush=True)
    while True:
        time.sleep(60)


if __name__ == "__main__":
    main()
