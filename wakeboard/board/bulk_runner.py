"""Executes bulk actions in the background, a batch at a time, also those that another board left unfinished.

The progress is in the database and each batch is one transaction that locks the bulk action: however many boards
execute it, each run has its action once, and a board that dies loses nothing. A pause between batches leaves workers
their share of the database, and users the time to cancel.
"""

from __future__ import annotations

import asyncio
import logging
from contextlib import suppress
from typing import TYPE_CHECKING, Final

from wakeboard.errors import WakeboardError
from wakeboard.store.admin_api import AdminStore
from wakeboard.store.bulk_actions import execute_bulk_action
from wakeboard.store.queries.audit import bulk_actions
from wakeboard.store.reconnecting import ReconnectingConnection

if TYPE_CHECKING:
    from collections.abc import Callable

POLL_S: Final = 5.0  # how soon a board continues what another one has left
RETRY_S: Final = 15.0  # after an error
PAUSE_S: Final = 0.2  # between two batches
BATCH_SIZE: Final = 500
AT_ONCE: Final = 20

_log = logging.getLogger("wakeboard.board")


class BulkActionRunner:
    """Executes all unfinished bulk actions of a database. `on_progress` is called after each batch."""

    def __init__(self, dsn: str, on_progress: Callable[[], None]) -> None:
        self._connection = ReconnectingConnection(dsn, "wakeboard board bulk action", AdminStore)
        self._on_progress = on_progress
        self._task: asyncio.Task[None] | None = None
        self._executing: dict[int, asyncio.Task[None]] = {}
        self._created = asyncio.Event()

    def start(self) -> None:
        """Begins to look for bulk actions, unless it does already."""
        if self._task is None or self._task.done():
            self._task = asyncio.create_task(self._run())

    def wake(self) -> None:
        """Looks for bulk actions now: one was created."""
        self._created.set()
        self.start()

    async def close(self) -> None:
        """Stops. The batch that is being executed is rolled back, or had committed."""
        tasks = [*self._executing.values(), *([self._task] if self._task else [])]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await self._connection.close()

    async def _run(self) -> None:
        while True:
            self._created.clear()
            wait_s = POLL_S
            try:
                await self._begin_unfinished()
            except WakeboardError as exc:
                _log.warning("bulk actions are not executed now: %s", exc)
                wait_s = RETRY_S
            with suppress(TimeoutError):
                async with asyncio.timeout(wait_s):
                    await self._created.wait()

    async def _begin_unfinished(self) -> None:
        """Begins to execute the unfinished ones. They share a connection and take turns, batch by batch."""
        store = await self._connection.store()
        for each in await bulk_actions(store.conn, AT_ONCE, unfinished=True):
            if each.id not in self._executing:
                self._executing[each.id] = asyncio.create_task(self._execute(store, each.id))

    async def _execute(self, store: AdminStore, bulk_action_id: int) -> None:
        try:
            await execute_bulk_action(
                store,
                bulk_action_id,
                batch_size=BATCH_SIZE,
                pause_s=PAUSE_S,
                report=lambda _: self._on_progress(),
            )
        except WakeboardError as exc:
            _log.warning("bulk action %d waits: %s", bulk_action_id, exc)
        finally:
            del self._executing[bulk_action_id]
