"""Removing: definitions that are declared no longer.

A removal of very many schedules at once is more often a mistake than a wish (an empty folder, a wrong branch, a list
cut short). It is held until a person has said yes to that very list.
"""

from __future__ import annotations

import hashlib
from collections import deque
from functools import partial
from typing import TYPE_CHECKING, Final

from wakeboard.maintenance.scheduler import SCHEDULE_REMOVED, plan_skip, plan_some, write
from wakeboard.rules.humanize import counted

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence
    from datetime import datetime

    from wakeboard.store.maintenance_api import KnownDefinition, Store

HELD_ABOVE: Final = 10  # schedules, and at the same time
HELD_ABOVE_SHARE: Final = 0.2  # of those that the source has

TRIES: Final = 5
IDS_AT_ONCE: Final = 500


def missing_from(
    declared: Collection[tuple[str, str]], known: Sequence[KnownDefinition], listed_at: datetime
) -> list[KnownDefinition]:
    """What is on the board and not declared, without what another sync has brought since the list began to be made."""
    return [
        each
        for each in known
        if not each.removed and (each.namespace, each.name) not in declared and each.last_synced_at < listed_at
    ]


def needs_confirmation(missing: int, live: int) -> bool:
    """Whether a removal of `missing` out of `live` schedules is so large that a person must confirm it."""
    return missing > HELD_ABOVE and missing > live * HELD_ABOVE_SHARE


async def remove(
    store: Store,
    source: str,
    missing: Sequence[KnownDefinition],
    live: int,
    listed_at: datetime,
    *,
    reported: Sequence[KnownDefinition] = (),
) -> tuple[list[str], str | None]:
    """Removes `missing`: due ticks are skipped, queued and failed runs cancelled; running ones finish, dead ones stay.

    Returns the names that were removed, and a sentence with the command to type if the removal of `missing` is held
    instead. A removal is held as a whole. `reported` are removed in any number: their deletion is certain.
    """
    held: str | None = None
    if not needs_confirmation(len(missing), live):
        await store.request_removal(source, "", 0)
    elif not await store.request_removal(source, _hash_of(missing), len(missing)):
        held = (
            f"{len(missing)} of {counted(live, 'schedule')} of {source} are declared no longer, and none of them was"
            f" removed: that many at once may be a mistake. To remove them, type: wakeboard confirm removal {source}"
        )
        missing = ()
    return await _remove(store, source, {each.id: each for each in [*reported, *missing]}, listed_at), held


async def stop(store: Store, source: str, deleted: Sequence[KnownDefinition]) -> None:
    """Suspends schedules whose removal is held and whose objects no longer exist.

    Due ticks are recorded as skipped. A new object resumes its schedule, as any edit does.
    """
    ids = [each.id for each in deleted]
    for start in range(0, len(ids), IDS_AT_ONCE):
        some = ids[start : start + IDS_AT_ONCE]
        await _skip_due_ticks(store, some)
        await store.suspend_definitions(source, some)


async def _remove(store: Store, source: str, waiting: dict[int, KnownDefinition], listed_at: datetime) -> list[str]:
    removed: list[str] = []
    for _ in range(TRIES):
        due: list[int] = []
        for start in range(0, len(waiting), IDS_AT_ONCE):
            ids = list(waiting)[start : start + IDS_AT_ONCE]
            for definition_id, answer in await store.remove_definitions(source, ids, listed_at):
                if answer == "due":
                    due.append(definition_id)
                else:
                    removed.append(f"{waiting[definition_id].namespace}/{waiting[definition_id].name}")
        if not due:
            break
        await _skip_due_ticks(store, due)
        waiting = {definition_id: waiting[definition_id] for definition_id in due}
    return sorted(removed)


async def _skip_due_ticks(store: Store, ids: Sequence[int]) -> None:
    waiting = deque(await store.filter_due_definitions(ids))
    while plans := plan_some(waiting, partial(plan_skip, reason=SCHEDULE_REMOVED)):
        await write(store, plans)


def _hash_of(missing: Sequence[KnownDefinition]) -> str:
    names = sorted(f"{each.namespace}/{each.name}" for each in missing)
    return hashlib.sha256("\n".join(names).encode()).hexdigest()
