"""What Stripe reports, applied once and in any order. docs/patterns/stripe-webhook.md says why."""

from __future__ import annotations

import logging
import os
from typing import Any

import psycopg
import stripe

import wakeboard

DSN = os.environ["WAKEBOARD_DSN"]
API = f"http://127.0.0.1:{os.environ['STRIPE_API_PORT']}"
logging.getLogger("stripe").setLevel(logging.WARNING)  # it logs every request


@wakeboard.handler("stripe_event")
def stripe_event(run: wakeboard.Run) -> dict[str, Any]:
    """Applies one event. Its payload names the object; the state comes from Stripe."""
    kind, name = run.payload["type"], run.payload["object"]
    try:
        if kind.startswith("customer.subscription."):
            return {"subscription": name, "status": sync_subscription(name)}
        if kind == "invoice.paid":
            return {"invoice": name, "credited by this run": credit_invoice(run, name)}
    except stripe.RateLimitError as error:
        raise wakeboard.RetryAfter(5, str(error)) from error
    except (stripe.APIConnectionError, stripe.APIError) as error:
        raise wakeboard.RetryAfter(1, str(error)) from error
    return {"ignored": kind}


@wakeboard.handler("reconcile_subscriptions")
def reconcile_subscriptions(run: wakeboard.Run) -> dict[str, int]:
    """Reads all subscriptions again, in case an event was never delivered."""
    found = [each.id for each in client().v1.subscriptions.list({"status": "all"}).auto_paging_iter()]
    for done, subscription in enumerate(found, start=1):
        sync_subscription(subscription)
        run.progress(done / len(found))
    return {"subscriptions": len(found)}


def sync_subscription(name: str) -> str:
    """Copies the current state. The lock is held while Stripe is asked, so that the later answer is stored last."""
    with psycopg.connect(DSN) as conn:
        conn.execute("select pg_advisory_xact_lock(hashtextextended(%s, 0))", (name,))
        status = client().v1.subscriptions.retrieve(name).status
        conn.execute(
            "insert into subscriptions values (%s, %s) on conflict (id) do update set status = excluded.status",
            (name, status),
        )
    return status


def credit_invoice(run: wakeboard.Run, name: str) -> bool:
    """Credits an invoice once, whatever the number of events, deliveries and attempts."""
    invoice = client().v1.invoices.retrieve(name)
    with psycopg.connect(DSN) as conn:
        first = run.once(conn, f"credit:{name}", once="forever")
        if first:
            conn.execute("insert into credits values (%s, %s)", (name, invoice.amount_paid))
    return first


def client() -> stripe.StripeClient:
    """A client with a timeout, which leaves the retries to the run."""
    http = stripe.RequestsClient(timeout=10)
    return stripe.StripeClient(
        os.environ["STRIPE_API_KEY"], base_addresses={"api": API}, http_client=http, max_network_retries=0
    )
