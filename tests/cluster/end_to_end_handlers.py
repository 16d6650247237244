"""Handlers of the end-to-end test: a ConfigMap carries this file into the pods of a pool."""

from __future__ import annotations

import asyncio
import os

import psycopg

import wakeboard

DSN = os.environ["WAKEBOARD_DSN"]
FOR_EVER_S = 600


@wakeboard.handler("hangs_once")
async def hangs_once(run: wakeboard.Run) -> str:
    """The first attempt hangs, later ones return."""
    async with await psycopg.AsyncConnection.connect(DSN) as conn:
        first = await run.once(conn, "hang")
    if first:
        await asyncio.sleep(FOR_EVER_S)
    return "taken over"


@wakeboard.handler("counts")
async def counts(run: wakeboard.Run) -> int:
    """What the payload says."""
    return run.payload["number"]
