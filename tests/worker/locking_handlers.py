"""Handlers that hang in their own transaction, and one that does nothing."""

from __future__ import annotations

import asyncio
import os
import time
from typing import Any

import psycopg

import wakeboard


def _note(run: Any, what: str) -> None:
    with psycopg.connect(os.environ["WAKEBOARD_DSN"], autocommit=True) as conn:
        conn.execute("insert into calls values (%s)", (f"{what} {run.id} {run.attempt}",))


@wakeboard.handler("hang_behind_once")
def hang_behind_once(run: wakeboard.Run) -> None:
    """The lock of `once` remains until the server ends this transaction."""
    with psycopg.connect(os.environ["WAKEBOARD_DSN"]) as conn:
        run.once(conn, "charge")
        _note(run, "began")
        time.sleep(300)


@wakeboard.handler("wait_in_once")
def wait_in_once(run: wakeboard.Run) -> None:
    """Waits for the transaction that has the same effect."""
    with psycopg.connect(os.environ["WAKEBOARD_DSN"]) as conn:
        run.once(conn, "charge")


@wakeboard.handler("hang_behind_its_own_lock")
def hang_behind_its_own_lock(run: Any) -> None:
    """The same with a direct call: the worker does not know the connection."""
    lease = run.context.worker_id, run.id, run.uuid, run.epoch
    with psycopg.connect(os.environ["WAKEBOARD_DSN"]) as conn:
        conn.execute("select wakeboard.once(%s, %s, %s, %s, 'charge')", lease)
        _note(run, "began")
        time.sleep(300)


@wakeboard.handler("linger")
async def linger(run: wakeboard.Run) -> str:
    """Takes a second."""
    _note(run, "began")
    await asyncio.sleep(1.0)
    return "lingered"


@wakeboard.handler("count")
async def count(run: wakeboard.Run) -> int:
    """Does nothing."""
    return run.attempt


async def _opened() -> None:
    """Waits until the test has opened the gate."""
    async with await psycopg.AsyncConnection.connect(os.environ["WAKEBOARD_DSN"], autocommit=True) as conn:
        while not await (await conn.execute("select 1 from calls where name = 'open'")).fetchone():  # noqa: ASYNC110
            await asyncio.sleep(0.05)


@wakeboard.handler("limited")
async def limited(run: wakeboard.Run) -> None:
    """The provider answers 429."""
    _note(run, "began")
    await _opened()
    _note(run, "raises")
    raise wakeboard.RetryAfter(3600, limit=True)


@wakeboard.handler("fail")
async def fail(run: wakeboard.Run) -> None:
    """Fails."""
    raise ValueError(run.id)


@wakeboard.handler("once_behind_a_lock")
def once_behind_a_lock(run: wakeboard.Run) -> None:
    """Calls `run.once` when the gate is open."""
    _note(run, "began")
    asyncio.run(_opened())
    with psycopg.connect(os.environ["WAKEBOARD_DSN"]) as conn:
        run.once(conn, "charge")
