"""Connections to the board, and what their errors mean to a person.

The baseline is PgBouncer in transaction mode: nothing here depends on session state, and statements are prepared only
where a setting says that the connection is direct.
"""

from __future__ import annotations

import os
import re
import socket
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import psycopg
from psycopg.conninfo import conninfo_to_dict

from wakeboard import __version__
from wakeboard.errors import (
    DatabaseUnavailable,
    InvalidValue,
    KeyReused,
    LeadershipLost,
    LeaseLost,
    SchemaMismatch,
    WakeboardError,
)

if TYPE_CHECKING:
    from collections.abc import Mapping

CONNECT_TIMEOUT = 10  # seconds
SCHEMA_VERSION = 6  # the newest migration that this release was written for

# Read only (a failover); deadlocks; no memory, disk or connections; a lock; statement_timeout; unreadable files.
FOR_NOW = ("25006", "40", "53", "55P03", "57014", "58")

# The server notices a vanished client, and the client a vanished server, within half a minute.
_KEEPALIVE: Mapping[str, Any] = {
    "keepalives_idle": 10,
    "keepalives_interval": 5,
    "keepalives_count": 3,
    "tcp_user_timeout": 30_000,
}


async def connect(
    dsn: str, *, prepared_statements: bool = False, name: str = "wakeboard"
) -> psycopg.AsyncConnection[Any]:
    """Opens an autocommit connection. Raises DatabaseUnavailable in one sentence that names the place."""
    try:
        return await psycopg.AsyncConnection.connect(
            dsn, **_options(dsn, name, prepared_statements=prepared_statements)
        )
    except psycopg.Error as exc:
        raise unavailable(dsn, exc) from exc


def connect_blocking(
    dsn: str, *, prepared_statements: bool = False, name: str = "wakeboard"
) -> psycopg.Connection[Any]:
    """The same for a thread of its own, such as the heartbeat's."""
    try:
        return psycopg.connect(dsn, **_options(dsn, name, prepared_statements=prepared_statements))
    except psycopg.Error as exc:
        raise unavailable(dsn, exc) from exc


def _options(dsn: str, name: str, *, prepared_statements: bool) -> dict[str, Any]:
    known = conninfo_to_dict(dsn)
    options = {"connect_timeout": CONNECT_TIMEOUT, **_KEEPALIVE, "application_name": name}
    return {
        **{key: value for key, value in options.items() if key not in known},
        "autocommit": True,
        "prepare_threshold": 0 if prepared_statements else None,
    }


def cut(conn: psycopg.Connection[Any] | psycopg.AsyncConnection[Any]) -> None:
    """Breaks a connection, from whatever thread: who waits for a reply on it gets DatabaseUnavailable at once."""
    with suppress(OSError, psycopg.Error), socket.socket(fileno=os.dup(conn.fileno())) as line:
        line.shutdown(socket.SHUT_RDWR)


def place(dsn: str) -> str:
    """Where a DSN points to, for people: user, host, port and database, without the password."""
    try:
        parts = conninfo_to_dict(dsn)
    except psycopg.Error:
        return "the database"
    host = f"{parts.get('host') or parts.get('hostaddr') or 'the local socket'}"
    port = f":{parts['port']}" if parts.get("port") else ""
    user = parts.get("user")
    return f"database {parts.get('dbname') or user or 'postgres'} on {host}{port} as {user or 'the system user'}"


def unavailable(dsn: str, exc: psycopg.Error) -> DatabaseUnavailable:
    """The sentence for a connection that could not be made."""
    said = re.sub(r"\s+", " ", str(exc)).strip()
    said = said.split(" Is the server running", 1)[0]
    said = said.rsplit("FATAL: ", 1)[-1].rsplit("failed: ", 1)[-1].strip(" .")
    return DatabaseUnavailable(_without_password(f"cannot connect to {place(dsn)}: {said}."))


def _without_password(sentence: str) -> str:
    """The same without what stands where a password belongs, also in a DSN that libpq cannot read."""
    return re.sub(r'(password=|[\w.%+-]+:(?!//))[^\s"]+(@)|(password=)[^\s"]+', r"\1\3…\2", sentence)


def translated(exc: psycopg.Error) -> WakeboardError:  # noqa: PLR0911 - a table, one line for each meaning
    """A database error as an error of ours: the one place where foreign errors are mapped."""
    message = exc.diag.message_primary or re.sub(r"\s+", " ", str(exc)).strip()
    match exc.sqlstate or "08000":
        case "WB001":
            return LeaseLost(message)
        case "WB002":
            return KeyReused(message)
        case "WB004":
            return LeadershipLost(message)
        case "3F000" | "42883" | "42P01":
            return SchemaMismatch(
                "the wakeboard schema is missing or older than this release: run `wakeboard migrate`."
            )
        case "42501":
            return WakeboardError(f"the database role may not do this: {message}.")
        case "23514" | "22023":
            return InvalidValue((exc.diag.constraint_name or message).replace("_", " "))
        # PgBouncer says 08P01 to whatever befell its server; 25P: the server ended a transaction that was silent.
        case code if code.startswith(("08", "25P03", "25P04", "57P")):
            return DatabaseUnavailable(f"the connection to the database was lost: {message}")
        case code if code.startswith(FOR_NOW):
            return DatabaseUnavailable(f"the database cannot do this now: {message}")
        case _:
            return WakeboardError(message)


async def require_schema(conn: psycopg.AsyncConnection[Any]) -> None:
    """Raises SchemaMismatch unless this release may work on the schema it finds."""
    try:
        row = await (
            await conn.execute("select schema_version, min_code_version from wakeboard.schema_state()")
        ).fetchone()
    except (psycopg.errors.InvalidSchemaName, psycopg.errors.UndefinedFunction) as exc:
        raise SchemaMismatch(f"{place_of(conn)} has no wakeboard schema yet: run `wakeboard migrate`.") from exc
    except psycopg.Error as exc:
        raise translated(exc) from exc
    version, min_code = row or (0, "0")
    if version < SCHEMA_VERSION:
        raise SchemaMismatch(
            f"the schema in {place_of(conn)} is at migration {version} and this release needs {SCHEMA_VERSION}:"
            " run `wakeboard migrate`."
        )
    if version_key(__version__) < version_key(min_code):
        raise SchemaMismatch(
            f"the schema in {place_of(conn)} needs wakeboard {min_code} or newer, and this is {__version__}:"
            " upgrade this installation."
        )


def place_of(conn: psycopg.AsyncConnection[Any]) -> str:
    """The same as `place`, for an open connection."""
    return f"database {conn.info.dbname} on {conn.info.host or 'the local socket'}:{conn.info.port} as {conn.info.user}"


def version_key(version: str) -> tuple[int, ...]:
    """'0.10.2' → (0, 10, 2): releases in order."""
    return tuple(int(part) for part in re.findall(r"\d+", version)[:3])
