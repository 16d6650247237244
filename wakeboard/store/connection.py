"""Connections to the store.

The baseline is PgBouncer in transaction mode: nothing here depends on session state (see statements.py), and statements
are prepared only where a setting says that the connection is direct.
"""

from __future__ import annotations

import asyncio
import os
import re
import select
import socket
import threading
from contextlib import suppress
from difflib import get_close_matches
from functools import cache
from importlib.resources import files
from typing import TYPE_CHECKING, Any, Final, TypeAlias

import psycopg
from psycopg.conninfo import conninfo_to_dict

from wakeboard import __version__
from wakeboard.errors import DatabaseUnavailable, InvalidSettings, LoginRefused, SchemaMismatch
from wakeboard.store.database_errors import hint_about_connection, translated, without_quotes
from wakeboard.store.infinite_times import bound_times
from wakeboard.store.reply_limit import CANCEL_S, LimitedBlockingConnection, LimitedConnection
from wakeboard.store.several_hosts import note_reached, ordered
from wakeboard.store.statements import execute, role_of

if TYPE_CHECKING:
    from collections.abc import Mapping

    from wakeboard.errors import WakeboardError
    from wakeboard.store.reply_limit import ReplyLimit

AsyncConnection: TypeAlias = psycopg.AsyncConnection[Any]

HIGHEST_PORT = 65_535
CONNECT_TIMEOUT, MIN_CONNECT_TIMEOUT = 10, 2  # seconds; libpq knows no shorter one

_UNREADABLE = (
    "the DSN cannot be read: write postgresql://user:password@host:5432/database or"
    " host=… port=5432 user=… password=… dbname=…. In a URL, percent-encode % / : @ ? # and spaces of the password"
    " (%25 %2F %3A %40 %3F %23 %20). In the other form, put single quotes around a value with spaces."
)
_FOREIGN_PARAMETER = (
    "the DSN has the parameter {name}, which is of another client library or of its pool: leave it out. Parameters are"
    " those of libpq, such as sslmode and connect_timeout"
)
_UNKNOWN_PARAMETER = "the DSN has the parameter {name}, which libpq does not know{meant}"
# Parameters that hosts of databases put into the connection strings that they show.
_FOREIGN: Final = frozenset(
    {
        *(
            "connection_limit",
            "currentSchema",
            "max_pool_size",
            "pgbouncer",
            "pool_max_conns",
            "pool_max_conn_lifetime",
        ),
        *("pool_mode", "pool_timeout", "prepareThreshold", "prepared_statement_cache_size", "prepared_statements"),
        *("schema", "socket_timeout", "sslaccept", "statement_cache_size", "supa", "uselibpqcompat", "workaround"),
    }
)

# The server notices a vanished client, and the client a vanished server, within half a minute.
_KEEPALIVE: Mapping[str, Any] = {
    "keepalives_idle": 10,
    "keepalives_interval": 5,
    "keepalives_count": 3,
    "tcp_user_timeout": 30_000,
}


async def connect(
    dsn: str,
    *,
    prepared_statements: bool = False,
    name: str = "wakeboard",
    reply_limit: ReplyLimit | None = None,
) -> AsyncConnection:
    """Opens an autocommit connection, whose transactions are read committed.

    `reply_limit`: how long its statements wait for their replies; None: without a limit.
    Raises DatabaseUnavailable with the target of the DSN, and InvalidSettings for a DSN that cannot be read.
    """
    if reply_limit is not None:
        reply_limit.require_session()
    options = _options(dsn, name, prepared_statements=prepared_statements, limit=reply_limit)
    try:
        conn = await LimitedConnection.connect(ordered(dsn), **options)
    except psycopg.Error as exc:
        raise connection_error(dsn, exc) from None  # its text may quote a part of the password
    conn.reply_limit, conn.other_hosts = reply_limit, note_reached(dsn, conn)
    bound_times(conn)
    try:
        await conn.set_isolation_level(psycopg.IsolationLevel.READ_COMMITTED)  # the task may be cancelled here
    except BaseException:
        await conn.close()
        raise
    return conn


def connect_blocking(
    dsn: str, *, name: str = "wakeboard", reply_limit: ReplyLimit | None = None
) -> psycopg.Connection[Any]:
    """As `connect`, for blocking use in a thread, such as the heartbeat's."""
    if reply_limit is not None:
        reply_limit.require_session()
    options = _options(dsn, name, prepared_statements=False, limit=reply_limit)
    try:
        conn = LimitedBlockingConnection.connect(ordered(dsn), **options)
    except psycopg.Error as exc:
        raise connection_error(dsn, exc) from None
    conn.reply_limit, conn.other_hosts = reply_limit, note_reached(dsn, conn)
    conn.isolation_level = psycopg.IsolationLevel.READ_COMMITTED
    bound_times(conn)
    return conn


def _options(dsn: str, name: str, *, prepared_statements: bool, limit: ReplyLimit | None) -> dict[str, Any]:
    known = _parts(dsn)
    hosts = (known.get("host") or known.get("hostaddr") or "").split(",")  # libpq waits so long for each
    seconds = CONNECT_TIMEOUT if limit is None else min(CONNECT_TIMEOUT, limit.seconds)
    each = max(MIN_CONNECT_TIMEOUT, int(seconds / len(hosts)))
    options = {"connect_timeout": each, **_KEEPALIVE, "application_name": name}
    return {
        **{key: value for key, value in options.items() if key not in known},
        "client_encoding": "UTF8",
        "autocommit": True,
        "prepare_threshold": 0 if prepared_statements else None,
    }


def abort(conn: psycopg.Connection[Any] | psycopg.AsyncConnection[Any]) -> None:
    """Breaks a connection, from any thread: a call that waits for a reply on it raises DatabaseUnavailable."""
    with suppress(OSError, psycopg.Error), socket.socket(fileno=os.dup(conn.fileno())) as duplicate:
        duplicate.shutdown(socket.SHUT_RDWR)


def cancel_and_abort(conn: psycopg.Connection[Any] | psycopg.AsyncConnection[Any]) -> threading.Thread:
    """Cancels what a connection executes, then breaks it, in a thread of its own, which is returned.

    Without the cancel, a backend that waits for a lock would not notice that its client has gone. The cancel comes
    first, because PgBouncer forwards none for a client that it has lost.
    """

    def run() -> None:
        with suppress(Exception):  # the server may be unreachable
            if isinstance(conn, psycopg.AsyncConnection):
                asyncio.run(conn.cancel_safe(timeout=CANCEL_S))
            else:
                conn.cancel_safe(timeout=CANCEL_S)
        abort(conn)

    thread = threading.Thread(target=run, name="cancel", daemon=True)  # it does not keep the process
    thread.start()
    return thread


def is_in_transaction(conn: psycopg.Connection[Any] | psycopg.AsyncConnection[Any]) -> bool:
    """Whether a connection is open and has a transaction or a statement that has not ended."""
    return not conn.closed and conn.info.transaction_status != psycopg.pq.TransactionStatus.IDLE


def is_broken(conn: psycopg.Connection[Any] | psycopg.AsyncConnection[Any]) -> bool:
    """Whether a connection is known to be broken, without sending anything.

    If an idle connection has data to read, the server has closed it (or sent a notice). A connection in use counts as
    intact: its statement will fail.
    """
    if conn.closed:
        return True
    if conn.pgconn.transaction_status != psycopg.pq.TransactionStatus.IDLE:
        return False
    ready = select.poll()
    ready.register(conn.fileno(), select.POLLIN)
    return bool(ready.poll(0))


def may_have_committed(conn: psycopg.AsyncConnection[Any], error: WakeboardError) -> bool:
    """Whether what a statement that raised `error` has written may be stored.

    Its connection broke, or its commit no longer waits for a synchronous standby.
    """
    return conn.closed or isinstance(error.__cause__, psycopg.errors.StatementCompletionUnknown)


def describe_dsn(dsn: str) -> str:
    """The target of a DSN for messages: user, host, port and database, without the password.

    "the database" for a DSN that cannot be read, or in which a raw @ may have put a part of the password elsewhere.
    """
    try:
        parts = _parts(dsn)
    except InvalidSettings:
        return "the database"
    if dsn.count("@") > 1 or any("@" in value for key, value in parts.items() if key != "password"):
        return "the database"
    hosts = (parts.get("host") or parts.get("hostaddr") or "the local socket").split(",")
    ports = parts.get("port", "").split(",")
    ports *= len(hosts) if len(ports) == 1 else 1  # one port is that of every host
    where = " or ".join(f"{host}:{port}" if port else host for host, port in zip(hosts, ports, strict=False))
    user = parts.get("user")
    name = parts.get("dbname") or user
    return f"{f'database {name}' if name else 'the default database'} on {where} as {user or 'the system user'}"


def _parts(dsn: str) -> dict[str, str]:
    """A DSN's parameters. Raises InvalidSettings, which quotes no part of it: any may belong to the password."""
    try:
        parts = {key: str(value) for key, value in conninfo_to_dict(dsn).items()}
    except (psycopg.Error, UnicodeError):
        raise InvalidSettings(_why_unreadable(dsn)) from None
    ports, hosts = parts.get("port", "").split(","), parts.get("host", "").split(",")
    if not all(port.isdecimal() and int(port) <= HIGHEST_PORT for port in ports if port):
        raise InvalidSettings(_UNREADABLE)
    if any(re.search(r"[@=\s]", host) for host in hosts if not host.startswith("/")):
        raise InvalidSettings(_UNREADABLE)
    return parts


def _why_unreadable(dsn: str) -> str:
    """What is wrong with a DSN that libpq does not take, without a word that may belong to the password.

    A name may, except after the only @ of a URL, or if it resembles a parameter of libpq.
    """
    names: list[str] = re.findall(r"(?:[?&]|(?:^|\s))(\w+)=", dsn)
    if foreign := sorted(_FOREIGN.intersection(names)):
        return _FOREIGN_PARAMETER.format(name=foreign[0])
    known = [option.keyword.decode() for option in psycopg.pq.Conninfo.get_defaults()]
    user, _, query = dsn.partition("?")
    is_public = user.count("@") == 1 and not re.search("@|pass", query) and "://" in user
    for name in names:
        similar = get_close_matches(name, known, 1, 0.8)
        if name not in known and (similar or is_public):
            return _UNKNOWN_PARAMETER.format(name=name, meant=f": write {similar[0]}" if similar else "")
    return _UNREADABLE


def connection_error(dsn: str, exc: psycopg.Error) -> DatabaseUnavailable:
    """The error for a connection that could not be made; LoginRefused if waiting does not help."""
    first, *of_hosts = str(exc).split("\n- host: ")  # psycopg appends the failure of each host
    failures = of_hosts or [first]
    reasons = dict.fromkeys(map(_reason, failures))
    target, text = describe_dsn(dsn), "; ".join(reasons)
    if len(reasons) > 1 and target != "the database":
        text = "; ".join(f"{failure.split(',', 1)[0].strip(chr(39))}: {_reason(failure)}" for failure in of_hosts)
    hints = dict(hint_about_connection(failure, _reason(failure)) for failure in failures)
    kind = LoginRefused if any(hints.values()) else DatabaseUnavailable
    error = kind(f"cannot connect to {target}: {text}.")
    error.hint = " ".join(hints)
    return error


def _reason(failure: str) -> str:
    """Why libpq could not connect to one host, without what it repeats."""
    text = " ".join(failure.split()).split(" Is the server running", 1)[0]
    reason = without_quotes(text.rsplit("FATAL: ", 1)[-1].rsplit("failed: ", 1)[-1]).strip(" .")
    return reason.removesuffix(" for user")  # the target of the DSN names it


async def require_schema(conn: psycopg.AsyncConnection[Any]) -> None:
    """Raises SchemaMismatch if this release cannot use the schema."""
    try:
        rows = await execute(
            conn, "select schema_version, migration_names, min_code_version from wakeboard.schema_state()"
        )
    except (psycopg.errors.InvalidSchemaName, psycopg.errors.UndefinedFunction) as exc:
        raise SchemaMismatch(f"{describe_connection(conn)} has no wakeboard schema: run `wakeboard migrate`.") from exc
    except psycopg.errors.UndefinedColumn as exc:
        raise foreign_schema(conn) from exc
    except psycopg.Error as exc:
        raise translated(exc, role_of(conn)) from exc
    version, names, min_code = rows[0]
    ours = _migration_names()
    if any(theirs != own for theirs, own in zip(names, ours, strict=False)):
        raise foreign_schema(conn)
    if version < len(ours):
        raise SchemaMismatch(
            f"the schema in {describe_connection(conn)} is at migration {version} and this release needs"
            f" {len(ours)}: run `wakeboard migrate`."
        )
    if version_key(__version__) < version_key(min_code):
        raise SchemaMismatch(
            f"the schema in {describe_connection(conn)} needs wakeboard {min_code} or newer, and this is {__version__}:"
            " upgrade this installation."
        )


@cache
def _migration_names() -> tuple[str, ...]:
    """The names of all migrations, oldest first. A worker starts faster without schema_files.py, which reads them."""
    found = (file.name for file in files("wakeboard.store").joinpath("migrations").iterdir())
    return tuple(name[5:-4] for name in sorted(found) if name.endswith(".sql"))


def foreign_schema(conn: psycopg.AsyncConnection[Any]) -> SchemaMismatch:
    """The error for a schema whose migrations are not those of any release."""
    return SchemaMismatch(
        f"{describe_connection(conn)} has a wakeboard schema of an unreleased version, which no release can migrate:"
        " use another database, or drop the schema with its schedules and runs (`drop schema wakeboard cascade`; for"
        " `wakeboard up` without --dsn: --fresh)."
    )


def describe_connection(conn: psycopg.AsyncConnection[Any]) -> str:
    """As `describe_dsn`, for an open connection."""
    return f"database {conn.info.dbname} on {conn.info.host or 'the local socket'}:{conn.info.port} as {conn.info.user}"


def version_key(version: str) -> tuple[int, ...]:
    """'0.10.2' → (0, 10, 2): releases in order."""
    return tuple(int(part) for part in re.findall(r"\d+", version)[:3])
