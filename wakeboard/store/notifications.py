"""Notifications that a run may be due: channel `wakeboard`, on a connection of its own, never through a pooler.

The payload `ended` says that maintenance may find a run whose dependencies have ended.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from wakeboard.store.connection import connect
from wakeboard.store.statements import listen, translating

if TYPE_CHECKING:
    from collections.abc import AsyncIterator


async def notifications(dsn: str) -> AsyncIterator[str]:
    """Yields the payload of each notification, and first an empty one, because earlier notifications are lost.

    Raises DatabaseUnavailable if it cannot connect, or when the connection is lost.
    """
    conn = await connect(dsn, name="wakeboard listen")
    async with conn:
        with translating():
            await listen(conn, "wakeboard")
            yield ""
            async for notification in conn.notifies():
                yield notification.payload
