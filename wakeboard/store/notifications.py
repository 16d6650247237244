"""Notifications that a run may be due: channel `wakeboard`, on a connection of its own, never through a pooler."""

from __future__ import annotations

from typing import TYPE_CHECKING

from wakeboard.store.connection import connect
from wakeboard.store.statements import listen, translating

if TYPE_CHECKING:
    from collections.abc import AsyncIterator


async def notifications(dsn: str) -> AsyncIterator[None]:
    """Yields once at the start, because earlier notifications are lost, then once for each notification.

    Raises DatabaseUnavailable if it cannot connect, or when the connection is lost.
    """
    conn = await connect(dsn, name="wakeboard listen")
    async with conn:
        with translating():
            await listen(conn, "wakeboard")
            yield None
            async for _ in conn.notifies():
                yield None
