"""Connections whose work is bounded in time: for pages, and for the actions of users.

Each piece of work is one transaction. The server stops a statement of it after a time. If the server does not answer at
all, the client cancels the statement and closes the connection. So no caller waits for ever, and what was stopped has
changed nothing. The bounds belong to the transaction, so they hold behind PgBouncer too.
"""

from __future__ import annotations

import asyncio
import math
import time
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Final, TypeVar

import psycopg

from wakeboard.errors import CommitLost, DatabaseUnavailable, QueryTimedOut
from wakeboard.store.connection import require_schema
from wakeboard.store.reconnecting import ReconnectingConnection
from wakeboard.store.reply_limit import NoReply
from wakeboard.store.statements import bounded_transaction, translating
from wakeboard.views.queries.listings import Listings

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Awaitable, Callable

    from wakeboard.store.connection import AsyncConnection
    from wakeboard.store.reply_limit import ReplyLimit

WAIT_S: Final = 5.0  # for a free connection
UNANSWERED_S: Final = 5.0  # a transaction may last for so long, and for one statement more
ANSWER_S: Final = 1.0  # a server that works answers so soon after it has stopped a statement, or lets a client connect

_Result = TypeVar("_Result")


class ConnectionPool:
    """At most `max_connections` connections, opened when needed.

    `statement_timeout_s`: the server stops a statement that takes longer. `read_only`: nothing can be changed.
    `wait_s`: how long a caller waits for a free connection.

    `busy_s`: how long the transactions that have ended were open, in sum. It bounds the CPU time that they took in the
    database from above.
    """

    def __init__(
        self,
        dsn: str,
        *,
        name: str,
        max_connections: int,
        statement_timeout_s: int,
        read_only: bool = False,
        wait_s: float = WAIT_S,
    ) -> None:
        self._all = [ReconnectingConnection(dsn, name, Listings) for _ in range(max_connections)]
        self._free: asyncio.LifoQueue[ReconnectingConnection[Listings]] = asyncio.LifoQueue()
        for connection in reversed(self._all):
            self._free.put_nowait(connection)
        self._statement_timeout_s, self._read_only, self._wait_s = statement_timeout_s, read_only, wait_s
        self._schema_checked = False
        self.busy_s = 0.0

    async def run(self, query: Callable[[AsyncConnection], Awaitable[_Result]]) -> _Result:
        """The result of `query` in a transaction. Raises as `transaction`."""
        async with self.transaction() as conn:
            return await query(conn)

    @asynccontextmanager
    async def transaction(self, *, statement_timeout_s: int | None = None) -> AsyncGenerator[AsyncConnection]:
        """A transaction. It is rolled back whatever it raises, except CommitLost.

        `statement_timeout_s`: another one than that of the pool.

        Raises QueryTimedOut if a statement takes too long or the database does not answer, Locked if another
        transaction has locked what it needs, DatabaseUnavailable if no connection becomes free or the database cannot
        be reached, CommitLost if the connection broke while it committed, and SchemaMismatch if this release
        cannot use the schema.
        """
        timeout_s = statement_timeout_s or self._statement_timeout_s
        async with self._connection(timeout_s) as (conn, limit):
            committing, began = False, time.monotonic()
            limit.until = began + timeout_s + UNANSWERED_S
            try:
                with translating(conn):
                    async with bounded_transaction(conn, timeout_s, read_only=self._read_only):
                        if not self._schema_checked:
                            await require_schema(conn)
                            self._schema_checked = True
                        yield conn
                        committing = True
            except DatabaseUnavailable as exc:
                if committing and not self._read_only:
                    raise CommitLost("the connection was lost while the change was committed") from exc
                if isinstance(exc.__cause__, NoReply):
                    waited_s = time.monotonic() - began
                    raise QueryTimedOut(f"the database did not answer within {waited_s:.0f} s") from exc
                if isinstance(exc.__cause__, psycopg.errors.QueryCanceled):
                    stopped = f"was stopped after {timeout_s} s"
                    raise QueryTimedOut(
                        f"a query {stopped}: narrow the search" if self._read_only else f"it {stopped}"
                    ) from exc
                raise
            finally:
                limit.until = math.inf
                self.busy_s += time.monotonic() - began

    async def close(self) -> None:
        """Closes all connections."""
        for connection in self._all:
            await connection.close()

    @asynccontextmanager
    async def _connection(self, timeout_s: int) -> AsyncGenerator[tuple[AsyncConnection, ReplyLimit]]:
        try:
            async with asyncio.timeout(self._wait_s):
                connection = await self._free.get()
        except TimeoutError:
            raise DatabaseUnavailable(f"all connections were busy for {self._wait_s:.0f} s: try again") from None
        connection.reply_limit.seconds = timeout_s + ANSWER_S
        try:
            yield (await connection.store()).conn, connection.reply_limit
        except asyncio.CancelledError:
            await connection.close()  # its statement may still run
            raise
        finally:
            self._free.put_nowait(connection)
