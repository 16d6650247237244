"""The partitions of the history: made weeks ahead, dropped when every run in them is old enough.

Both need a moment's lock on the history. They wait a second at most for it and then step back, so that nobody's
queries queue up behind them; here they are tried again.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final, TypeVar

from wakeboard.errors import DatabaseUnavailable, WakeboardError

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable
    from datetime import timedelta

    from wakeboard.store.maintenance_api import Store

TRIES: Final = 3
PAUSE_S: Final = 0.3  # between two tries: others get their locks

_Answer = TypeVar("_Answer")


async def create_partitions(store: Store) -> int:
    """Makes the missing partitions from this week to five weeks ahead; answers with how many. Cheap when all are there.

    Raises DatabaseUnavailable when the lock could not be had in three tries.
    """
    return await _tried_again(store.create_partitions)


async def drop_partitions(store: Store, retention: timedelta) -> int:
    """Drops the partitions whose every run finished more than `retention` ago; answers with how many.

    Raises DatabaseUnavailable when the lock could not be had in three tries.
    """
    return await _tried_again(lambda: store.drop_partitions(retention))


async def with_partition(store: Store, move: Callable[[], Awaitable[_Answer]]) -> _Answer:
    """Makes a move that writes history; where the partition for now is missing, it is made and the move repeated."""
    try:
        return await move()
    except DatabaseUnavailable:
        raise
    except WakeboardError:
        if not await create_partitions(store):
            raise  # that was not it
        return await move()


async def _tried_again(move: Callable[[], Awaitable[int]]) -> int:
    for _ in range(TRIES - 1):
        try:
            return await move()
        except DatabaseUnavailable:
            await asyncio.sleep(PAUSE_S)
    return await move()
