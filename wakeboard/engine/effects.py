"""The effects table: one row for each effect, written in the transaction that has the effect.

In the store's database, `once` also checks the lease. In another database it cannot: there, `install_effects_table`
creates the same table and a function with the same signature.
"""

from __future__ import annotations

from contextlib import contextmanager
from importlib.resources import files
from typing import TYPE_CHECKING, Any, Final, NamedTuple, overload

import psycopg
from psycopg import sql
from psycopg.pq import TransactionStatus
from psycopg.rows import scalar_row, tuple_row

from wakeboard.errors import Refused, SchemaMismatch
from wakeboard.store.connection import connect, describe_connection
from wakeboard.store.statements import checked_call, pinned_transaction, read, translating

if TYPE_CHECKING:
    from collections.abc import Awaitable, Generator
    from uuid import UUID

_NO_TABLE: Final = (
    "run.once: this database has no effects table. For an application's database, run `wakeboard effects install`;"
    " for wakeboard's own, run `wakeboard migrate`."
)
_ONCE: Final = checked_call("select wakeboard.once(%s, %s, %s, %s, %s)")


class Lease(NamedTuple):
    """The lease under which an effect happens."""

    worker: int
    run_id: int
    run_uuid: UUID
    epoch: int


@contextmanager
def _translating() -> Generator[None]:
    with translating():
        try:
            yield
        except (psycopg.errors.InvalidSchemaName, psycopg.errors.UndefinedFunction) as error:
            if error.diag.context:  # of what a trigger of the application calls
                raise
            raise SchemaMismatch(_NO_TABLE) from error


@overload
def once(conn: psycopg.Connection[Any], lease: Lease, key: str) -> bool: ...
@overload
def once(conn: psycopg.AsyncConnection[Any], lease: Lease, key: str) -> Awaitable[bool]: ...
def once(
    conn: psycopg.Connection[Any] | psycopg.AsyncConnection[Any], lease: Lease, key: str
) -> bool | Awaitable[bool]:
    """True: the caller's transaction has the effect. False: an earlier transaction had it.

    Raises LeaseLost (roll back), and SchemaMismatch if there is no effects table.
    """
    if conn.autocommit and conn.info.transaction_status == TransactionStatus.IDLE:
        raise Refused(
            "run.once needs a transaction in which the effect happens too, and this connection is in autocommit mode:"
            " write `with conn.transaction():` around both."
        )
    if isinstance(conn, psycopg.AsyncConnection):
        return _once_async(conn, lease, key)
    with _translating():
        rows = conn.cursor(row_factory=tuple_row).execute(_ONCE, (*lease, key)).fetchall()
    return rows[0][0]


async def _once_async(conn: psycopg.AsyncConnection[Any], lease: Lease, key: str) -> bool:
    with _translating():
        cursor = await conn.cursor(row_factory=tuple_row).execute(_ONCE, (*lease, key))
        rows = await cursor.fetchall()
    return rows[0][0]


async def install_effects_table(dsn: str, role: str | None = None) -> None:
    """Creates the effects table in the database at `dsn`, for its owner and the application's `role`. May be repeated.

    Raises Refused if the database has wakeboard's own schema: `run.once` works there already.
    """
    conn = await connect(dsn, name="wakeboard effects")
    async with conn:
        if (await read(conn, scalar_row, "select to_regclass('wakeboard.job_runs') is not null"))[0]:
            raise Refused(f"{describe_connection(conn)} has wakeboard's own schema: `run.once` needs no table there.")
        with translating():
            async with pinned_transaction(conn):
                await conn.execute(files("wakeboard.engine").joinpath("effects.sql").read_bytes())
                if role:
                    await conn.execute(_GRANT.format(sql.Identifier(role)))


_GRANT: Final = sql.SQL(
    "grant usage on schema wakeboard to {0};"
    " grant execute on function wakeboard.once(bigint, bigint, uuid, bigint, text) to {0}"
)
