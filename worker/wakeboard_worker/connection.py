"""A connection to the board that is opened when it is needed, and again after it broke, also while it was idle."""

from __future__ import annotations

import asyncio
import random
from typing import TYPE_CHECKING

from wakeboard.store.connection import connect, died_idle
from wakeboard.store.worker_api import WorkerStore

if TYPE_CHECKING:
    from wakeboard.store.worker_api import Worker

FIRST_PAUSE_S, LONGEST_PAUSE_S = 0.05, 1.0


class ReconnectingConnection:
    """One worker's moves over one connection at a time."""

    def __init__(self, dsn: str, worker: Worker, purpose: str, *, prepared_statements: bool) -> None:
        self._dsn, self._worker = dsn, worker
        self._name = f"wakeboard {purpose} {worker.name}"
        self._prepared = prepared_statements
        self._leasing: WorkerStore | None = None
        self._opening = asyncio.Lock()
        self._pause_s = FIRST_PAUSE_S

    async def worker_store(self) -> WorkerStore:
        """The moves, over an open connection. Raises DatabaseUnavailable."""
        async with self._opening:
            if self._leasing is not None and died_idle(self._leasing.conn):
                await self.close()
            if self._leasing is None:
                conn = await connect(self._dsn, prepared_statements=self._prepared, name=self._name)
                self._leasing = WorkerStore(conn, self._worker)
                self._pause_s = FIRST_PAUSE_S
            return self._leasing

    async def pause(self) -> None:
        """The connection is of no use: closes it, and waits a little, longer each time and not all at once."""
        await self.close()
        await asyncio.sleep(self._pause_s * random.uniform(0.5, 1.0))  # noqa: S311 - no secret
        self._pause_s = min(LONGEST_PAUSE_S, self._pause_s * 2)

    async def close(self) -> None:
        """Closes the connection, if there is one."""
        if self._leasing is not None:
            await self._leasing.conn.close()
            self._leasing = None
