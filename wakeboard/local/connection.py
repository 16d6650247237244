"""Connections of `wakeboard up`, one for each of its tasks."""

from __future__ import annotations

from typing import TYPE_CHECKING

from wakeboard.store.queries.listings import Reports
from wakeboard.store.queries.recent_events import Live
from wakeboard.store.reconnecting import ReconnectingConnection
from wakeboard.store.sql_api import Store

if TYPE_CHECKING:
    from datetime import datetime

    from wakeboard.store.queries.recent_events import Due


class LocalConnection(ReconnectingConnection[Store]):
    """The SQL functions and the read queries of `up`. Each method raises DatabaseUnavailable without a connection."""

    def __init__(self, dsn: str) -> None:
        super().__init__(dsn, "wakeboard up", Store)
        self.queues: list[str] = []  # the queues that our workers serve

    async def reports(self) -> Reports:
        """The views."""
        return Reports((await self.store()).conn)

    async def live(self) -> Live:
        """The queries of the live view."""
        return Live((await self.store()).conn)

    async def due_since(self, since: datetime | None) -> Due:
        """Whether a run of our workers' queues has become due since then."""
        return await (await self.live()).due_since(since, self.queues)

    async def busy(self) -> bool:
        """Whether a run of our workers' queues is running."""
        return await (await self.live()).running(self.queues) > 0
