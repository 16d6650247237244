"""Handlers that a worker and a FakeRun both run. Each returns all that it observed."""

from __future__ import annotations

import os
from typing import Any

import psycopg

import wakeboard


def _noted() -> dict[str, object]:
    """Its call is noted in a worker's database."""
    if dsn := os.environ.get("WAKEBOARD_DSN"):
        with psycopg.connect(dsn, autocommit=True) as conn:
            conn.execute("insert into calls values ('one')")
    return {"a": (1, 2)}


def _fails_first(attempt: int) -> int:
    if attempt == 1:
        raise ConnectionError
    return attempt


@wakeboard.handler("shared/steps")
async def steps(run: wakeboard.Run) -> Any:
    """Two steps, of which the second one fails at first."""
    return [await run.step("one", _noted), await run.step("two", _fails_first, run.attempt)]


@wakeboard.handler("shared/steps-plainly")
def steps_plainly(run: wakeboard.Run) -> Any:
    """The same in a thread."""
    return [run.step("one", _noted), run.step("two", _fails_first, run.attempt)]


@wakeboard.handler("shared/effects")
async def effects(run: wakeboard.Run) -> Any:
    """An effect in the database and two outside, of which one fails at first."""
    if dsn := os.environ.get("WAKEBOARD_DSN"):
        async with await psycopg.AsyncConnection.connect(dsn) as conn:
            first = await run.once(conn, "book")
            if first:
                await conn.execute("insert into calls values ('book')")
    else:
        first = await run.once(None, "book")
    async with run.effect("mail") as mail:
        pass
    async with run.effect("call") as call:
        _fails_first(run.attempt)
    return [first, mail.done, mail.in_doubt, call.done, call.in_doubt, call.provider_key]


@wakeboard.handler("shared/effects-plainly")
def effects_plainly(run: wakeboard.Run) -> Any:
    """The same in a thread."""
    if dsn := os.environ.get("WAKEBOARD_DSN"):
        with psycopg.connect(dsn) as conn:
            first = run.once(conn, "book")
            if first:
                conn.execute("insert into calls values ('book')")
    else:
        first = run.once(None, "book")
    with run.effect("mail") as mail:
        pass
    with run.effect("call") as call:
        _fails_first(run.attempt)
    return [first, mail.done, mail.in_doubt, call.done, call.in_doubt, call.provider_key]
