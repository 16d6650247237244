"""Handlers for the worker processes of these tests. Some have an effect in the database."""

from __future__ import annotations

import asyncio
import os

import psycopg

import wakeboard

DSN = os.environ["WAKEBOARD_DSN"]


@wakeboard.handler("quick")
async def quick(run: wakeboard.Run) -> None:
    """Does nothing."""


@wakeboard.handler("sleeps")
async def sleeps(run: wakeboard.Run) -> None:
    """Sleeps for an hour and needs no database."""
    await asyncio.sleep(3600)


@wakeboard.handler("pauses")
async def pauses(run: wakeboard.Run) -> None:
    """Takes a second."""
    await asyncio.sleep(1)


@wakeboard.handler("counts")
def counts(run: wakeboard.Run) -> None:
    """Has one effect immediately, in a thread."""
    with psycopg.connect(DSN) as conn:
        if run.once(conn, "count"):
            conn.execute("insert into effects values (%s, %s)", (run.id, os.getpid()))
