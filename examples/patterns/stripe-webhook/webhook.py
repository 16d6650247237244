"""The web endpoint that Stripe calls. It checks the signature, enqueues a run in one transaction, and answers.

Run as a program, it is the companion process of this pattern: it creates the tables and starts provider.py, too.
"""

from __future__ import annotations

import os
import subprocess
import sys
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import psycopg
import stripe
import uvicorn
from psycopg_pool import AsyncConnectionPool
from starlette.applications import Starlette
from starlette.responses import Response
from starlette.routing import Route

import wakeboard

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator

    from starlette.requests import Request

DSN = os.environ["WAKEBOARD_DSN"]
HANDLED = ("customer.subscription.", "invoice.paid")  # by handlers.py
SECRET = os.environ["STRIPE_WEBHOOK_SECRET"]
MAX_BODY = 1 << 20  # bytes
pool = AsyncConnectionPool(DSN, min_size=2, open=False)


async def webhook(request: Request) -> Response:
    """Answers 200 once the run is committed, and 400 if the signature is wrong or older than five minutes.

    Until the signature is checked any sender may write the body: 413 if it is longer than any event of Stripe.
    """
    body = bytearray()
    async for chunk in request.stream():
        body += chunk
        if len(body) > MAX_BODY:
            return Response(status_code=413)
    try:
        event = stripe.Webhook.construct_event(
            bytes(body), request.headers.get("Stripe-Signature"), SECRET, tolerance=300
        )
    except (stripe.SignatureVerificationError, ValueError, TypeError):  # TypeError: a signature that is not ASCII
        return Response(status_code=400)
    if not event.type.startswith(HANDLED):  # the object of others may have no id
        return Response(status_code=200)
    payload = {"type": event.type, "object": event.data.object["id"]}
    async with pool.connection() as conn:
        await wakeboard.enqueue(conn, "stripe_event", payload, idempotency_key=event.id)
    return Response(status_code=200)


@asynccontextmanager
async def lifespan(_: Starlette) -> AsyncGenerator[None]:
    """Opens the pool, and starts the provider when the endpoint is about to answer."""
    async with pool:
        await pool.wait()
        provider = subprocess.Popen([sys.executable, "provider.py"])  # noqa: ASYNC220 - once, at the start
        yield
        provider.terminate()


def main() -> None:
    """Serves until SIGTERM."""
    with psycopg.connect(DSN) as conn:
        conn.execute(Path(__file__).with_name("schema.sql").read_bytes())
    app = Starlette(routes=[Route("/webhook", webhook, methods=["POST"])], lifespan=lifespan)
    uvicorn.run(app, host="127.0.0.1", port=int(os.environ["WEBHOOK_PORT"]), log_level="warning")


if __name__ == "__main__":
    main()
