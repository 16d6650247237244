"""The session of a command: what it reads and acts through. The event loop starts here.

Commands that only read may use the standby of WAKEBOARD_READ_DSN, except if `--dsn` names a database.

The database is the one of `--dsn` or WAKEBOARD_DSN. Without them it is that of a `wakeboard up` that runs the current
folder or was started in it, or else the one that libpq's PG* variables name. `kubectl wakeboard` sets another way to
open a session: through the board.
"""

from __future__ import annotations

import asyncio
import os
from contextlib import asynccontextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from datetime import timedelta
from functools import partial
from typing import TYPE_CHECKING, Final, TypeAlias, TypeVar

from wakeboard.cli.support.output import print_error
from wakeboard.errors import DatabaseUnavailable, SchemaMismatch
from wakeboard.process.display_zone import in_zone
from wakeboard.process.running_up import UP_FILE, running_up
from wakeboard.process.system_user import system_user
from wakeboard.text.humanize import lasted

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Awaitable, Callable
    from contextlib import AbstractAsyncContextManager
    from datetime import datetime

    from wakeboard.actions.admin_api import AdminStore
    from wakeboard.actions.run_actions import RunActor
    from wakeboard.cli.support.database_reads import DatabaseReads
    from wakeboard.cli.support.read_model import ReadModel
    from wakeboard.store.connection import AsyncConnection

UP_LOG = UP_FILE.parent / "postgres.log"  # exists if `up` has had an embedded Postgres in this folder
STOPPED_HINT = "The database in .wakeboard/ is stopped: start it with `wakeboard up DIR`, or name another with --dsn."
DSN_HINT = "Name a database with --dsn or WAKEBOARD_DSN, or start one with `wakeboard up`."

WORTH_A_NOTE: Final = timedelta(seconds=1)  # that a standby is behind
PATIENCE_S: Final = 5.0  # without a reply, until the user reads that the database does not answer
UNANSWERED: Final = (
    f"note: the database has not answered for {PATIENCE_S:.0f} s. `wakeboard check` says whether commits hang; what was"
    " sent may be done already."
)

_Result = TypeVar("_Result")
_Session = TypeVar("_Session", bound="CommandSession")
_explicit_dsn: ContextVar[str] = ContextVar("_explicit_dsn", default="")


@dataclass(frozen=True)
class CommandSession:
    """What a command reads and acts through. `now`: the installation's clock at the start."""

    store: RunActor
    listings: ReadModel
    now: datetime


@dataclass(frozen=True)
class DatabaseSession(CommandSession):
    """The session of a command that only the command line has: an open connection and its APIs."""

    store: AdminStore
    listings: DatabaseReads
    conn: AsyncConnection


OpenSession: TypeAlias = "Callable[[], AbstractAsyncContextManager[CommandSession]]"
_other_session: ContextVar[OpenSession | None] = ContextVar("_other_session", default=None)


def use_sessions(opened: OpenSession) -> None:
    """Makes the commands that need no database open their sessions like this."""
    _other_session.set(opened)


def set_dsn(dsn: str) -> None:
    """Stores the value of --dsn; "" for none."""
    _explicit_dsn.set(dsn)


def explicit_dsn() -> str:
    """The DSN of --dsn or WAKEBOARD_DSN; "" if neither is given."""
    return _explicit_dsn.get() or os.environ.get("WAKEBOARD_DSN", "")  # shell completion does not parse --dsn


def database_dsn() -> str:
    """The DSN to connect to; "" leaves the choice to libpq."""
    return explicit_dsn() or running_up().get("dsn", "")


def configured_read_dsn() -> str:
    """The DSN of WAKEBOARD_READ_DSN; "" if there is none, or if --dsn names a database, which may be another one."""
    is_another = _explicit_dsn.get() not in {"", os.environ.get("WAKEBOARD_DSN")}
    return "" if is_another else os.environ.get("WAKEBOARD_READ_DSN", "")


def dsn_hint() -> str:
    """What to do if no database is named and none answers."""
    return STOPPED_HINT if UP_LOG.exists() else DSN_HINT


def with_session(use: Callable[[CommandSession], Awaitable[_Result]]) -> _Result:
    """Opens a session, of a database over its primary, and returns the result of `use`. Raises WakeboardError."""
    return asyncio.run(_with(_other_session.get() or _database_session, use))


def with_database(use: Callable[[DatabaseSession], Awaitable[_Result]]) -> _Result:
    """Connects to the primary, checks the schema, and returns the result of `use`. Raises WakeboardError."""
    return asyncio.run(_with(_database_session, use))


def query_store(query: Callable[[CommandSession], Awaitable[_Result]]) -> tuple[_Result, datetime]:
    """As `query_database`, for a command that needs no database."""
    opened = _other_session.get() or partial(_database_session, reads=True)
    return asyncio.run(_with(opened, lambda session: _and_now(session, query)))


def query_database(query: Callable[[DatabaseSession], Awaitable[_Result]]) -> tuple[_Result, datetime]:
    """The result of `query`, which only reads, maybe from a standby, and the database's clock at the start.

    Raises WakeboardError.
    """
    return asyncio.run(_with(partial(_database_session, reads=True), lambda session: _and_now(session, query)))


async def _and_now(session: _Session, query: Callable[[_Session], Awaitable[_Result]]) -> tuple[_Result, datetime]:
    return await query(session), session.now


async def _with(
    opened: Callable[[], AbstractAsyncContextManager[_Session]], use: Callable[[_Session], Awaitable[_Result]]
) -> _Result:
    async with opened() as session:
        return await use(session)


@asynccontextmanager
async def _database_session(*, reads: bool = False) -> AsyncGenerator[DatabaseSession]:
    from wakeboard.actions.admin_api import AdminStore
    from wakeboard.cli.support.database_reads import DatabaseReads
    from wakeboard.store.connection import require_schema

    dsn = database_dsn()
    try:
        conn = await _connection(dsn, reads=reads)
    except DatabaseUnavailable as exc:
        exc.hint = exc.hint if dsn else dsn_hint()
        raise
    async with conn:
        try:
            await require_schema(conn)
        except SchemaMismatch as exc:
            raise SchemaMismatch(f"{exc} {STOPPED_HINT}") if not dsn and UP_LOG.exists() else exc from exc
        listings = DatabaseReads(conn)
        store = AdminStore(conn, actor=system_user(), source="cli")
        said = asyncio.create_task(_say_that_it_waits(conn))
        try:
            yield DatabaseSession(store, listings, in_zone(await listings.now()), conn)
        finally:
            said.cancel()


async def _say_that_it_waits(conn: AsyncConnection) -> None:
    """Prints a note once a statement has waited for its reply for long: commits hang, or the server does."""
    from wakeboard.store.reply_limit import unanswered_s

    while (left := PATIENCE_S - unanswered_s(conn)) > 0:  # noqa: ASYNC110 - a statement sets no event
        await asyncio.sleep(min(left, 1.0))
    print_error(UNANSWERED)


async def _connection(dsn: str, *, reads: bool) -> AsyncConnection:
    """A connection to the standby if there is one and it may be used, and otherwise to the primary."""
    from wakeboard.store.connection import connect

    if reads and (read_dsn := configured_read_dsn()):
        from wakeboard.views.replica import connect_to_replica

        try:
            conn, (lag, _) = await connect_to_replica(read_dsn, dsn, name="wakeboard cli")
        except (DatabaseUnavailable, SchemaMismatch) as error:
            print_error(f"note: WAKEBOARD_READ_DSN is not used: {error}")
        else:
            if lag is None or lag >= WORTH_A_NOTE:
                behind = "an unknown time" if lag is None else lasted(lag)
                print_error(f"note: read from a standby, {behind} behind.")
            return conn
    return await connect(dsn, name="wakeboard cli")
