"""SQL functions of schedules and their ticks, typed: for the scheduler, and for the sync of declared schedules."""

from __future__ import annotations

import json
from dataclasses import dataclass
from datetime import UTC
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from psycopg.types.numeric import Int8BinaryLoader

from wakeboard.engine.answers import Answer
from wakeboard.store.array_texts import moment_array, number_array
from wakeboard.store.pg_timestamp import from_pg_timestamp
from wakeboard.store.statements import call

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from datetime import datetime

    from wakeboard.engine.maintenance_api import MaintenanceStore


class DueDefinition(NamedTuple):
    """A schedule whose next tick is due. `now`: the database's clock. Times are in UTC.

    `cron_fields` None: `schedule` must be compiled (`compiled_times`), and its ticks are those after `next_run_at`.
    `name`: namespace/name.
    """

    id: int
    generation: int
    next_run_at: datetime
    last_tick_at: datetime
    cron_fields: str | None
    time_zone: str
    dst_gap: str
    dst_overlap: str
    catch_up: str
    catch_up_limit: int
    starting_deadline_s: int | None
    paused: bool
    schedule: str | None
    starts_at: datetime | None
    ends_at: datetime | None
    name: str
    now: datetime


class Skipped(NamedTuple):
    """A range of skipped ticks: the first and the last one, their number, and the reason."""

    since: datetime
    until: datetime
    ticks: int
    reason: str


@dataclass(frozen=True, slots=True)
class TickPlan:
    """The runs and skips planned for one schedule's due ticks.

    `cursor` and `generation`: as they were read. `next_cursor`: the first tick after the planned ones; None: there is
    none. `up_to`: the newest planned tick; None: no tick is planned. `error`: why ticks cannot be computed. `compiled`:
    the expression, if it was not compiled before.
    """

    id: int
    generation: int
    cursor: datetime
    next_cursor: datetime | None
    up_to: datetime | None
    ticks: Sequence[datetime] = ()
    skipped: Sequence[Skipped] = ()
    error: str | None = None
    compiled: str | None = None


class EnqueuedTicks(NamedTuple):
    """Numbers of schedules advanced, runs created, ticks skipped and runs replaced by newer ones."""

    definitions: int
    runs: int
    skipped: int
    replaced: int


class KnownDefinition(NamedTuple):
    """A stored schedule of a source. Times are in UTC."""

    id: int
    namespace: str
    name: str
    uid: str
    generation: int
    spec_hash: str
    tzdata_version: str
    last_tick_at: datetime
    last_synced_at: datetime
    removed: bool
    stalled: bool
    created_at: datetime
    origin: str
    labels: dict[str, str]


class Synced(NamedTuple):
    """The answer of `sync_definitions` for a row: created, updated, unchanged, stale, due, or why its name is taken."""

    id: int | None  # None: its name is taken
    namespace: str
    name: str
    answer: str


async def due_definitions(
    store: MaintenanceStore, count: int = 10_000, after: tuple[datetime, int] | None = None
) -> list[DueDefinition]:
    """Schedules whose next tick is due, most overdue first. `after`: (next_run_at, id) of the last one read."""
    query = "select * from wakeboard.due_definitions(%s, %s, %s)"
    return await _due_rows(store, query, count, *(after or ("-infinity", 0)))


async def filter_due_definitions(store: MaintenanceStore, ids: Sequence[int]) -> list[DueDefinition]:
    """Those of these schedules whose next tick is due, paused ones too."""
    query = "select * from wakeboard.filter_due_definitions(%s::bigint[])"
    return await _due_rows(store, query, list(ids))


async def _due_rows(store: MaintenanceStore, query: str, *values: Any) -> list[DueDefinition]:
    cursor = store.conn.cursor(binary=True)
    cursor.adapters.register_loader("timestamptz", Int8BinaryLoader)
    return [_due(*row) for row in await call(store.conn, query, *values, cursor=cursor)]


async def enqueue_due_ticks(store: MaintenanceStore, plans: Sequence[TickPlan]) -> EnqueuedTicks:
    """Creates runs from the plans and advances the cursors. Outdated plans have no effect."""
    ticks = [(plan.id, tick) for plan in plans for tick in plan.ticks]
    skips = [(plan.id, *skip) for plan in plans for skip in plan.skipped]
    rows = await store.rows(
        "select * from wakeboard.enqueue_due_ticks("
        "%s::bigint[], %s::bigint[], %s::pg_catalog.timestamptz[], %s::pg_catalog.timestamptz[],"
        " %s::pg_catalog.timestamptz[], %s::pg_catalog.text[], %s::bigint[], %s::pg_catalog.timestamptz[],"
        " %s::bigint[], %s::pg_catalog.timestamptz[], %s::pg_catalog.timestamptz[], %s::bigint[],"
        " %s::pg_catalog.text[], %s::pg_catalog.text[])",
        number_array([plan.id for plan in plans]),
        number_array([plan.generation for plan in plans]),
        moment_array(plan.cursor for plan in plans),
        moment_array(plan.next_cursor for plan in plans),
        moment_array(plan.up_to for plan in plans),
        [plan.error for plan in plans],
        number_array([definition_id for definition_id, _ in ticks]),
        moment_array(tick for _, tick in ticks),
        *_columns(skips, 5),
        [plan.compiled for plan in plans] if any(plan.compiled is not None for plan in plans) else [],
    )
    return EnqueuedTicks(*rows[0])


async def list_definitions(store: MaintenanceStore, source: str) -> list[KnownDefinition]:
    """All stored schedules of a source, removed ones too."""
    return [_known(*row) for row in await store.rows("select * from wakeboard.list_definitions(%s)", source)]


async def sync_definitions(store: MaintenanceStore, source: str, rows: Sequence[Mapping[str, Any]]) -> list[Synced]:
    """Stores declared schedules; the keys of `rows` are columns of job_definitions."""
    query = "select id, namespace, name, answer from wakeboard.sync_definitions(%s, %s::pg_catalog.jsonb)"
    return [Synced(*row) for row in await store.rows(query, source, json.dumps(rows, default=str))]


async def remove_definitions(
    store: MaintenanceStore, source: str, ids: Sequence[int], synced_before: datetime
) -> list[Answer]:
    """Removes schedules that no sync has written since then: 'removed', or 'due' (skip their ticks first)."""
    query = "select id, answer from wakeboard.remove_definitions(%s, %s::bigint[], %s)"
    return [Answer(*row) for row in await store.rows(query, source, list(ids), synced_before)]


async def request_removal(store: MaintenanceStore, source: str, names_hash: str, count: int) -> bool:
    """True if an administrator has confirmed this removal; otherwise it stays pending."""
    return await store.value("select wakeboard.request_removal(%s, %s, %s)", source, names_hash, count)


async def suspend_definitions(store: MaintenanceStore, source: str, ids: Sequence[int]) -> int:
    """Suspends schedules whose objects are deleted and whose removal is pending. Returns how many."""
    return await store.value("select wakeboard.suspend_definitions(%s, %s::bigint[])", source, list(ids))


async def pop_changed_definitions(store: MaintenanceStore) -> list[int]:
    """Removes and returns the ids of schedules whose status must be computed again."""
    return [row[0] for row in await store.rows("select wakeboard.pop_changed_definitions()")]


async def update_circuits(store: MaintenanceStore) -> int:
    """Opens and closes the circuits of schedules with suspendAfterDead. Returns how many are open."""
    return await store.value("select wakeboard.update_circuits()")


async def update_expectations(store: MaintenanceStore) -> bool:
    """Looks whether ticks succeed within the time that their schedules expect. Returns whether more wait."""
    return await store.value("select wakeboard.update_expectations()")


def _due(definition_id: int, generation: int, next_run_at: int, last_tick_at: int, *rule_and_now: Any) -> DueDefinition:
    *rule, starts_at, ends_at, name, now = rule_and_now
    moments = _moment(next_run_at), _moment(last_tick_at)
    bounds = _bound(starts_at), _bound(ends_at)
    return DueDefinition._make((definition_id, generation, *moments, *rule, *bounds, name, _moment(now)))


def _bound(pg_timestamp: int | None) -> datetime | None:
    """A time that a user chose; one that Python cannot represent becomes one that `compile_ticks` refuses."""
    return None if pg_timestamp is None else _moment(min(max(pg_timestamp, -(2**55)), 2**57))


_moment: Final = lru_cache(maxsize=8192)(from_pg_timestamp)  # ticks that are due together share their times


def _known(*row: Any) -> KnownDefinition:
    """With all times in UTC: Python compares times of one zone by their local values."""
    known = KnownDefinition(*row)
    return known._replace(
        last_tick_at=known.last_tick_at.astimezone(UTC),
        last_synced_at=known.last_synced_at.astimezone(UTC),
        created_at=known.created_at.astimezone(UTC),
    )


def _columns(rows: Sequence[tuple[Any, ...]], width: int) -> list[list[Any]]:
    """Rows as one list per column, `width` of them also when there are no rows."""
    return [list(column) for column in zip(*rows, strict=True)] if rows else [[] for _ in range(width)]
