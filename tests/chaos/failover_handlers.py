"""Handlers of runs that a failover loses, and of those that get the same ids. The tag in its payload names the run."""

from __future__ import annotations

import asyncio
import os
import time
from pathlib import Path

import psycopg

import wakeboard

DSN = os.environ["WAKEBOARD_DSN"]
PAID = "insert into paid values (%s, %s)"


def touch(run: wakeboard.Run, event: str) -> None:
    """Says to the test what the handler does."""
    Path(f"{run.payload['events']}.{event}").touch()


@wakeboard.handler("coroutine")
async def coroutine(run: wakeboard.Run) -> str:
    """Waits for its gate. Then it has a step, an effect and a payment, if it has `notes`."""
    tag, gate = run.payload["tag"], Path(run.payload["gate"])
    touch(run, "began")
    try:
        while not gate.exists():  # noqa: ASYNC110, ASYNC240 - the event is a file of the test
            await asyncio.sleep(0.02)
        if run.payload["notes"]:
            await run.step("tag", lambda: tag)
            async with run.effect("mail"):
                pass
            async with await psycopg.AsyncConnection.connect(DSN) as conn:
                if await run.once(conn, "pay"):
                    await conn.execute(PAID, (run.uuid, tag))
        return tag
    finally:
        touch(run, "ended")


@wakeboard.handler("plain")
def plain(run: wakeboard.Run) -> str:
    """The same in a thread."""
    tag, gate = run.payload["tag"], Path(run.payload["gate"])
    touch(run, "began")
    try:
        while not gate.exists():
            time.sleep(0.02)
        if run.payload["notes"]:
            run.step("tag", lambda: tag)
            with run.effect("mail"):
                pass
            with psycopg.connect(DSN) as conn:
                if run.once(conn, "pay"):
                    conn.execute(PAID, (run.uuid, tag))
        return tag
    finally:
        touch(run, "ended")
