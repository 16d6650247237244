"""Connections of a campaign's own processes, which notice that a commit was not confirmed or the primary is another."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from wakeboard.store.reply_limit import LimitedBlockingConnection, LimitedConnection, ReplyLimit
from wakeboard.store.several_hosts import note_reached, ordered

if TYPE_CHECKING:
    import psycopg

REPLY_S: Final = 60.0
OPTIONS: Final[dict[str, Any]] = {"connect_timeout": 5, "tcp_user_timeout": 5000}


def connect(dsn: str, name: str, **options: Any) -> psycopg.Connection[Any]:
    """An autocommit connection. Raises psycopg.OperationalError."""
    given: dict[str, Any] = {"autocommit": True, "application_name": name, **OPTIONS, **options}
    conn = LimitedBlockingConnection.connect(ordered(dsn), **given)
    conn.reply_limit, conn.other_hosts = ReplyLimit(REPLY_S), note_reached(dsn, conn)
    return conn


async def connect_async(dsn: str, name: str) -> psycopg.AsyncConnection[Any]:
    """As `connect`, but each `async with` is a transaction."""
    conn = await LimitedConnection.connect(ordered(dsn), application_name=name, connect_timeout=5)
    conn.reply_limit, conn.other_hosts = ReplyLimit(REPLY_S), note_reached(dsn, conn)
    return conn
