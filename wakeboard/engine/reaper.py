"""Reaps expired leases, and skips runs that did not start before their startingDeadlineSeconds."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from wakeboard.engine.partitions import with_partition

if TYPE_CHECKING:
    from wakeboard.engine.maintenance_api import MaintenanceStore, Reaped


class ReapCounts(NamedTuple):
    """Expired leases by the outcome of their runs, and runs that did not start in time.

    `dead` counts the crashed and timed out runs that will not be retried.
    """

    crashed: int = 0
    timed_out: int = 0
    dead: int = 0
    cancelled: int = 0
    too_late: int = 0


async def reap(store: MaintenanceStore, *, always: bool = False) -> ReapCounts:
    """Ends the attempts whose lease has expired, and skips runs whose startingDeadlineSeconds has passed.

    The store scans all leases only when a worker has stopped sending heartbeats, and once a minute (`always`: now).
    Safe to call at any time and from several processes. Raises WakeboardError when the store cannot be written.
    """
    total = ReapCounts()
    position: int | None = 0
    while position is not None:
        part = await _reap_from(store, position, always=always)
        total = ReapCounts(
            total.crashed + part.crashed,
            total.timed_out + part.timed_out,
            total.dead + part.dead,
            total.cancelled + part.cancelled,
        )
        position = part.next_id
    return total._replace(too_late=await _skip_past_deadline(store))


async def _reap_from(store: MaintenanceStore, position: int, *, always: bool) -> Reaped:
    return await with_partition(store, lambda: store.reap(position, always=always))


async def _skip_past_deadline(store: MaintenanceStore) -> int:
    total = 0
    while late := await with_partition(store, store.skip_past_deadline):
        total += late
    return total
