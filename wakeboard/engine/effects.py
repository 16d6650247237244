"""The effects table: one row for each effect, written in the transaction that has the effect.

In the store's database, `once` also checks the lease. In another database it cannot: there, `install_effects_table`
creates the same table and a function with the same signature. An effect once for ever has the nil UUID in place of its
run's, so that an effects table which is installed already can guard it.
"""

from __future__ import annotations

from contextlib import contextmanager
from importlib.resources import files
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from psycopg import sql
from psycopg.rows import scalar_row

from wakeboard.engine.run import EVERY_RUN, OnceCall
from wakeboard.errors import Refused, SchemaMismatch
from wakeboard.store.callers_connection import callers_connection
from wakeboard.store.connection import connect, describe_connection
from wakeboard.store.statements import checked_call, pinned_transaction, read, translating

if TYPE_CHECKING:
    from collections.abc import Generator
    from uuid import UUID

_NO_TABLE: Final = (
    "run.once: this database has no effects table. For an application's database, run `wakeboard effects install`;"
    " for wakeboard's own, run `wakeboard migrate`."
)
_ONCE: Final = checked_call(
    "select wakeboard.once(%s, %s, %s::pg_catalog.uuid, %s, %s), pg_catalog.pg_current_xact_id()::pg_catalog.text"
)
_END: Final = checked_call("select pg_catalog.pg_xact_status(%s::pg_catalog.xid8)")


class Lease(NamedTuple):
    """The lease under which an effect happens."""

    worker: int
    run_id: int
    run_uuid: UUID
    epoch: int


@contextmanager
def _naming_table() -> Generator[None]:
    try:
        yield
    except SchemaMismatch as error:
        raise SchemaMismatch(_NO_TABLE) from error.__cause__


def once(conn: Any, lease: Lease, key: str, *, forever: bool = False) -> Any:
    """An OnceCall: whether the caller's transaction has the effect, or an earlier one. Awaitable if `conn` is async.

    `forever`: an earlier one of any run, not only of this one.
    Raises LeaseLost and EffectInDoubt (roll back), Refused in autocommit mode, and SchemaMismatch without an effects
    table.
    """
    over = callers_connection(conn)
    if forever:
        lease = lease._replace(run_uuid=EVERY_RUN)

    def finish(rows: list[tuple[Any, ...]]) -> OnceCall:
        ((is_first, transaction),) = rows
        return OnceCall(is_first, transaction, over)

    return over.call(_ONCE, (*lease, key), finish, _naming_table(), needs_transaction=True)


def end_of_once(conn: Any, call: OnceCall) -> Any:
    """'committed', 'aborted' or 'in progress': the transaction of a call on the same server. Awaitable as `once`."""
    return callers_connection(conn).call(_END, (call.transaction,), lambda rows: rows[0][0])


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
