"""Notices that something may be due: the channel `wakeboard`, on a connection of its own (never through a pooler)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from wakeboard.store.connection import connect
from wakeboard.store.statements import listen, translating

if TYPE_CHECKING:
    from collections.abc import AsyncIterator


async def notifications(dsn: str) -> AsyncIterator[None]:
    """One item for each notice, and one at the start, since what came before cannot be known.

    Raises DatabaseUnavailable when there is no connection, or no longer.
    """
    conn = await connect(dsn, name="wakeboard listen")
    async with conn:
        with translating():
            await listen(conn, "wakeboard")
            yield None
            async for _ in conn.notifies():
                yield None
