"""A connection to the board that is opened when it is needed, and anew after it broke.

It is for one task: reads are transactions, and a statement of another task would become a part of them.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from wakeboard.store.connection import connect, died_idle
from wakeboard.store.queries.listings import Reports
from wakeboard.store.queries.recent_events import Live
from wakeboard.store.sql_api import Store

if TYPE_CHECKING:
    from datetime import datetime

    from wakeboard.store.queries.recent_events import Due


class LocalConnection:
    """The moves, the views and the questions. Each raises DatabaseUnavailable while there is no connection."""

    def __init__(self, dsn: str) -> None:
        self._dsn = dsn
        self._opening = asyncio.Lock()
        self._conn: Any = None
        self.queues: list[str] = []  # that our workers serve

    async def store(self) -> Store:
        """The moves."""
        return Store(await self._open())

    async def reports(self) -> Reports:
        """The views."""
        return Reports(await self._open())

    async def live(self) -> Live:
        """The questions of somebody who watches."""
        return Live(await self._open())

    async def due_since(self, since: datetime | None) -> Due:
        """Whether something became due for our workers."""
        return await (await self.live()).due_since(since, self.queues)

    async def busy(self) -> bool:
        """Whether something of our workers' queues runs."""
        return await (await self.live()).running(self.queues) > 0

    async def close(self) -> None:
        """Closes the connection, if there is one."""
        if self._conn is not None:
            await self._conn.close()

    async def _open(self) -> Any:
        async with self._opening:
            if self._conn is not None and died_idle(self._conn):
                await self.close()
                self._conn = None
            if self._conn is None:
                self._conn = await connect(self._dsn, name="wakeboard up")
            return self._conn
