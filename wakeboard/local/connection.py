"""Connections of `wakeboard up`, one for each of its tasks."""

from __future__ import annotations

from typing import TYPE_CHECKING

from wakeboard.store.admin_api import AdminStore
from wakeboard.store.queries.listings import Listings
from wakeboard.store.queries.recent_events import EventQueries
from wakeboard.store.reconnecting import ReconnectingConnection

if TYPE_CHECKING:
    from datetime import datetime

    from wakeboard.store.queries.recent_events import Due


class LocalConnection(ReconnectingConnection[AdminStore]):
    """The SQL functions and the read queries of `up`. Each method raises DatabaseUnavailable without a connection."""

    def __init__(self, dsn: str) -> None:
        super().__init__(dsn, "wakeboard up", AdminStore)
        self.queues: list[str] = []  # the queues that our workers serve

    async def reports(self) -> Listings:
        """The views."""
        return Listings((await self.store()).conn)

    async def live(self) -> EventQueries:
        """The queries of the live view."""
        return EventQueries((await self.store()).conn)

    async def due_since(self, since: datetime | None) -> Due:
        """Whether a run of our workers' queues has become due since then."""
        return await (await self.live()).due_since(since, self.queues)

    async def busy(self) -> bool:
        """Whether a run of our workers' queues is running."""
        return await (await self.live()).running(self.queues) > 0
