"""SQL functions of runs and ticks that wait for others, typed."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime

    from wakeboard.engine.maintenance_api import MaintenanceStore


class EnqueuedDependents(NamedTuple):
    """What one call did: ended runs consumed; runs created, ticks skipped, runs that may start.

    `has_joins`: ticks of schedules with `ticks: All` must be checked.
    """

    ended: int
    runs: int
    skipped: int
    started: int
    has_joins: bool


class JoinToCheck(NamedTuple):
    """A tick of a schedule, and a parent of which it needs all ticks since the tick before.

    `own`, `parent`: the cron fields, zone, gap and overlap that their ticks come from; None: there are none.
    """

    definition_id: int
    scheduled_for: datetime
    parent_id: int
    own: tuple[str, str, str, str] | None
    parent: tuple[str, str, str, str] | None


@dataclass(frozen=True, slots=True)
class JoinedTick:
    """The ticks of parents that a tick of a schedule needs. `since`: its tick before; None: it cannot be computed."""

    definition_id: int
    scheduled_for: datetime
    since: datetime | None
    needs: Sequence[tuple[int, datetime]]  # parent, tick


async def enqueue_dependents(store: MaintenanceStore, count: int = 1000) -> EnqueuedDependents:
    """Creates and frees the runs that have waited for the ends of others."""
    rows = await store.rows("select * from wakeboard.enqueue_dependents(%s)", count)
    return EnqueuedDependents(*rows[0])


async def joins_to_check(store: MaintenanceStore, count: int) -> list[JoinToCheck]:
    """Ticks of schedules with `ticks: All` that must be checked, a row for each of these parents."""
    rows = await store.rows("select * from wakeboard.joins_to_check(%s)", count)
    return [
        JoinToCheck(
            row[0],
            row[1].astimezone(UTC),
            row[2],
            row[3:7] if row[3] is not None else None,
            row[7:11] if row[7] is not None else None,
        )
        for row in rows
    ]


async def enqueue_joined_ticks(store: MaintenanceStore, joined: Sequence[JoinedTick]) -> int:
    """Creates the runs of those ticks for which all the ticks that they need have ended. Returns how many."""
    needs = [(place, *need) for place, tick in enumerate(joined, 1) for need in tick.needs]
    return await store.value(
        "select wakeboard.enqueue_joined_ticks(%s::bigint[], %s::pg_catalog.timestamptz[],"
        " %s::pg_catalog.timestamptz[], %s::integer[], %s::bigint[], %s::pg_catalog.timestamptz[])",
        [tick.definition_id for tick in joined],
        [tick.scheduled_for for tick in joined],
        [tick.since for tick in joined],
        *([need[column] for need in needs] for column in range(3)),
    )
