"""Creates the partitions of job_run_history weeks ahead, and drops those whose runs are all older than the retention.

Both need a short lock on the history table. The SQL functions wait at most one second for it and then give up, so that
other queries do not queue up behind them. This module retries.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final, TypeVar

from wakeboard.errors import DatabaseUnavailable, WakeboardError

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable
    from datetime import timedelta

    from wakeboard.engine.maintenance_api import MaintenanceStore

TRIES: Final = 3
RETRY_PAUSE_S: Final = 0.3  # in which others get their locks

_Result = TypeVar("_Result")


async def create_partitions(store: MaintenanceStore) -> int:
    """Creates the missing partitions from this week to five weeks ahead and returns their number. Cheap if none is.

    Raises DatabaseUnavailable when three tries do not get the lock.
    """
    return await _retried(store.create_partitions)


async def drop_partitions(store: MaintenanceStore, retention: timedelta) -> int:
    """Drops the partitions whose runs all finished more than `retention` ago and returns their number.

    Raises DatabaseUnavailable when three tries do not get the lock.
    """
    return await _retried(lambda: store.drop_partitions(retention))


async def with_partition(store: MaintenanceStore, operation: Callable[[], Awaitable[_Result]]) -> _Result:
    """Runs an operation that writes history. If the current partition is missing, creates it and runs it again."""
    try:
        return await operation()
    except DatabaseUnavailable:
        raise
    except WakeboardError:
        if not await create_partitions(store):
            raise  # no partition was missing
        return await operation()


async def _retried(operation: Callable[[], Awaitable[int]]) -> int:
    for _ in range(TRIES - 1):
        try:
            return await operation()
        except DatabaseUnavailable:
            await asyncio.sleep(RETRY_PAUSE_S)
    return await operation()
