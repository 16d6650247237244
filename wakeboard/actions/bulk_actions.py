"""Executes a bulk action batch by batch, until it is finished or cancelled.

The progress is in the database, and each batch is one transaction. If a process dies, another one calls
`execute_bulk_action` again and continues. Several may execute one bulk action: each run has its action once.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final, Protocol

from wakeboard.errors import Locked

if TYPE_CHECKING:
    from collections.abc import Callable

    from wakeboard.actions.admin_api import BulkActionProgress

BATCH_SIZE: Final = 1000  # runs in one transaction: some tens of milliseconds
WAIT_S: Final = 0.1  # while another process executes a batch, and after a lock could not be had
MAX_LOCKED: Final = 20  # consecutive batches that could not have a lock; the SQL function waits for two seconds


class Batches(Protocol):
    """What executes a batch: an AdminStore, or what bounds the time of its call."""

    async def run_bulk_action_batch(self, bulk_action_id: int, count: int = BATCH_SIZE) -> BulkActionProgress:
        """As `AdminStore.run_bulk_action_batch`."""
        ...


async def execute_bulk_action(
    batches: Batches,
    bulk_action_id: int,
    *,
    batch_size: int = BATCH_SIZE,
    pause_s: float = 0.0,
    report: Callable[[BulkActionProgress], None] = lambda _: None,
) -> BulkActionProgress:
    """Executes all remaining batches and returns the final progress.

    `report` is called after each batch, and `pause_s` passes before the next one.

    Raises InvalidValue if there is no such bulk action, Locked if another transaction keeps a lock for long, and
    DatabaseUnavailable if the connection is lost. After the latter two, call it again.
    """
    locked = 0
    while True:
        try:
            progress = await batches.run_bulk_action_batch(bulk_action_id, batch_size)
        except Locked:
            locked += 1
            if locked == MAX_LOCKED:
                raise
            await asyncio.sleep(WAIT_S)
            continue
        locked = 0
        report(progress)
        if progress.finished:
            return progress
        await asyncio.sleep(pause_s if progress.answered else WAIT_S)
