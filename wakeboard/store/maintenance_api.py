"""The moves on the board for duties and people, typed: one method for each SQL function, and nothing else.

Every move is one statement on an autocommit connection, so a reply that was lost may be asked for again: the moves
answer a repeat as they answered the first time. docs/sql-functions.md says what each promises. The
worker's own moves are in worker_api.py.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from datetime import UTC
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from psycopg.types.numeric import Int8BinaryLoader

from wakeboard.rules.pg_timestamp import from_pg_timestamp
from wakeboard.store.statements import call
from wakeboard.store.worker_api import number_array

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from datetime import datetime, timedelta

    import psycopg


class Answer(NamedTuple):
    """What the board said about one run: a word, or 'refused: <why>'."""

    id: int
    answer: str

    @property
    def refused(self) -> bool:
        """Nothing was done; `answer` says why."""
        return self.answer.startswith("refused")


class Reaped(NamedTuple):
    """What one slice of a walk took back; `next_id` None: the walk is over, or none was due."""

    next_id: int | None
    crashed: int
    timed_out: int
    dead: int
    cancelled: int


class DueDefinition(NamedTuple):
    """A definition whose next tick is due; `now` is the database's clock. `paused`: a pause holds its ticks back.

    Moments are in UTC, so that Python compares and subtracts them as what they are.
    """

    id: int
    generation: int
    next_run_at: datetime
    last_tick_at: datetime
    cron_fields: str
    time_zone: str
    dst_gap: str
    dst_overlap: str
    catch_up: str
    catch_up_limit: int
    starting_deadline_s: int | None
    paused: bool
    now: datetime


class Skipped(NamedTuple):
    """A stretch of ticks that are not run: its first and last tick, how many they are, and why."""

    since: datetime
    until: datetime
    ticks: int
    reason: str


@dataclass(frozen=True, slots=True)
class TickPlan:
    """What becomes of one definition's due ticks.

    `cursor` and `generation` are as they were read; `next_cursor` is the first tick after those dealt with (None: no
    further one), `up_to` the newest tick dealt with; `error` says why ticks cannot be computed.
    """

    id: int
    generation: int
    cursor: datetime
    next_cursor: datetime | None
    up_to: datetime
    ticks: Sequence[datetime] = ()
    skipped: Sequence[Skipped] = ()
    error: str | None = None


class EnqueuedTicks(NamedTuple):
    """What `enqueue_due_ticks` made: definitions moved on, runs, ticks skipped, runs that gave way to newer ones."""

    definitions: int
    runs: int
    skipped: int
    replaced: int


class KnownDefinition(NamedTuple):
    """What the board knows of one schedule of a source. Moments are in UTC."""

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
    now: datetime


class Synced(NamedTuple):
    """What `sync_definitions` did with one row: created, updated, unchanged, stale or due (ticks come first)."""

    id: int
    namespace: str
    name: str
    answer: str


class Store:
    """The moves, made over one async connection. Errors come as WakeboardError (see errors.py)."""

    def __init__(self, conn: psycopg.AsyncConnection[Any]) -> None:
        self.conn = conn

    async def _rows(self, query: str, *values: Any) -> list[tuple[Any, ...]]:
        return await call(self.conn, query, *values)

    async def _value(self, query: str, *values: Any) -> Any:
        return (await self._rows(query, *values))[0][0]

    # -- for duties ----------------------------------------------------------------------------------------------------

    async def reap(self, after_id: int = 0, *, always: bool = False) -> Reaped:
        """One slice of a walk over lapsed leases; go on from `next_id` until it is None."""
        query = "select next_id, crashed, timed_out, dead, cancelled from wakeboard.reap(%s, always => %s)"
        return Reaped(*(await self._rows(query, after_id, always))[0])

    async def due_definitions(
        self, count: int = 10_000, after: tuple[datetime, int] | None = None
    ) -> list[DueDefinition]:
        """Definitions whose next tick is due, most overdue first; `after`: (next_run_at, id) of the last one seen."""
        query = "select * from wakeboard.due_definitions(%s, %s, %s)"
        return await self._due_rows(query, count, *(after or ("-infinity", 0)))

    async def filter_due_definitions(self, ids: Sequence[int]) -> list[DueDefinition]:
        """Those of these definitions whose next tick is due, also those that are paused."""
        query = "select * from wakeboard.filter_due_definitions(%s::bigint[])"
        return await self._due_rows(query, list(ids))

    async def _due_rows(self, query: str, *values: Any) -> list[DueDefinition]:
        cursor = self.conn.cursor(binary=True)
        cursor.adapters.register_loader("timestamptz", Int8BinaryLoader)
        return [_due(*row) for row in await call(self.conn, query, *values, cursor=cursor)]

    async def enqueue_due_ticks(self, plans: Sequence[TickPlan]) -> EnqueuedTicks:
        """Makes planned ticks into runs and moves the cursors; plans that another has overtaken do nothing."""
        ticks = [(plan.id, tick) for plan in plans for tick in plan.ticks]
        skips = [(plan.id, *skip) for plan in plans for skip in plan.skipped]
        rows = await self._rows(
            "select * from wakeboard.enqueue_due_ticks("
            "%s::bigint[], %s::bigint[], %s::pg_catalog.timestamptz[], %s::pg_catalog.timestamptz[],"
            " %s::pg_catalog.timestamptz[], %s::pg_catalog.text[], %s::bigint[], %s::pg_catalog.timestamptz[],"
            " %s::bigint[], %s::pg_catalog.timestamptz[], %s::pg_catalog.timestamptz[], %s::bigint[],"
            " %s::pg_catalog.text[])",
            number_array([plan.id for plan in plans]),
            number_array([plan.generation for plan in plans]),
            _moment_array(plan.cursor for plan in plans),
            _moment_array(plan.next_cursor for plan in plans),
            _moment_array(plan.up_to for plan in plans),
            [plan.error for plan in plans],
            number_array([definition_id for definition_id, _ in ticks]),
            _moment_array(tick for _, tick in ticks),
            *_columns(skips, 5),
        )
        return EnqueuedTicks(*rows[0])

    async def now(self) -> datetime:
        """The database's clock, which decides, in UTC."""
        return (await self._value("select now from wakeboard.schema_state()")).astimezone(UTC)

    async def list_definitions(self, source: str) -> list[KnownDefinition]:
        """What is known of a source, removed ones too."""
        return [_known(*row) for row in await self._rows("select * from wakeboard.list_definitions(%s)", source)]

    async def sync_definitions(self, source: str, rows: Sequence[Mapping[str, Any]]) -> list[Synced]:
        """Brings definitions up to `rows` (keys: the columns of job_definitions); see the move for the answers."""
        query = "select id, namespace, name, answer from wakeboard.sync_definitions(%s, %s::pg_catalog.jsonb)"
        return [Synced(*row) for row in await self._rows(query, source, json.dumps(rows, default=str))]

    async def remove_definitions(self, source: str, ids: Sequence[int], synced_before: datetime) -> list[Answer]:
        """Removes definitions that no sync has met since then: 'removed', or 'due' (skip their ticks first)."""
        query = "select id, answer from wakeboard.remove_definitions(%s, %s::bigint[], %s)"
        return [Answer(*row) for row in await self._rows(query, source, list(ids), synced_before)]

    async def request_removal(self, source: str, names_hash: str, count: int) -> bool:
        """True when a person has confirmed this very removal; otherwise it is held until one does."""
        return await self._value("select wakeboard.request_removal(%s, %s, %s)", source, names_hash, count)

    async def suspend_definitions(self, source: str, ids: Sequence[int]) -> int:
        """Suspends definitions whose removal is held and whose objects are deleted; returns how many."""
        return await self._value("select wakeboard.suspend_definitions(%s, %s::bigint[])", source, list(ids))

    async def pop_changed_definitions(self, count: int = 10_000) -> list[int]:
        """Takes ids of definitions whose status must be computed anew."""
        return [row[0] for row in await self._rows("select wakeboard.pop_changed_definitions(%s)", count)]

    async def skip_past_deadline(self) -> int:
        """Skips runs that did not start before their deadline; how many."""
        return await self._value("select wakeboard.skip_past_deadline()")

    async def create_partitions(self) -> int:
        """Makes the history's partitions for the coming weeks; how many."""
        return await self._value("select wakeboard.create_partitions()")

    async def drop_partitions(self, retention: timedelta) -> int:
        """Drops the history's partitions older than `retention`; how many."""
        return await self._value("select wakeboard.drop_partitions(%s)", retention)

    async def set_retention(self, history: timedelta, keys: timedelta, dead: timedelta | None) -> None:
        """Sets the minimum retention; a worker's settings can only lengthen it."""
        await self._rows("select wakeboard.set_retention(%s, %s, %s)", history, keys, dead)

    async def delete_expired(
        self, key_retention: timedelta, dead_retention: timedelta | None, history_retention: timedelta
    ) -> int | None:
        """Deletes a bounded batch of what nothing needs any more; how many rows. Ask again while it is not 0.

        None: less than an hour ago somebody found nothing left.
        """
        query = "select wakeboard.delete_expired(%s, %s, %s)"
        return await self._value(query, key_retention, dead_retention, history_retention)


def _due(definition_id: int, generation: int, next_run_at: int, last_tick_at: int, *rule_and_now: Any) -> DueDefinition:
    *rule, now = rule_and_now
    return DueDefinition(
        definition_id, generation, _moment(next_run_at), _moment(last_tick_at), *rule, now=_moment(now)
    )


_moment: Final = lru_cache(maxsize=8192)(from_pg_timestamp)  # ticks that are due together share their times


def _known(*row: Any) -> KnownDefinition:
    """Moments come in the session's zone, where Python compares and subtracts as the wall clock does."""
    known = KnownDefinition(*row)
    return known._replace(
        last_tick_at=known.last_tick_at.astimezone(UTC),
        last_synced_at=known.last_synced_at.astimezone(UTC),
        now=known.now.astimezone(UTC),
    )


def _moment_array(moments: Iterable[datetime | None]) -> str:
    """An array as Postgres reads it, in a tenth of the time that psycopg takes for a list."""
    return f"{{{','.join([_text(moment) for moment in moments])}}}"


@lru_cache(maxsize=8192)
def _text(moment: datetime | None) -> str:
    return "null" if moment is None else str(moment)


def _columns(rows: Sequence[tuple[Any, ...]], width: int) -> list[list[Any]]:
    """Rows as one list per column, `width` of them also when there are no rows."""
    return [list(column) for column in zip(*rows, strict=True)] if rows else [[] for _ in range(width)]
