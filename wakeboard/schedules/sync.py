"""Sync: makes the stored schedules of a source equal to the desired ones, from files or from a cluster.

It compares the desired schedules with the stored ones and sends only the differences. An edit must neither lose ticks
nor run past ticks by the new spec. So the store answers `due` for a schedule that still has due ticks of its old spec.
Those ticks are enqueued first, by the old spec (or recorded as skipped, if the edit suspends the schedule), and then
the edit is sent again. The first tick of the new spec is after now and after the last enqueued tick. Ticks that a pause
holds stay due: the store keeps them for `catchUp` of the new spec, after the resume.

Several syncs of one source may run at once: the store locks rows in order, a row that another sync has changed is sent
again, and a repeated sync changes nothing.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from wakeboard.schedules import calls
from wakeboard.schedules.desired_schedule import definition_row
from wakeboard.schedules.prune import missing_definitions, remove
from wakeboard.schedules.scheduler import (
    SUSPENDED,
    enqueue_ticks,
    error_text,
    plan_batch,
    plan_skip,
    plan_ticks,
)

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable
    from datetime import datetime, timedelta

    from wakeboard.engine.maintenance_api import MaintenanceStore
    from wakeboard.schedules.calls import DueDefinition, KnownDefinition, TickPlan
    from wakeboard.schedules.desired_schedule import DesiredSchedule

Key: TypeAlias = "tuple[str, str]"  # namespace, name

TRIES: Final = 5  # a row may become due again or meet another sync, but hardly five times in a row
ROWS_PER_BATCH: Final = 500  # at most 32 MB of payloads


@dataclass(slots=True)
class SyncReport:
    """What a sync did, as names `namespace/name` in order.

    - `stale`: the store has a newer generation of the same object.
    - `failed`: the ticks cannot be computed: then the last valid spec stays in force; or an application has the name:
      then the application's schedule runs, and this one does not. `taken`: the latter.
    - `contended`: other syncs kept changing it. The next sync continues.
    - `missing`: stored, no longer desired, and not removed, because the caller did not ask for it or because the
      removal is pending. `pending_removal` is the message for users then, with the command that confirms it.
    - `missing_definitions`: the stored schedules that are not desired, removed or not, out of `live` ones.
    - `restored`: how many of the updated ones had been removed.
    """

    source: str
    created: list[str] = field(default_factory=list[str])
    updated: list[str] = field(default_factory=list[str])
    unchanged: list[str] = field(default_factory=list[str])
    stale: list[str] = field(default_factory=list[str])
    contended: list[str] = field(default_factory=list[str])
    removed: list[str] = field(default_factory=list[str])
    missing: list[str] = field(default_factory=list[str])
    failed: dict[str, str] = field(default_factory=dict[str, str])
    taken: list[str] = field(default_factory=list[str])
    missing_definitions: list[KnownDefinition] = field(default_factory=list["KnownDefinition"])
    live: int = 0
    restored: int = 0
    pending_removal: str | None = None

    @property
    def changed(self) -> bool:
        """Whether the sync changed the store."""
        return bool(self.created or self.updated or self.removed)

    def add(self, answer: str, name: str) -> None:
        """Records the store's answer for one schedule: created, updated, unchanged or stale."""
        {
            "created": self.created,
            "updated": self.updated,
            "unchanged": self.unchanged,
            "stale": self.stale,
        }[answer].append(name)

    def finish(self) -> None:
        """Puts the names in order."""
        for names in (self.created, self.updated, self.unchanged, self.stale):
            names.sort()


async def sync(
    store: MaintenanceStore,
    source: str,
    desired: Iterable[DesiredSchedule],
    *,
    prune: bool,
    misfire_grace: timedelta,
    spared: Collection[Key] = (),
    listed_at: datetime | None = None,
) -> SyncReport:
    """Makes the stored schedules of `source` equal to `desired`. With `prune`, removes those that are not desired.

    The last of several schedules with one name counts. `spared` are declared but invalid: their last valid spec stays
    in force. `listed_at` is when the caller began to list, by the database's clock (None: now). Schedules that another
    sync has written since then are not removed. Raises WakeboardError when the store cannot be written. A repeat is
    safe.
    """
    by_key = {each.key: each for each in desired}
    listed_at = listed_at or await store.now()
    before = await calls.list_definitions(store, source)
    report = SyncReport(source)
    await _update(store, by_key, before, report, misfire_grace)
    missing = missing_definitions({*by_key, *spared}, before, listed_at)
    report.missing_definitions, report.live = missing, sum(not known.removed for known in before)
    updated = set(report.updated)
    report.restored = sum(known.removed and f"{known.namespace}/{known.name}" in updated for known in before)
    if prune:
        report.removed, report.pending_removal = await remove(store, source, missing, report.live, listed_at)
    removed = set(report.removed)
    report.missing = [name for known in missing if (name := f"{known.namespace}/{known.name}") not in removed]
    report.finish()
    return report


async def _update(
    store: MaintenanceStore,
    desired: dict[Key, DesiredSchedule],
    before: list[KnownDefinition],
    report: SyncReport,
    misfire_grace: timedelta,
) -> None:
    waiting = desired
    known = before
    for _ in range(TRIES):
        rows = _differing_rows(waiting, known, await store.now(), report)
        answered, due = await _send(store, waiting, rows, report)
        if due:
            await _enqueue_due_ticks(store, due, misfire_grace)
        waiting = {key: waiting[key] for key in rows if key not in answered}
        if not waiting:
            break
        known = await calls.list_definitions(store, report.source)
    report.contended = sorted(each.full_name for each in waiting.values())


def _differing_rows(
    desired: dict[Key, DesiredSchedule], known: list[KnownDefinition], now: datetime, report: SyncReport
) -> dict[Key, dict[str, Any]]:
    """Returns the rows that differ from the stored ones. Records the other schedules in the report."""
    stored = {(each.namespace, each.name): each for each in known}
    rows: dict[Key, dict[str, Any]] = {}
    for key, each in desired.items():
        if each.is_synced(stored.get(key)):
            report.add("unchanged", each.full_name)
            continue
        try:
            rows[key] = definition_row(each, stored.get(key), now)
        except Exception as error:  # noqa: BLE001 - it must not stop the other schedules
            report.failed[each.full_name] = error_text(error)
    return rows


async def _send(
    store: MaintenanceStore, desired: dict[Key, DesiredSchedule], rows: dict[Key, dict[str, Any]], report: SyncReport
) -> tuple[set[Key], dict[int, DesiredSchedule]]:
    """Sends the rows. Returns the keys that are done (also in the report), and by id the schedules with due ticks."""
    done: set[Key] = set()
    due: dict[int, DesiredSchedule] = {}
    values = list(rows.values())
    for start in range(0, len(values), ROWS_PER_BATCH):
        for synced in await calls.sync_definitions(store, report.source, values[start : start + ROWS_PER_BATCH]):
            key = synced.namespace, synced.name
            if synced.id is not None and synced.answer == "due":
                due[synced.id] = desired[key]
                continue
            done.add(key)
            name = desired[key].full_name
            if synced.id is None:
                report.failed[name] = synced.answer
                report.taken.append(name)
            else:
                report.add(synced.answer, name)
    return done, due


async def _enqueue_due_ticks(
    store: MaintenanceStore, edits: dict[int, DesiredSchedule], misfire_grace: timedelta
) -> None:
    def plan(due: DueDefinition) -> TickPlan:
        if edits[due.id].spec.suspend:
            return plan_skip(due, SUSPENDED)
        return plan_ticks(due, misfire_grace)

    waiting = deque(await calls.filter_due_definitions(store, list(edits)))
    while plans := plan_batch(waiting, plan):
        await enqueue_ticks(store, plans)
