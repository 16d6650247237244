"""Tidying: what nothing needs any more goes, a bounded batch at a time."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, Final, NamedTuple

from wakeboard.maintenance.partitions import drop_partitions, with_partition

if TYPE_CHECKING:
    from wakeboard.store.maintenance_api import Store

BATCHES_AT_ONCE: Final = 10  # of a thousand rows of each kind: some tenths of a second, so that ticks do not wait


@dataclass(frozen=True, slots=True)
class Retention:
    """How long things are kept: finished runs, idempotency keys after their run ended, dead runs (None: for ever)."""

    history: timedelta = timedelta(days=30)
    keys: timedelta = timedelta(days=7)
    dead: timedelta | None = None


class Tidied(NamedTuple):
    """What went: rows and whole partitions. `more`: there is more to do, and soon."""

    rows: int = 0
    partitions: int = 0
    more: bool = False


async def tidy_up(store: Store, retention: Retention, *, decides: bool = False) -> Tidied:
    """Deletes what nothing needs any more; once nothing is left, drops old partitions, and the board rests for an hour.

    Whoever comes within that hour finds nothing to do, so every worker may call this. `decides`: the installation keeps
    things for this long from now on; otherwise for at least as long as it was told to (a worker may lengthen, not
    shorten). Raises WakeboardError when the board cannot be written.
    """
    rows = 0
    if decides:
        await store.set_retention(retention.history, retention.keys, retention.dead)
    for _ in range(BATCHES_AT_ONCE):
        gone = await with_partition(
            store, lambda: store.delete_expired(retention.keys, retention.dead, retention.history)
        )
        if gone is None:
            return Tidied(rows)
        if gone == 0:
            return Tidied(rows, await drop_partitions(store, retention.history))
        rows += gone
    return Tidied(rows, more=True)
