"""Handlers for the worker processes of these tests. They record events in the database; some kill their worker."""

from __future__ import annotations

import asyncio
import os

import psycopg

import wakeboard

DSN = os.environ["WAKEBOARD_DSN"]


def _record(conn: psycopg.Connection, run: wakeboard.Run, event: str) -> None:
    conn.execute("insert into events (run_id, pid, what) values (%s, %s, %s)", (run.id, os.getpid(), event))


async def _wait_for_gate(conn: psycopg.Connection) -> None:
    while not conn.execute("select true from gate").fetchone():  # noqa: ASYNC110 - the event is a row, not in this process
        await asyncio.sleep(0.02)


@wakeboard.handler("quick")
async def quick(run: wakeboard.Run) -> None:
    """Does nothing."""


@wakeboard.handler("sleeps")
async def sleeps(run: wakeboard.Run) -> None:
    """Sleeps for an hour and needs no database."""
    await asyncio.sleep(3600)


@wakeboard.handler("charges")
async def charges(run: wakeboard.Run) -> None:
    """Waits for the gate, then has one effect through `once`, in its own transaction."""
    with psycopg.connect(DSN, autocommit=True) as conn:
        _record(conn, run, "began")
        await _wait_for_gate(conn)
        with conn.transaction():
            if run.once(conn, "charge"):
                conn.execute("insert into effects values (%s, %s)", (run.id, os.getpid()))
        _record(conn, run, "charged")


@wakeboard.handler("counts")
def counts(run: wakeboard.Run) -> None:
    """Has one effect immediately, in a thread."""
    with psycopg.connect(DSN) as conn:
        if run.once(conn, "count"):
            conn.execute("insert into effects values (%s, %s)", (run.id, os.getpid()))
