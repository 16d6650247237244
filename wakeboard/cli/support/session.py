"""The database session of a command: which database, the connection, the queries. The event loop starts here.

The database is the one of `--dsn` or WAKEBOARD_DSN. Without them it is that of a `wakeboard up` that runs the current
folder or was started in it, or else the one that libpq's PG* variables name.
"""

from __future__ import annotations

import asyncio
import os
from contextvars import ContextVar
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeVar

from wakeboard.errors import DatabaseUnavailable, SchemaMismatch
from wakeboard.process.display_zone import in_zone
from wakeboard.process.running_up import UP_FILE, running_up
from wakeboard.process.system_user import system_user

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable
    from datetime import datetime

    from wakeboard.actions.admin_api import AdminStore
    from wakeboard.store.connection import AsyncConnection
    from wakeboard.views.queries.listings import Listings

UP_LOG = UP_FILE.parent / "postgres.log"  # exists if `up` has had an embedded Postgres in this folder
STOPPED_HINT = "The database in .wakeboard/ is stopped: start it with `wakeboard up DIR`, or name another with --dsn."
DSN_HINT = "Name a database with --dsn or WAKEBOARD_DSN, or start one with `wakeboard up`."

_Result = TypeVar("_Result")
_explicit_dsn: ContextVar[str] = ContextVar("_explicit_dsn", default="")


@dataclass(frozen=True, slots=True)
class CommandSession:
    """An open connection and its APIs. `now`: the database's clock at the start. `conn` is for `enqueue`."""

    conn: AsyncConnection
    store: AdminStore
    listings: Listings
    now: datetime


def set_dsn(dsn: str) -> None:
    """Stores the value of --dsn; "" for none."""
    _explicit_dsn.set(dsn)


def explicit_dsn() -> str:
    """The DSN of --dsn or WAKEBOARD_DSN; "" if neither is given."""
    return _explicit_dsn.get() or os.environ.get("WAKEBOARD_DSN", "")  # shell completion does not parse --dsn


def database_dsn() -> str:
    """The DSN to connect to; "" leaves the choice to libpq."""
    return explicit_dsn() or running_up().get("dsn", "")


def dsn_hint() -> str:
    """What to do if no database is named and none answers."""
    return STOPPED_HINT if UP_LOG.exists() else DSN_HINT


def with_session(use: Callable[[CommandSession], Awaitable[_Result]]) -> _Result:
    """Connects, checks the schema, and returns the result of `use`. Raises WakeboardError."""
    return asyncio.run(_with_session(use))


def query_store(query: Callable[[CommandSession], Awaitable[_Result]]) -> tuple[_Result, datetime]:
    """The result of `query`, and the database's clock at the start of the session. Raises WakeboardError."""

    async def query_and_now(session: CommandSession) -> tuple[_Result, datetime]:
        return await query(session), session.now

    return with_session(query_and_now)


async def _with_session(use: Callable[[CommandSession], Awaitable[_Result]]) -> _Result:
    from wakeboard.actions.admin_api import AdminStore
    from wakeboard.store.connection import connect, require_schema
    from wakeboard.views.queries.listings import Listings

    dsn = database_dsn()
    try:
        conn = await connect(dsn, name="wakeboard cli")
    except DatabaseUnavailable as exc:
        raise exc if dsn else DatabaseUnavailable(f"{exc} {dsn_hint()}") from exc
    async with conn:
        try:
            await require_schema(conn)
        except SchemaMismatch as exc:
            raise SchemaMismatch(f"{exc} {STOPPED_HINT}") if not dsn and UP_LOG.exists() else exc from exc
        listings = Listings(conn)
        store = AdminStore(conn, actor=system_user(), source="cli")
        return await use(CommandSession(conn, store, listings, in_zone(await listings.now())))
