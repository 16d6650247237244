"""Syncing: the board's definitions brought up to what was declared, by files or in a cluster.

Declared schedules are compared with what the board knows of their source, and only what differs is sent. An edit must
not lose ticks, nor make past ones fire by surprise. So the board answers 'due' for a definition that still has ticks of
its old spec to be made: these become runs first, as the old spec says (or are recorded as skipped, if the edit suspends
the schedule or a pause holds it back), and then the edit is asked for again. Its first tick is the first one after now,
and after the last tick that was made.

Two syncs of one source at once do no harm: the board locks rows in order, what another sync met first is asked again,
and doing it twice is doing it once.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from wakeboard.maintenance.desired_schedule import definition_row
from wakeboard.maintenance.prune import missing_from, remove
from wakeboard.maintenance.scheduler import (
    MISFIRE_GRACE,
    PAUSED,
    SUSPENDED,
    plan_skip,
    plan_some,
    plan_ticks,
    said,
    write,
)

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable
    from datetime import datetime, timedelta

    from wakeboard.maintenance.desired_schedule import DesiredSchedule
    from wakeboard.store.maintenance_api import DueDefinition, KnownDefinition, Store, TickPlan

Key: TypeAlias = "tuple[str, str]"  # namespace, name

TRIES: Final = 5  # a definition becomes due anew, or is met by another sync, once in a while: not five times in a row
ROWS_AT_ONCE: Final = 500  # in one statement: at most 32 MB of payloads


@dataclass(slots=True)
class SyncReport:
    """What a sync did, as names `namespace/name` in order.

    `stale`: the board knows a newer generation of the same object. `failed`: ticks cannot be computed, and why; the
    last good spec stays in force. `unsettled`: others kept changing it; the next sync will do. `missing`: on the board,
    no longer declared, and not removed, because nobody asked for it or because the removal is held (`held`: the
    sentence that says so and what to type). `absent`: the rows that were not declared, out of `live` ones.
    """

    source: str
    created: list[str] = field(default_factory=list[str])
    updated: list[str] = field(default_factory=list[str])
    unchanged: list[str] = field(default_factory=list[str])
    stale: list[str] = field(default_factory=list[str])
    unsettled: list[str] = field(default_factory=list[str])
    removed: list[str] = field(default_factory=list[str])
    missing: list[str] = field(default_factory=list[str])
    failed: dict[str, str] = field(default_factory=dict[str, str])
    absent: list[KnownDefinition] = field(default_factory=list["KnownDefinition"])
    live: int = 0
    held: str | None = None

    @property
    def changed(self) -> bool:
        """Whether the board is another one than before."""
        return bool(self.created or self.updated or self.removed)


async def sync(
    store: Store,
    source: str,
    declared: Iterable[DesiredSchedule],
    *,
    prune: bool,
    spared: Collection[Key] = (),
    listed_at: datetime | None = None,
    misfire_grace: timedelta = MISFIRE_GRACE,
) -> SyncReport:
    """Brings the definitions of `source` up to `declared`; with `prune` removes those that are declared no longer.

    Of two declarations with one name the last counts. `spared` are declared but cannot be read: their last good spec
    stays in force. `listed_at` is when the list began to be made, by the database's clock (None: now): what another
    sync brought since then is not removed. Raises WakeboardError when the board cannot be written; asking again then
    is safe.
    """
    wanted = {each.key: each for each in declared}
    listed_at = listed_at or await store.now()
    before = await store.list_definitions(source)
    report = SyncReport(source)
    await _bring_up(store, wanted, before, report, misfire_grace)
    missing = missing_from({*wanted, *spared}, before, listed_at)
    report.absent, report.live = missing, sum(not known.removed for known in before)
    if prune:
        report.removed, report.held = await remove(store, source, missing, report.live, listed_at)
    removed = set(report.removed)
    report.missing = [name for known in missing if (name := f"{known.namespace}/{known.name}") not in removed]
    for names in (report.created, report.updated, report.unchanged, report.stale):
        names.sort()
    return report


async def _bring_up(
    store: Store,
    wanted: dict[Key, DesiredSchedule],
    before: list[KnownDefinition],
    report: SyncReport,
    misfire_grace: timedelta,
) -> None:
    waiting = wanted
    known = before
    for _ in range(TRIES):
        rows = _differing_rows(waiting, known, await store.now(), report)
        answers, due = await _send(store, waiting, rows, report)
        if due:
            await _make_due_ticks(store, due, misfire_grace)
        waiting = {key: waiting[key] for key in rows if key not in answers}
        if not waiting:
            break
        known = await store.list_definitions(report.source)
    report.unsettled = sorted(each.full_name for each in waiting.values())


def _differing_rows(
    wanted: dict[Key, DesiredSchedule], known: list[KnownDefinition], now: datetime, report: SyncReport
) -> dict[Key, dict[str, Any]]:
    """The rows of those that the board does not know as they are; the others are put into the report."""
    on_store = {(each.namespace, each.name): each for each in known}
    rows: dict[Key, dict[str, Any]] = {}
    for key, each in wanted.items():
        if each.is_on_store(on_store.get(key)):
            report.unchanged.append(each.full_name)
            continue
        try:
            rows[key] = definition_row(each, on_store.get(key), now)
        except Exception as error:  # noqa: BLE001 - whatever it is, it must not stop the schedules beside it
            report.failed[each.full_name] = said(error)
    return rows


async def _send(
    store: Store, wanted: dict[Key, DesiredSchedule], rows: dict[Key, dict[str, Any]], report: SyncReport
) -> tuple[set[Key], dict[int, DesiredSchedule]]:
    """Sends the rows; answers with those that are settled (in the report, too), and by id those with due ticks."""
    settled: set[Key] = set()
    due: dict[int, DesiredSchedule] = {}
    sent = list(rows.values())
    for start in range(0, len(sent), ROWS_AT_ONCE):
        for synced in await store.sync_definitions(report.source, sent[start : start + ROWS_AT_ONCE]):
            key = synced.namespace, synced.name
            if synced.answer == "due":
                due[synced.id] = wanted[key]
            else:
                settled.add(key)
                _list_of(report, synced.answer).append(wanted[key].full_name)
    return settled, due


def _list_of(report: SyncReport, answer: str) -> list[str]:
    return {
        "created": report.created,
        "updated": report.updated,
        "unchanged": report.unchanged,
        "stale": report.stale,
    }[answer]


async def _make_due_ticks(store: Store, edits: dict[int, DesiredSchedule], misfire_grace: timedelta) -> None:
    def plan(due: DueDefinition) -> TickPlan:
        if edits[due.id].spec.suspend:
            return plan_skip(due, SUSPENDED)
        return plan_skip(due, PAUSED) if due.paused else plan_ticks(due, misfire_grace)

    waiting = deque(await store.filter_due_definitions(list(edits)))
    while plans := plan_some(waiting, plan):
        await write(store, plans)
