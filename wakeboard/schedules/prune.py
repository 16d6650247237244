"""Prune: removes schedules that their source no longer declares.

A removal of very many schedules at once is usually a mistake (an empty folder, a wrong branch, a
truncated list). It stays pending until a user has confirmed exactly that list.
"""

from __future__ import annotations

import hashlib
from collections import deque
from functools import partial
from typing import TYPE_CHECKING, Final

from wakeboard.schedules import calls
from wakeboard.schedules.scheduler import SCHEDULE_REMOVED, enqueue_ticks, plan_batch, plan_skip
from wakeboard.text.humanize import counted

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence
    from datetime import datetime

    from wakeboard.engine.maintenance_api import MaintenanceStore
    from wakeboard.schedules.calls import KnownDefinition

# A removal needs a confirmation when it exceeds both.
CONFIRM_ABOVE: Final = 10  # schedules
CONFIRM_ABOVE_SHARE: Final = 0.2  # of the schedules of the source

TRIES: Final = 5
IDS_PER_BATCH: Final = 500


def missing_definitions(
    desired: Collection[tuple[str, str]], known: Sequence[KnownDefinition], listed_at: datetime
) -> list[KnownDefinition]:
    """Returns the stored schedules that are not desired, except those that a sync has written since `listed_at`."""
    return [
        each
        for each in known
        if not each.removed and (each.namespace, each.name) not in desired and each.last_synced_at < listed_at
    ]


def needs_confirmation(missing: int, live: int) -> bool:
    """Whether a user must confirm the removal of `missing` out of `live` schedules."""
    return missing > CONFIRM_ABOVE and missing > live * CONFIRM_ABOVE_SHARE


async def remove(
    store: MaintenanceStore,
    source: str,
    missing: Sequence[KnownDefinition],
    live: int,
    listed_at: datetime,
    *,
    reported: Sequence[KnownDefinition] = (),
) -> tuple[list[str], str | None]:
    """Removes `missing` and `reported`: skips due ticks, cancels queued and failed runs. Running and dead runs stay.

    Returns the names of the removed schedules and, if the removal of `missing` is pending, a message with the command
    that confirms it. A removal is pending as a whole. `reported` are removed in any number, because their deletion is
    certain.
    """
    pending: str | None = None
    if not needs_confirmation(len(missing), live):
        await calls.request_removal(store, source, "", 0)
    elif not await calls.request_removal(store, source, _hash_of(missing), len(missing)):
        pending = (
            f"{len(missing)} of {counted(live, 'schedule')} of {source} are no longer declared, and none of them was"
            f" removed: that many at once may be a mistake. To remove them, type: wakeboard confirm removal {source}"
        )
        missing = ()
    return await _remove(store, source, {each.id: each for each in [*reported, *missing]}, listed_at), pending


async def suspend_deleted(store: MaintenanceStore, source: str, deleted: Sequence[KnownDefinition]) -> None:
    """Suspends schedules whose object no longer exists and whose removal is pending.

    Records due ticks as skipped. A new object resumes its schedule, as any edit does.
    """
    ids = [each.id for each in deleted]
    for start in range(0, len(ids), IDS_PER_BATCH):
        batch = ids[start : start + IDS_PER_BATCH]
        await _skip_due_ticks(store, batch)
        await calls.suspend_definitions(store, source, batch)


async def _remove(
    store: MaintenanceStore, source: str, waiting: dict[int, KnownDefinition], listed_at: datetime
) -> list[str]:
    removed: list[str] = []
    for _ in range(TRIES):
        due: list[int] = []
        for start in range(0, len(waiting), IDS_PER_BATCH):
            ids = list(waiting)[start : start + IDS_PER_BATCH]
            for definition_id, answer in await calls.remove_definitions(store, source, ids, listed_at):
                if answer == "due":
                    due.append(definition_id)
                else:
                    removed.append(f"{waiting[definition_id].namespace}/{waiting[definition_id].name}")
        if not due:
            break
        await _skip_due_ticks(store, due)
        waiting = {definition_id: waiting[definition_id] for definition_id in due}
    return sorted(removed)


async def _skip_due_ticks(store: MaintenanceStore, ids: Sequence[int]) -> None:
    waiting = deque(await calls.filter_due_definitions(store, ids))
    while plans := plan_batch(waiting, partial(plan_skip, reason=SCHEDULE_REMOVED)):
        await enqueue_ticks(store, plans)


def _hash_of(missing: Sequence[KnownDefinition]) -> str:
    names = sorted(f"{each.namespace}/{each.name}" for each in missing)
    return hashlib.sha256("\n".join(names).encode()).hexdigest()
