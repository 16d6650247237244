"""Retention: deletes what is older than the retention periods, in bounded batches.

The periods come from the settings (wakeboard.settings has the defaults). The store keeps the minimum that the operator,
`up` or `migrate` has set, and a worker's settings can only lengthen it.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, Final, NamedTuple

from wakeboard.engine.partitions import drop_partitions, with_partition

if TYPE_CHECKING:
    from wakeboard.engine.maintenance_api import MaintenanceStore
    from wakeboard.settings import Settings

MAX_BATCHES: Final = 10  # of a thousand rows of each kind: some tenths of a second, so that ticks do not wait


@dataclass(frozen=True, slots=True)
class Retention:
    """How long the store keeps finished runs, idempotency keys after their run ended, dead runs, and audit rows.

    `logs`: of runs. `effects`: keys of effects once for ever. `dead` or `effects` None: forever.
    """

    history: timedelta
    keys: timedelta
    dead: timedelta | None
    audit: timedelta
    effects: timedelta | None
    logs: timedelta

    @classmethod
    def from_settings(cls, settings: Settings) -> Retention:
        """The periods of these settings."""
        dead_days, effect_days = settings.dead_retention_days, settings.effect_retention_days
        return cls(
            history=timedelta(days=settings.history_retention_days),
            keys=timedelta(days=settings.idempotency_key_retention_days),
            dead=None if dead_days is None else timedelta(days=dead_days),
            audit=timedelta(days=settings.audit_retention_days),
            effects=None if effect_days is None else timedelta(days=effect_days),
            logs=timedelta(days=settings.log_retention_days),
        )


class DeletedCounts(NamedTuple):
    """What one call deleted: rows and whole partitions. `more`: call again soon."""

    rows: int = 0
    partitions: int = 0
    more: bool = False


async def delete_expired(store: MaintenanceStore, retention: Retention, *, sets_minimum: bool = False) -> DeletedCounts:
    """Deletes expired rows. When none is left, drops expired partitions.

    For an hour after that, a call deletes nothing and is cheap, so every worker may call this. `sets_minimum`: first
    stores `retention` as the minimum of the installation. Raises WakeboardError when the store cannot be written.
    """
    rows = 0
    if sets_minimum:
        await store.set_retention(retention.history, retention.keys, retention.dead, retention.effects, retention.logs)
        await store.set_audit_retention(retention.audit)
    for _ in range(MAX_BATCHES):
        deleted = await with_partition(
            store, lambda: store.delete_expired(retention.keys, retention.dead, retention.history)
        )
        if deleted is None:
            return DeletedCounts(rows)
        if deleted == 0:
            return DeletedCounts(rows, await drop_partitions(store, retention.history))
        rows += deleted
    return DeletedCounts(rows, more=True)
