"""Handlers for workers with OpenTelemetry."""

from __future__ import annotations

import asyncio
import logging
import os
from pathlib import Path

import psycopg

import wakeboard

DSN = os.environ["WAKEBOARD_DSN"]
log = logging.getLogger("shop")


@wakeboard.handler("ship")
async def ship(run: wakeboard.Run) -> None:
    """Packs, then waits for the file that the payload names, if any, and labels."""
    await run.step("Pack", pack)
    if "gate" in run.payload:
        await opened(Path(run.payload["gate"]))
    async with run.effect("label") as effect:
        assert effect.provider_key
        assert not effect.done
        log.info("labelled")
    async with await psycopg.AsyncConnection.connect(DSN) as conn:
        await run.once(conn, "book")


async def opened(gate: Path) -> None:
    while not gate.exists():  # noqa: ASYNC110, ASYNC240 - the test makes the file, in another process
        await asyncio.sleep(0.02)


async def pack() -> str:
    log.info("packing")
    return "packed"


@wakeboard.handler("ship-plainly")
def ship_plainly(run: wakeboard.Run) -> None:
    """The same in a thread, without waiting."""
    run.step("Pack", lambda: log.info("packing"))
    with run.effect("label") as effect:
        assert not effect.in_doubt
    with psycopg.connect(DSN) as conn:
        run.once(conn, "book")


@wakeboard.handler("fails-once")
async def fails_once(run: wakeboard.Run) -> None:
    """Its error contains a credential."""
    if run.attempt == 1:
        raise ConnectionError("cannot connect to postgresql://app:hunter2@db/shop")
