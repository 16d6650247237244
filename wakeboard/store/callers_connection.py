"""An application's own connection, whatever library it is of: sends a checked call in the application's transaction.

`callers_connection` takes the connections that `ACCEPTED` lists. It imports none of their libraries: the class of a
connection is looked up in the modules that the application has imported. psycopg is the only driver that takes the
parameters as they are. For asyncpg they are numbered, and each one with a cast is sent as text, so that type codecs
of the application do not change it.
"""

from __future__ import annotations

import re
import sys
from contextlib import ExitStack, contextmanager, suppress
from functools import lru_cache
from typing import TYPE_CHECKING, Any, ClassVar, Final, Protocol, TypeAlias, cast

import psycopg
from psycopg.pq import TransactionStatus
from psycopg.rows import tuple_row

from wakeboard.errors import InvalidValue, Refused, WakeboardError
from wakeboard.store.array_texts import text_array
from wakeboard.store.connection import cancel_and_abort, is_in_transaction
from wakeboard.store.database_errors import READ_ONLY, ErrorReport, not_encodable, report_of, translated_report
from wakeboard.store.statements import role_of

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Sequence
    from contextlib import AbstractContextManager

ACCEPTED: Final = (
    "a connection of psycopg 3, asyncpg or Django (django.db.connection), or a Connection, Session, AsyncConnection or"
    " AsyncSession of SQLAlchemy 2"
)
_OPENERS: Final = (
    "connection",
    "connect",
    "acquire",
)  # what a pool or an engine has: psycopg_pool, SQLAlchemy, asyncpg
_DRIVERS: Final = ("psycopg", "asyncpg")  # of SQLAlchemy; its dialect for psycopg is sync and async
_NEEDS_TRANSACTION: Final = (
    "run.once needs a transaction in which the effect happens too, and this connection is in autocommit mode:"
    " write `with conn.transaction():` around both (Django: `with transaction.atomic():`)."
)


_READ_ONLY: Final = "the transaction is read-only (conn.read_only): make the call in one that may write"


class BlockingConnection(Protocol):
    """The connections of psycopg, SQLAlchemy and Django over which calls block, for type checkers."""

    def commit(self) -> None:
        """Commit the transaction."""


class _Committing(Protocol):
    async def commit(self) -> None:
        """Commit the transaction."""


class _Asyncpg(Protocol):
    def is_in_transaction(self) -> bool:
        """Whether a transaction is open."""
        ...

    def terminate(self) -> None:
        """Close the connection."""


AwaitableConnection: TypeAlias = _Committing | _Asyncpg
"""The connections of psycopg, SQLAlchemy and asyncpg over which calls are awaited, for type checkers."""


class CallersConnection:
    """A connection of the application. The subclasses say how each library sends a call."""

    is_async: ClassVar[bool]

    def __init__(self, conn: Any) -> None:
        self._conn = conn

    def call(
        self,
        statement: bytes,
        values: Sequence[Any],
        finish: Callable[[list[tuple[Any, ...]]], Any],
        *contexts: AbstractContextManager[object],
        needs_transaction: bool = False,
    ) -> Any:
        """What `finish` makes of the rows of a checked call, within the contexts; an awaitable of it if `is_async`.

        `needs_transaction`: refuse a connection in autocommit mode. Raises WakeboardError.
        """
        if self.is_async:
            return self._call_async(statement, values, finish, contexts, needs_transaction)
        with ExitStack() as stack:
            for context in contexts:
                stack.enter_context(context)
            with self._translating():
                rows = self._rows(statement, values, needs_transaction)
            return finish(rows)

    async def _call_async(
        self,
        statement: bytes,
        values: Sequence[Any],
        finish: Callable[[list[tuple[Any, ...]]], Any],
        contexts: Sequence[AbstractContextManager[object]],
        needs_transaction: bool,  # noqa: FBT001 - as `_rows`
    ) -> Any:
        with ExitStack() as stack:
            for context in contexts:
                stack.enter_context(context)
            with self._translating():
                rows = await self._rows(statement, values, needs_transaction)
            return finish(rows)

    def _rows(self, statement: bytes, values: Sequence[Any], needs_transaction: bool) -> Any:  # noqa: FBT001
        """The rows as tuples; a coroutine of them if `is_async`. Raises the errors of the library."""
        raise NotImplementedError

    def is_in_transaction(self) -> bool:
        """Whether the connection is open and has a transaction that has not ended."""
        raise NotImplementedError

    @property
    def broken(self) -> bool:
        """Whether the connection was lost."""
        raise NotImplementedError

    def was_lost_in(self, error: BaseException) -> bool:
        """Whether the loss of this connection caused the error."""
        raise NotImplementedError

    def abort(self) -> None:
        """Cancel what the connection executes, and break it."""
        raise NotImplementedError

    @property
    def _role(self) -> str:
        return ""

    @property
    def _is_read_only(self) -> bool:
        """Whether the application has chosen read-only transactions; else the server has, perhaps for a moment."""
        return False

    @contextmanager
    def _translating(self) -> Generator[None]:
        """Raises errors of the database and of the libraries as errors of wakeboard.errors."""
        try:
            yield
        except WakeboardError:
            raise
        except UnicodeError as exc:
            raise not_encodable(exc) from exc
        except Exception as exc:
            report = _report(exc)
            if report is None:
                raise
            if report.code == READ_ONLY and self._is_read_only:
                raise Refused(_READ_ONLY) from exc
            raise translated_report(report, self._role) from exc


# -- psycopg -----------------------------------------------------------------------------------------------------------


class _Psycopg(CallersConnection):
    is_async = False

    def _rows(self, statement: bytes, values: Sequence[Any], needs_transaction: bool) -> Any:  # noqa: FBT001
        if needs_transaction:
            self._require_transaction()
        # Not `conn.cursor()`: the application's own kind of cursor may bind parameters in another way.
        return psycopg.Cursor(self._conn, row_factory=tuple_row).execute(statement, values).fetchall()

    def _require_transaction(self) -> None:
        if self._conn.autocommit and self._conn.info.transaction_status == TransactionStatus.IDLE:
            raise Refused(_NEEDS_TRANSACTION)

    def is_in_transaction(self) -> bool:
        return is_in_transaction(self._conn)

    @property
    def broken(self) -> bool:
        return self._conn.broken

    def was_lost_in(self, error: BaseException) -> bool:
        return isinstance(error, psycopg.OperationalError) and self._conn.closed

    def abort(self) -> None:
        cancel_and_abort(self._conn)

    @property
    def _role(self) -> str:
        return role_of(self._conn)

    @property
    def _is_read_only(self) -> bool:
        return self._conn.read_only is True


class _AsyncPsycopg(_Psycopg):
    is_async = True

    async def _rows(self, statement: bytes, values: Sequence[Any], needs_transaction: bool) -> Any:  # noqa: FBT001
        if needs_transaction:
            self._require_transaction()
        cursor = await psycopg.AsyncCursor(self._conn, row_factory=tuple_row).execute(statement, values)
        return await cursor.fetchall()


# -- asyncpg -----------------------------------------------------------------------------------------------------------


class _AsyncpgConnection(CallersConnection):
    is_async = True

    async def _rows(self, statement: bytes, values: Sequence[Any], needs_transaction: bool) -> Any:  # noqa: FBT001
        if needs_transaction and not self._conn.is_in_transaction():
            raise Refused(_NEEDS_TRANSACTION)
        return [tuple(row) for row in await self._conn.fetch(*_numbered(statement, values))]

    def is_in_transaction(self) -> bool:
        with suppress(Exception):  # of a connection that went back to its pool
            return not self._conn.is_closed() and self._conn.is_in_transaction()
        return False

    @property
    def broken(self) -> bool:
        with suppress(Exception):
            return self._conn.is_closed()
        return False

    def was_lost_in(self, error: BaseException) -> bool:
        return self.broken and _report(error) is not None

    def abort(self) -> None:
        with suppress(Exception):
            self._conn.terminate()


def _numbered(statement: bytes, values: Sequence[Any]) -> tuple[Any, ...]:
    """The call with the parameters $1, $2, …, and its values."""
    text, are_texts = _with_numbers(statement)
    return text, *(_as_text(value) if as_text else value for value, as_text in zip(values, are_texts, strict=True))


@lru_cache(maxsize=64)
def _with_numbers(statement: bytes) -> tuple[str, tuple[bool, ...]]:
    first, *others = re.split("%[sb]", statement.decode())
    casts = [part.startswith("::") for part in others]
    numbered = (
        f"${place}{'::pg_catalog.text' if cast else ''}{part}"
        for place, (part, cast) in enumerate(zip(others, casts, strict=True), start=1)
    )
    return first + "".join(numbered), tuple(casts)


def _as_text(value: Any) -> str | None:
    if isinstance(value, list):
        return text_array(None if each is None else str(each) for each in cast("list[Any]", value))
    return None if value is None else str(value)


# -- SQLAlchemy --------------------------------------------------------------------------------------------------------


class _SqlAlchemy(CallersConnection):
    """A Connection or a Session. The call begins their transaction, as each statement does."""

    is_async = False
    _driver: CallersConnection | None = None  # the connection that the last call was sent over

    def _rows(self, statement: bytes, values: Sequence[Any], needs_transaction: bool) -> Any:  # noqa: FBT001
        return self._send(self._conn, statement, values, needs_transaction)

    def _send(self, given: Any, statement: bytes, values: Sequence[Any], needs_transaction: bool) -> Any:  # noqa: FBT001
        conn = given if hasattr(given, "exec_driver_sql") else given.connection()
        driver = conn.dialect.driver
        if driver not in _DRIVERS:
            raise InvalidValue(
                f"conn is SQLAlchemy's over the driver {driver}; use a URL that begins with postgresql+psycopg:// or"
                " postgresql+asyncpg://"
            )
        if needs_transaction and conn.connection.dbapi_connection.autocommit:
            raise Refused(_NEEDS_TRANSACTION)
        self._driver = callers_connection(conn.connection.driver_connection)
        if driver == "psycopg":
            text, sent = statement.decode(), tuple(values)
        else:
            text, *numbered = _numbered(statement, values)
            sent = tuple(numbered)
        return [tuple(row) for row in conn.exec_driver_sql(text, sent).fetchall()]

    def is_in_transaction(self) -> bool:
        return self._conn.in_transaction()

    @property
    def broken(self) -> bool:
        return self._driver is not None and self._driver.broken

    def was_lost_in(self, error: BaseException) -> bool:
        return bool(getattr(error, "connection_invalidated", False)) and _report(error) is not None

    def abort(self) -> None:
        if self._driver is not None and self.is_in_transaction():
            self._driver.abort()

    @property
    def _role(self) -> str:
        return "" if self._driver is None else self._driver._role  # noqa: SLF001 - of the same class

    @property
    def _is_read_only(self) -> bool:
        return self._driver is not None and self._driver._is_read_only  # noqa: SLF001 - of the same class


class _AsyncSqlAlchemy(_SqlAlchemy):
    """An AsyncConnection or an AsyncSession."""

    is_async = True

    async def _rows(self, statement: bytes, values: Sequence[Any], needs_transaction: bool) -> Any:  # noqa: FBT001
        return await self._conn.run_sync(self._send, statement, values, needs_transaction)


# ----------------------------------------------------------------------------------------------------------------------

_KINDS: Final[tuple[tuple[str, tuple[str, ...], type[CallersConnection]], ...]] = (
    ("asyncpg", ("Connection",), _AsyncpgConnection),
    ("sqlalchemy.engine", ("Connection",), _SqlAlchemy),
    ("sqlalchemy.orm", ("Session", "scoped_session"), _SqlAlchemy),
    ("sqlalchemy.ext.asyncio", ("AsyncConnection", "AsyncSession", "async_scoped_session"), _AsyncSqlAlchemy),
)


def callers_connection(conn: Any) -> CallersConnection:
    """The connection that an application gave. Raises InvalidValue if it is of no kind that `ACCEPTED` lists."""
    if isinstance(conn, CallersConnection):
        return conn
    if isinstance(conn, psycopg.Connection):
        return _Psycopg(conn)
    if isinstance(conn, psycopg.AsyncConnection):
        return _AsyncPsycopg(conn)
    for module, names, door in _KINDS:
        loaded = sys.modules.get(module)
        if loaded is not None and isinstance(conn, tuple(getattr(loaded, name) for name in names)):
            return door(conn() if callable(conn) else conn)  # a scoped session returns that of its scope
    if _is_django(conn):
        return _of_django(conn)
    opener = next((name for name in _OPENERS if callable(getattr(conn, name, None))), None)
    hint = f", such as one of its {opener}()" if opener else ""
    raise InvalidValue(f"conn is of type {_type_name(conn)}; pass {ACCEPTED}{hint}")


def _type_name(value: object) -> str:
    return f"{type(value).__module__}.{type(value).__qualname__}"


def _is_django(conn: object) -> bool:
    if _type_name(conn) == "django.utils.connection.ConnectionProxy":  # django.db.connection, or one to a cache
        return hasattr(conn, "ensure_connection")  # imports the backend at the first use
    base = sys.modules.get("django.db.backends.base.base")
    return base is not None and isinstance(conn, base.BaseDatabaseWrapper)


def _of_django(conn: Any) -> CallersConnection:
    """Psycopg's connection in one of Django's. `transaction.atomic` sets its autocommit mode."""
    try:
        conn.validate_no_broken_transaction()
        conn.ensure_connection()
    except Exception as exc:
        report = _report(exc)
        if report is None:
            raise
        raise translated_report(report) from exc
    driver: object = conn.connection
    if isinstance(driver, psycopg.Connection):
        return _Psycopg(driver)
    raise InvalidValue(
        f"conn is Django's over {_type_name(driver)}; use the engine django.db.backends.postgresql,"
        " and install psycopg 3 (psycopg2 is not supported)"
    )


def _report(exc: BaseException) -> ErrorReport | None:
    """What is known of a library's error of the database. None: it is no such error."""
    if isinstance(exc, psycopg.Error):
        return report_of(exc)
    module = type(exc).__module__
    if module.startswith("asyncpg."):
        return _report_of_asyncpg(exc)
    if module.startswith(("sqlalchemy.", "django.db.")):
        inner = getattr(exc, "orig", None) or exc.__cause__  # the driver's error
        found = _report(inner) if inner is not None else None
        return found or ErrorReport(None, " ".join(str(exc).split()))
    return ErrorReport(None, str(exc), is_connection_lost=True) if isinstance(exc, OSError) else None


def _report_of_asyncpg(exc: Any) -> ErrorReport:
    return ErrorReport(
        getattr(exc, "sqlstate", None),
        " ".join(str(getattr(exc, "message", None) or exc).split()),
        context=getattr(exc, "context", None) or "",
        constraint=getattr(exc, "constraint_name", None),
        column=getattr(exc, "column_name", None),
        is_stale_plan=type(exc).__name__ == "InvalidCachedStatementError",
        is_connection_lost="closed" in str(exc),
    )
