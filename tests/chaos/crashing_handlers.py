"""Handlers that worker processes of these tests run: they tell the database what they do, and some of them kill."""

from __future__ import annotations

import asyncio
import os
import signal

import psycopg

import wakeboard

DSN = os.environ["WAKEBOARD_DSN"]


def _say(conn: psycopg.Connection, run: wakeboard.Run, what: str) -> None:
    conn.execute("insert into witness (run_id, pid, what) values (%s, %s, %s)", (run.id, os.getpid(), what))


async def _gate_opens(conn: psycopg.Connection) -> None:
    while not conn.execute("select true from gate").fetchone():  # noqa: ASYNC110 - the event is a row, not in this process
        await asyncio.sleep(0.02)


@wakeboard.handler("quick")
async def quick(run: wakeboard.Run) -> None:
    """Does nothing, and is seen doing it."""


@wakeboard.handler("waits")
async def waits(run: wakeboard.Run) -> None:
    """Tells that it began, then waits until the gate opens."""
    with psycopg.connect(DSN, autocommit=True) as conn:
        _say(conn, run, "began")
        await _gate_opens(conn)
        _say(conn, run, "ended")


@wakeboard.handler("sleeps")
async def sleeps(run: wakeboard.Run) -> None:
    """Needs no database, and never comes to its end."""
    await asyncio.sleep(3600)


@wakeboard.handler("charges")
async def charges(run: wakeboard.Run) -> None:
    """Waits for the gate, then has its effect, once, in its own transaction."""
    with psycopg.connect(DSN, autocommit=True) as conn:
        _say(conn, run, "began")
        await _gate_opens(conn)
        with conn.transaction():
            if run.once(conn, "charge"):
                conn.execute("insert into ledger values (%s, %s)", (run.id, os.getpid()))
        _say(conn, run, "charged")


@wakeboard.handler("counts")
def counts(run: wakeboard.Run) -> None:
    """Has its effect at once; a sync handler in a thread."""
    with psycopg.connect(DSN) as conn:
        if run.once(conn, "count"):
            conn.execute("insert into ledger values (%s, %s)", (run.id, os.getpid()))


@wakeboard.handler("poison")
async def poison(run: wakeboard.Run) -> None:
    """Kills its worker, whoever else runs there."""
    with psycopg.connect(DSN, autocommit=True) as conn:
        _say(conn, run, "poisoned")
    os.kill(os.getpid(), signal.SIGKILL)


@wakeboard.handler("blocks")
async def blocks(run: wakeboard.Run) -> None:
    """Blocks the event loop for longer than a lease."""
    with psycopg.connect(DSN, autocommit=True) as conn:
        _say(conn, run, "began")
        conn.execute("select pg_sleep(5)")
        _say(conn, run, "ended")
