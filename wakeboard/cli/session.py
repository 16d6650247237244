"""One visit to the board: which database, the connection, the moves, the views; and the one place with an event loop.

The database is the one of `--dsn` or WAKEBOARD_DSN, or else that of a `wakeboard up` that runs in the current folder,
or else what libpq's own PG* variables say.
"""

from __future__ import annotations

import asyncio
import json
import os
from contextvars import ContextVar
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from wakeboard.display_zone import in_zone
from wakeboard.errors import DatabaseUnavailable

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable
    from datetime import datetime

    from wakeboard.store.admin_api import AdminStore
    from wakeboard.store.connection import AsyncConnection
    from wakeboard.store.queries.listings import Listings

UP_FILE = Path(".wakeboard/up.json")  # written by `wakeboard up`: {"pid": …, "dsn": …}

_Answer = TypeVar("_Answer")
_given_dsn: ContextVar[str] = ContextVar("_given_dsn", default="")


@dataclass(frozen=True, slots=True)
class Session:
    """What a command works with. `now`: the database's clock when the visit began. `conn` is for `enqueue`."""

    conn: AsyncConnection
    store: AdminStore
    reports: Listings
    now: datetime


def use_dsn(dsn: str) -> None:
    """The database that was asked for; "" for none."""
    _given_dsn.set(dsn)


def given_dsn() -> str:
    """The database of --dsn or WAKEBOARD_DSN; "" if neither is said."""
    return _given_dsn.get() or os.environ.get("WAKEBOARD_DSN", "")  # shell completion passes over the parser


def database_dsn() -> str:
    """The database to visit; "" leaves it to libpq."""
    return given_dsn() or _dsn_of_up() or ""


def open_store(ask: Callable[[Session], Awaitable[_Answer]]) -> _Answer:
    """What `ask` answers. Raises WakeboardError: no connection, a schema that does not fit, or what `ask` says."""
    return asyncio.run(_visit(ask))


async def _visit(ask: Callable[[Session], Awaitable[_Answer]]) -> _Answer:
    from wakeboard.store.admin_api import AdminStore
    from wakeboard.store.connection import connect, require_schema
    from wakeboard.store.queries.listings import Listings

    dsn = database_dsn()
    try:
        conn = await connect(dsn, name="wakeboard cli")
    except DatabaseUnavailable as exc:
        raise exc if dsn else DatabaseUnavailable(f"{exc} {HOW_TO_SAY_WHICH}") from exc
    async with conn:
        await require_schema(conn)
        reports = Listings(conn)
        return await ask(Session(conn, AdminStore(conn), reports, in_zone(await reports.now())))


HOW_TO_SAY_WHICH = "Say which database with --dsn or WAKEBOARD_DSN, or start one with `wakeboard up`."


def _dsn_of_up() -> str | None:
    """The database of the `wakeboard up` that this user runs in the current folder."""
    try:
        if UP_FILE.stat().st_uid != os.geteuid():
            return None
        running = json.loads(UP_FILE.read_text("utf-8"))
        os.kill(running["pid"], 0)
        return running["dsn"]
    except (OSError, ValueError, KeyError, TypeError):
        return None
