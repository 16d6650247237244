"""A connection to the store that opens on first use and reopens after it broke, also if it broke while it was idle."""

from __future__ import annotations

import asyncio
import logging
import time
from typing import TYPE_CHECKING, Final, Generic, Protocol, TypeVar

from wakeboard.process.backoff import BackoffDelays
from wakeboard.store.connection import connect, is_broken
from wakeboard.store.reply_limit import ReplyLimit

if TYPE_CHECKING:
    from collections.abc import Callable

    import psycopg

    from wakeboard.store.connection import AsyncConnection

log = logging.getLogger("wakeboard.database")

SHORTEST_PAUSE_S: Final = 0.05
LONGEST_PAUSE_S: Final = 2.0  # after an outage of some seconds: so soon, a promoted standby is found
STEADY_S: Final = 5.0  # a connection that was open for so long has worked; a pooler accepts them in an outage, too
REPLY_S: Final = 120.0  # longer than any statement takes
WENT_BACK: Final = "WB005"  # the warning of compare_server.sql


class _HasConnection(Protocol):
    @property
    def conn(self) -> AsyncConnection: ...


StoreT = TypeVar("StoreT", bound=_HasConnection)


class ReconnectingConnection(Generic[StoreT]):
    """One connection at a time. `make_store` wraps each new connection in the SQL functions that the caller needs.

    `name` is the application_name, which Postgres shows in pg_stat_activity. `listens`: the connection receives
    notifications. They look like the end of an idle connection, so only a failed statement shows that it broke.
    `reply_s`: a statement whose reply takes longer is cancelled, and the connection closed (reply_limit.py), so that a
    server or pooler that does not answer does not stop the caller. Wait for notifications no longer than that.
    """

    def __init__(
        self,
        dsn: str,
        name: str,
        make_store: Callable[[AsyncConnection], StoreT],
        *,
        prepared_statements: bool = False,
        listens: bool = False,
        reply_s: float = REPLY_S,
    ) -> None:
        self._dsn, self._name, self._make_store = dsn, name, make_store
        self._prepared_statements, self._listens = prepared_statements, listens
        self.reply_limit = ReplyLimit(reply_s)
        self._store: StoreT | None = None
        self._opening = asyncio.Lock()
        self._backoff, self._opened_at = BackoffDelays(SHORTEST_PAUSE_S, LONGEST_PAUSE_S), 0.0

    async def store(self) -> StoreT:
        """Returns the SQL functions over an open connection. Raises DatabaseUnavailable."""
        async with self._opening:
            if self._store is not None and self._is_broken(self._store.conn):
                await self.close()
            if self._store is None:
                conn = await connect(
                    self._dsn,
                    prepared_statements=self._prepared_statements,
                    name=self._name,
                    reply_limit=self.reply_limit,
                )
                conn.add_notice_handler(_log_once)
                self._store = self._make_store(conn)
                self._opened_at = time.monotonic()
            return self._store

    async def pause(self) -> None:
        """Closes the connection and sleeps, from 50 ms to 2 s with jitter, longer after short connections."""
        if self._store is not None and time.monotonic() - self._opened_at > STEADY_S:
            self._backoff.reset()
        await self.close()
        await asyncio.sleep(self._backoff.next_s())

    async def close(self) -> None:
        """Closes the connection, if one is open."""
        store, self._store = self._store, None
        if store is not None:
            await store.conn.close()

    def _is_broken(self, conn: AsyncConnection) -> bool:
        return conn.closed if self._listens else is_broken(conn)


_logged: Final = set[str]()  # by this process, over its connections


def _log_once(notice: psycopg.errors.Diagnostic) -> None:
    text = notice.message_primary or ""
    if notice.sqlstate == WENT_BACK and text not in _logged:
        _logged.add(text)
        log.error("%s. %s %s", text, notice.message_detail, notice.message_hint)
