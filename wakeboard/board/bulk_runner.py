"""Executes bulk actions in the background, a batch at a time, also those that another board left unfinished.

The progress is in the database and each batch is one transaction that locks the bulk action: however many boards
execute it, each run has its action once, and a board that dies loses nothing. A pause between batches leaves workers
their share of the database, and users the time to cancel. A batch that cannot have a lock, or that takes too long, is
rolled back and repeated; meanwhile the page of the bulk action says why it waits.
"""

from __future__ import annotations

import asyncio
import logging
from contextlib import suppress
from typing import TYPE_CHECKING, Final

from wakeboard.actions.admin_api import AdminStore
from wakeboard.actions.bulk_actions import execute_bulk_action
from wakeboard.errors import WakeboardError
from wakeboard.views.connection_pool import ConnectionPool
from wakeboard.views.queries.audit import bulk_actions

if TYPE_CHECKING:
    from collections.abc import Callable

    from wakeboard.actions.admin_api import BulkActionProgress

POLL_S: Final = 5.0  # how soon a board continues what another one has left
RETRY_S: Final = 15.0  # after an error
PAUSE_S: Final = 0.2  # between two batches
BATCH_SIZE: Final = 500
AT_ONCE: Final = 20
CONNECTIONS: Final = 1  # the bulk actions take turns
BATCH_TIMEOUT_S: Final = 30  # of one batch, which takes some tens of milliseconds
WAIT_S: Final = 120.0  # for the turn

_log = logging.getLogger("wakeboard.board")


class BulkActionRunner:
    """Executes all unfinished bulk actions of a database. `on_progress` is called after each batch."""

    def __init__(self, dsn: str, on_progress: Callable[[], None]) -> None:
        self._pool = ConnectionPool(
            dsn,
            name="wakeboard board bulk action",
            max_connections=CONNECTIONS,
            statement_timeout_s=BATCH_TIMEOUT_S,
            wait_s=WAIT_S,
        )
        self._problems: dict[int, str] = {}
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

    def problem_of(self, bulk_action_id: int) -> str:
        """Why the last batch of a bulk action was not executed; "" if it was."""
        return self._problems.get(bulk_action_id, "")

    async def run_bulk_action_batch(self, bulk_action_id: int, count: int = BATCH_SIZE) -> BulkActionProgress:
        """Executes a batch. Raises WakeboardError, after which nothing of the batch has happened."""
        try:
            async with self._pool.transaction() as conn:
                progress = await AdminStore(conn).run_bulk_action_batch(bulk_action_id, count)
        except WakeboardError as exc:
            self._problems[bulk_action_id] = str(exc)
            raise
        self._problems.pop(bulk_action_id, None)
        return progress

    async def close(self) -> None:
        """Stops. The batch that is being executed is rolled back, or had committed."""
        tasks = [*self._executing.values(), *([self._task] if self._task else [])]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await self._pool.close()

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
        unfinished = await self._pool.run(lambda conn: bulk_actions(conn, AT_ONCE, unfinished=True))
        self._problems = {each.id: self._problems[each.id] for each in unfinished if each.id in self._problems}
        for each in unfinished:
            if each.id not in self._executing:
                self._executing[each.id] = asyncio.create_task(self._execute(each.id))

    async def _execute(self, bulk_action_id: int) -> None:
        try:
            await execute_bulk_action(
                self,
                bulk_action_id,
                batch_size=BATCH_SIZE,
                pause_s=PAUSE_S,
                report=lambda _: self._on_progress(),
            )
        except WakeboardError as exc:
            _log.warning("bulk action %d waits: %s", bulk_action_id, exc)
        finally:
            del self._executing[bulk_action_id]
