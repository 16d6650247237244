"""Reaping: what was promised to be running and is not, and what should have begun and did not."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from wakeboard.maintenance.partitions import with_partition

if TYPE_CHECKING:
    from wakeboard.store.maintenance_api import Reaped, Store


class ReapCounts(NamedTuple):
    """What one round took back: lapsed leases by what became of their runs, and runs that never began in time.

    `dead` counts runs among the crashed and timed out ones that will not be tried again.
    """

    crashed: int = 0
    timed_out: int = 0
    dead: int = 0
    cancelled: int = 0
    too_late: int = 0


async def reap(store: Store, *, always: bool = False) -> ReapCounts:
    """Takes back lapsed leases, and skips runs whose startingDeadlineSeconds has passed.

    The board walks over all leases only when a worker has fallen silent, and once a minute (`always`: now). Safe at any
    time, and beside others doing the same. Raises WakeboardError when the board cannot be written.
    """
    total = ReapCounts()
    position: int | None = 0
    while position is not None:
        walked = await _walk(store, position, always=always)
        total = ReapCounts(
            total.crashed + walked.crashed,
            total.timed_out + walked.timed_out,
            total.dead + walked.dead,
            total.cancelled + walked.cancelled,
        )
        position = walked.next_id
    return total._replace(too_late=await _skip_past_deadline(store))


async def _walk(store: Store, position: int, *, always: bool) -> Reaped:
    return await with_partition(store, lambda: store.reap(position, always=always))


async def _skip_past_deadline(store: Store) -> int:
    total = 0
    while late := await with_partition(store, store.skip_past_deadline):
        total += late
    return total
