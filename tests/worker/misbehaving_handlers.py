"""Async handlers that misbehave or take a long time."""

from __future__ import annotations

import asyncio
import logging
import os
import time

import psycopg

import wakeboard

DSN = os.environ["WAKEBOARD_DSN"]


def _record(what: str) -> None:
    with psycopg.connect(DSN, autocommit=True) as conn:
        conn.execute("insert into calls values (%s)", (what,))


@wakeboard.handler("does-nothing")
async def does_nothing(run: wakeboard.Run) -> None:
    """Is over in its first step."""


@wakeboard.handler("naps")
async def naps(run: wakeboard.Run) -> None:
    """Waits for as long as its payload says."""
    await asyncio.sleep(run.payload["seconds"])


@wakeboard.handler("blocks-at-once")
async def blocks_at_once(run: wakeboard.Run) -> None:
    """Blocks the event loop before it has waited for anything."""
    _record("began")
    time.sleep(run.payload.get("seconds", 4))  # noqa: ASYNC251 - that is the misbehaviour
    _record("ended")


@wakeboard.handler("never-comes-back")
async def never_comes_back(run: wakeboard.Run) -> None:
    """Blocks the event loop for ever."""
    while True:
        time.sleep(1)  # noqa: ASYNC251 - that is the misbehaviour


@wakeboard.handler("logs-hostile-text")
async def logs_hostile_text(run: wakeboard.Run) -> None:
    """Logs and raises a text of an outsider that is expensive to search for credentials, and waits in between."""
    for _ in range(3):
        run.log.warning("the server answered %s", "://" * 300_000)
        await asyncio.sleep(0)
    raise wakeboard.Discard("://" * 300_000)


@wakeboard.handler("grinds")
async def grinds(run: wakeboard.Run) -> None:
    """Never waits, and takes its time."""
    time.sleep(0.02)  # noqa: ASYNC251 - that is the misbehaviour


@wakeboard.handler("never-stops")
async def never_stops(run: wakeboard.Run) -> None:
    """Swallows every cancellation."""
    while True:
        try:
            await asyncio.sleep(3600)
        except asyncio.CancelledError:
            continue


@wakeboard.handler("cancels-itself")
async def cancels_itself(run: wakeboard.Run) -> None:
    """Cancels the task that it runs in."""
    task = asyncio.current_task()
    assert task is not None
    task.cancel()
    await asyncio.sleep(0)


@wakeboard.handler("logs")
async def logs(run: wakeboard.Run) -> None:
    """Logs as any code does, without asking the run for a logger."""
    logging.getLogger("myapp").info("a line of mine")


@wakeboard.handler("loses-its-connection")
async def loses_its_connection(run: wakeboard.Run) -> int:
    """Makes a step after the connection for steps was terminated."""
    await run.step("first", lambda: 1)
    with psycopg.connect(DSN, autocommit=True) as conn:
        conn.execute(
            "select pg_terminate_backend(pid) from pg_stat_activity where application_name like 'wakeboard handlers%'"
        )
    return await run.step("second", lambda: 2)
