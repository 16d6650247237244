"""Connections for pages that only read, and a cache that lets many viewers share one query.

Each query runs in a read-only transaction with a statement timeout, so that no page changes the store or slows the
workers down for long. The limits belong to the transaction, so they hold behind PgBouncer too.
"""

from __future__ import annotations

import asyncio
import time
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any, Final, TypeVar

import psycopg

from wakeboard.errors import DatabaseUnavailable, QueryTimedOut
from wakeboard.store.connection import require_schema
from wakeboard.store.queries.listings import Listings
from wakeboard.store.reconnecting import ReconnectingConnection
from wakeboard.store.statements import read_only_transaction, translating

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Awaitable, Callable, Hashable

    from wakeboard.store.connection import AsyncConnection

MAX_CONNECTIONS: Final = 4
STATEMENT_TIMEOUT_S: Final = 3
WAIT_S: Final = 5.0  # for a free connection
CACHE_S: Final = 1.0

_Result = TypeVar("_Result")


class ReadPool:
    """Runs queries in read-only transactions over at most `max_connections` connections, opened when needed."""

    def __init__(self, dsn: str, *, name: str, max_connections: int = MAX_CONNECTIONS) -> None:
        self._all = [ReconnectingConnection(dsn, name, Listings) for _ in range(max_connections)]
        self._free: asyncio.LifoQueue[ReconnectingConnection[Listings]] = asyncio.LifoQueue()
        for connection in reversed(self._all):
            self._free.put_nowait(connection)
        self._schema_checked = False

    async def run(self, query: Callable[[AsyncConnection], Awaitable[_Result]]) -> _Result:
        """The result of `query`.

        Raises QueryTimedOut if a statement takes longer than 3 s, DatabaseUnavailable if no connection is free within
        5 s or the database cannot be reached, and SchemaMismatch if this release cannot use the schema.
        """
        async with self._connection() as conn:
            try:
                with translating():
                    async with read_only_transaction(conn, STATEMENT_TIMEOUT_S):
                        return await query(conn)
            except DatabaseUnavailable as exc:
                if isinstance(exc.__cause__, psycopg.errors.QueryCanceled):
                    raise QueryTimedOut(
                        f"a query was stopped after {STATEMENT_TIMEOUT_S} s: narrow the search"
                    ) from exc
                raise

    async def close(self) -> None:
        """Closes all connections."""
        for connection in self._all:
            await connection.close()

    @asynccontextmanager
    async def _connection(self) -> AsyncGenerator[AsyncConnection]:
        try:
            async with asyncio.timeout(WAIT_S):
                connection = await self._free.get()
        except TimeoutError:
            raise DatabaseUnavailable(f"all connections were busy for {WAIT_S:.0f} s: try again") from None
        try:
            conn = (await connection.store()).conn
            if not self._schema_checked:
                await require_schema(conn)
                self._schema_checked = True
            yield conn
        except asyncio.CancelledError:
            await connection.close()  # its statement may still run
            raise
        finally:
            self._free.put_nowait(connection)


class SharedReads:
    """Answers equal queries from one read, however many viewers ask.

    At most one read of a key runs at a time. Its result is kept for `keep_s` seconds, or until `clear` or `forget`.
    """

    def __init__(self, pool: ReadPool, *, keep_s: float = CACHE_S) -> None:
        self._pool, self._keep_s = pool, keep_s
        self._reads: dict[Hashable, tuple[float, asyncio.Task[Any]]] = {}
        self._running: set[asyncio.Task[Any]] = set()

    async def get(self, key: Hashable, query: Callable[[AsyncConnection], Awaitable[_Result]]) -> _Result:
        """The result of `query`, which may be up to `keep_s` old. `key` names the query and all its arguments.

        An error reaches all who wait for this read, and is not kept.
        """
        now = time.monotonic()
        kept = self._reads.get(key)
        if kept is None or (kept[1].done() and (now - kept[0] > self._keep_s or _failed(kept[1]))):
            self._forget(now)
            kept = self._reads[key] = (now, asyncio.create_task(self._pool.run(query)))
            self._running.add(kept[1])
            kept[1].add_done_callback(self._running.discard)
        return await asyncio.shield(kept[1])  # a viewer who leaves does not stop the read for the others

    def clear(self) -> None:
        """Forgets finished reads: the store has changed."""
        self._reads = {key: kept for key, kept in self._reads.items() if not kept[1].done()}

    def forget(self) -> None:
        """Forgets all reads: a later `get` sees everything that is committed now."""
        self._reads = {}

    async def close(self) -> None:
        """Stops the reads that run, also those whose callers have gone, so that none opens a connection later."""
        running = list(self._running)
        for task in running:
            task.cancel()
        await asyncio.gather(*running, return_exceptions=True)

    def _forget(self, now: float) -> None:
        self._reads = {
            key: kept for key, kept in self._reads.items() if not kept[1].done() or now - kept[0] <= self._keep_s
        }


def _failed(task: asyncio.Task[Any]) -> bool:
    return task.cancelled() or task.exception() is not None
