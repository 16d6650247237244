"""Sends SQL: calls of wakeboard's functions, and reads in a transaction that sets the session settings they depend on.

Other roles may create operators, functions and types in a schema of the search_path, and a session may have any
defaults. Behind PgBouncer in transaction mode nothing can be set for a session. So SQL is sent in two ways only:

- `call`: one call of a function, in one round trip. Its text contains no operator, and no function or type without its
  schema, so the search_path does not change its meaning. `checked_call` refuses any other text.
- `read`: any query, in a transaction that begins with `set local search_path`.

If the defaults of a session differ from the expected ones, calls run in such a transaction too. Tasks may share a
connection: each holds its lock, so that no statement runs in the transaction of another task.
"""

from __future__ import annotations

import asyncio
import re
from contextlib import asynccontextmanager, contextmanager, nullcontext
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final, LiteralString, TypeVar
from weakref import WeakKeyDictionary

import psycopg
from psycopg import sql

from wakeboard.store.database_errors import not_encodable, translated

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Generator, Mapping, Sequence

    from psycopg.rows import AsyncRowFactory

_Row = TypeVar("_Row")

# The session settings that these statements depend on. psycopg reads times and intervals in these styles only.
ISOLATION: Final = ("default_transaction_isolation", "read committed")
SETTINGS: Final = (
    ("array_nulls", "on"),
    ("DateStyle", "ISO"),
    ("IntervalStyle", "postgres"),
    ("standard_conforming_strings", "on"),
)
_PIN: Final = (
    "set local search_path = pg_catalog, pg_temp;"
    " set local jit = off"  # compiling a read takes many times as long as running it
    + "".join(f"; set local {name} = {value}" for name, value in SETTINGS)
).encode()
_BOUND_LOCK_WAITS: Final = b"set local lock_timeout = '10s'"  # such as for a table that is being altered
_DEFAULTS: Final = (
    "select " + ", ".join(f"pg_catalog.current_setting('{name}')" for name, _ in (ISOLATION, *SETTINGS))
).encode()
_has_expected_defaults: WeakKeyDictionary[Any, bool] = WeakKeyDictionary()  # for each connection that was checked


class ConnectionLock:
    """A lock that a task holds while it uses a connection. The task that holds it may acquire it again.

    `in_bounded_transaction`: the connection is in one, in which each call and each read is one statement.
    """

    def __init__(self) -> None:
        self._lock = asyncio.Lock()
        self._holder: asyncio.Task[Any] | None = None
        self._depth = 0
        self.in_bounded_transaction = False

    async def __aenter__(self) -> None:
        task = asyncio.current_task()
        if self._holder is not task:
            await self._lock.acquire()
            self._holder = task
        self._depth += 1

    async def __aexit__(self, *_: object) -> None:
        self._depth -= 1
        if not self._depth:
            self._holder = None
            self._lock.release()


_locks: WeakKeyDictionary[Any, ConnectionLock] = WeakKeyDictionary()


def connection_lock(conn: psycopg.AsyncConnection[Any]) -> ConnectionLock:
    """The lock of this connection."""
    found = _locks.get(conn)
    if found is None:
        found = _locks[conn] = ConnectionLock()
    return found


# -- calls -------------------------------------------------------------------------------------------------------------

_SCHEMAS: Final = ("pg_catalog", "wakeboard")
_TYPES: Final = ("bigint", "boolean", "integer", "real", "smallint")  # keywords of SQL: the search_path does not matter
_TOKEN: Final = re.compile(r"[a-z_][a-z0-9_]*|%[sb]|::|=>|\[\]|[.,()*]")


@lru_cache(maxsize=512)
def checked_call(query: str) -> bytes:
    """The text of a call as bytes. Raises ValueError if a search_path could change its meaning."""
    tokens = _TOKEN.findall(query)
    padded = ["", "", "", *tokens, ""]
    complete = "".join(tokens) == "".join(query.split())
    if (
        not complete
        or tokens[0] != "select"
        or not all(_is_fixed(*padded[at - 3 : at + 2]) for at in range(3, len(padded) - 1))
    ):
        raise ValueError(f"not a call of a function with schemas for all names: {query}")
    return query.encode()


def _is_fixed(schema: str, dot: str, before: str, part: str, after: str) -> bool:
    """Whether a token between these neighbours has the same meaning with every search_path."""
    word, name_before = part.isidentifier(), before.isidentifier()
    if before == "::" and part in _TYPES:
        return True
    if before in {"::", "from"}:
        return part in _SCHEMAS and after == "."
    if part == "(" and name_before:
        return before == "array" or (dot == "." and schema in _SCHEMAS)
    if part == "*":
        return before == "select"
    if word and (name_before or before in {"%s", "%b", ")", "[]", "*"}):  # `x like y`, `) order by`: operators
        return part in {"from", "as"} or before in {"select", "as"}
    return True


async def execute(
    conn: psycopg.AsyncConnection[Any],
    query: str,
    values: Sequence[Any] = (),
    *,
    cursor: psycopg.AsyncCursor[Any] | None = None,
) -> list[Any]:
    """The rows of a call, over the caller's cursor if given. Raises psycopg's errors."""
    text, over = checked_call(query), cursor or conn.cursor()
    lock = connection_lock(conn)
    async with lock:
        if lock.in_bounded_transaction or _has_expected_defaults.get(conn) or await _check_defaults(conn):
            return await (await over.execute(text, values or None)).fetchall()
        async with pinned_transaction(conn):
            return await (await over.execute(text, values or None)).fetchall()


async def call(
    conn: psycopg.AsyncConnection[Any],
    query: str,
    *values: Any,
    cursor: psycopg.AsyncCursor[Any] | None = None,
) -> list[Any]:
    """The rows of a call. Raises WakeboardError."""
    with translating(conn):
        return await execute(conn, query, values, cursor=cursor)


def call_blocking(conn: psycopg.Connection[Any], query: str, *values: Any) -> list[Any]:
    """As `call`, over a blocking connection."""
    with translating(conn):
        text = checked_call(query)
        if conn not in _has_expected_defaults:
            _has_expected_defaults[conn] = _are_expected(conn.execute(_DEFAULTS).fetchone())
        if _has_expected_defaults[conn]:
            return conn.execute(text, values).fetchall()
        with conn.transaction():
            conn.execute(_PIN)
            return conn.execute(text, values).fetchall()


async def listen(conn: psycopg.AsyncConnection[Any], channel: LiteralString) -> None:
    """Subscribes the connection to the notifications of a channel. Raises WakeboardError."""
    with translating(conn):
        await conn.execute(sql.SQL("listen {}").format(sql.Identifier(channel)))


async def _check_defaults(conn: psycopg.AsyncConnection[Any]) -> bool:
    """Whether the session has the expected defaults; read once for each connection."""
    if conn not in _has_expected_defaults:
        _has_expected_defaults[conn] = _are_expected(await (await conn.execute(_DEFAULTS)).fetchone())
    return _has_expected_defaults[conn]


def _are_expected(defaults: Sequence[str] | None) -> bool:
    wanted = [value for _, value in (ISOLATION, *SETTINGS)]
    return [value.partition(",")[0] for value in defaults or ()] == wanted


# -- reads -------------------------------------------------------------------------------------------------------------


@asynccontextmanager
async def pinned_transaction(conn: psycopg.AsyncConnection[Any]) -> AsyncGenerator[None]:
    """A transaction in which a name without a schema is one of pg_catalog."""
    async with connection_lock(conn), conn.transaction():
        await conn.execute(_PIN)
        yield


@asynccontextmanager
async def _reading(conn: psycopg.AsyncConnection[Any]) -> AsyncGenerator[None]:
    async with pinned_transaction(conn):
        await conn.execute(_BOUND_LOCK_WAITS)
        yield


@asynccontextmanager
async def bounded_transaction(
    conn: psycopg.AsyncConnection[Any], statement_timeout_s: int, *, read_only: bool = False
) -> AsyncGenerator[None]:
    """As `pinned_transaction`, but the server stops a statement that takes longer. `read_only`: it can change nothing.

    A statement waits for a lock for 1 s at most if the transaction is read-only, otherwise for 2 s. A call or a `read`
    in it is one round trip, without a savepoint: its error ends the transaction. The server ends a transaction whose
    process sends nothing for 10 s, so that it does not keep its locks.
    """
    lock = connection_lock(conn)
    async with pinned_transaction(conn):
        await conn.execute(
            sql.SQL(
                "{}set local statement_timeout = {}; set local lock_timeout = {};"
                " set local idle_in_transaction_session_timeout = '10s'"
            ).format(
                sql.SQL("set transaction read only; " if read_only else ""),
                f"{statement_timeout_s}s",
                "1s" if read_only else "2s",
            )
        )
        lock.in_bounded_transaction = True
        try:
            yield
        finally:
            lock.in_bounded_transaction = False


async def read(
    conn: psycopg.AsyncConnection[Any],
    kind: AsyncRowFactory[_Row],
    query: LiteralString | sql.Composed,
    values: Mapping[str, Any] | None = None,
) -> list[_Row]:
    """The rows of any query, each made by the row factory `kind`. It waits 10 s for a lock. Raises WakeboardError."""
    lock = connection_lock(conn)
    with translating(conn):
        async with (
            lock,
            nullcontext() if lock.in_bounded_transaction else _reading(conn),
            conn.cursor(row_factory=kind) as cursor,
        ):
            await cursor.execute(query, values)
            return await cursor.fetchall()


def role_of(conn: psycopg.AsyncConnection[Any] | psycopg.Connection[Any] | None) -> str:
    """The database role that logged in; "" if the connection is not open."""
    return conn.info.user if conn is not None and not conn.closed else ""


@contextmanager
def translating(conn: psycopg.AsyncConnection[Any] | psycopg.Connection[Any] | None = None) -> Generator[None]:
    """Raises the errors of the database and of values that cannot be sent as errors of wakeboard.errors.

    `conn`: the connection whose login the message about a missing right names.
    """
    try:
        yield
    except psycopg.Error as exc:
        raise translated(exc, role_of(conn)) from exc
    except UnicodeError as exc:
        raise not_encodable(exc) from exc
