"""SQL functions for maintenance and for the sync of schedules, typed: one method for each function.

Each call is one statement on an autocommit connection and may be repeated if its reply was lost.
docs/sql-functions.md describes each function. Functions for administrators are in admin_api.py, for workers in
worker_api.py, and for leader election in leader_api.py.
"""

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
    from datetime import datetime, timedelta

    import psycopg


class Reaped(NamedTuple):
    """What one slice of a scan revoked. `next_id` None: the scan has ended, or none was due."""

    next_id: int | None
    crashed: int
    timed_out: int
    dead: int
    cancelled: int


class DueDefinition(NamedTuple):
    """A schedule whose next tick is due. `now`: the database's clock. Times are in UTC.

    `cron_fields` None: `schedule` must be compiled (`compile_ticks`), and its ticks are those after `next_run_at`.
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
    now: datetime
    origin: str
    labels: dict[str, str]


class Synced(NamedTuple):
    """The answer of `sync_definitions` for one row: created, updated, unchanged, stale or due."""

    id: int
    namespace: str
    name: str
    answer: str


class ClaimedRule(NamedTuple):
    """An alert rule to evaluate, and its open alert.

    `seen_at`: when the alert was last seen firing; `notified_at`: when the newest notification was enqueued.
    """

    name: str
    claimed_at: datetime
    alert_id: int | None
    seen_at: datetime | None
    notified_at: datetime | None


class Notification(NamedTuple):
    """What to tell about an alert (open, repeat or resolved), to which receivers, and the queue of the deliveries."""

    kind: str
    receivers: Sequence[str]
    queue: str


class MaintenanceStore:
    """Calls SQL functions over one async connection. Raises WakeboardError (see errors.py)."""

    def __init__(self, conn: psycopg.AsyncConnection[Any]) -> None:
        self.conn = conn

    async def _rows(self, query: str, *values: Any) -> list[tuple[Any, ...]]:
        return await call(self.conn, query, *values)

    async def _value(self, query: str, *values: Any) -> Any:
        return (await self._rows(query, *values))[0][0]

    async def reap(self, after_id: int = 0, *, always: bool = False) -> Reaped:
        """Revokes expired leases in one slice of runs. Call it again with `next_id` until that is None."""
        query = "select next_id, crashed, timed_out, dead, cancelled from wakeboard.reap(%s, always => %s)"
        return Reaped(*(await self._rows(query, after_id, always))[0])

    async def due_definitions(
        self, count: int = 10_000, after: tuple[datetime, int] | None = None
    ) -> list[DueDefinition]:
        """Schedules whose next tick is due, most overdue first. `after`: (next_run_at, id) of the last one read."""
        query = "select * from wakeboard.due_definitions(%s, %s, %s)"
        return await self._due_rows(query, count, *(after or ("-infinity", 0)))

    async def filter_due_definitions(self, ids: Sequence[int]) -> list[DueDefinition]:
        """Those of these schedules whose next tick is due, paused ones too."""
        query = "select * from wakeboard.filter_due_definitions(%s::bigint[])"
        return await self._due_rows(query, list(ids))

    async def _due_rows(self, query: str, *values: Any) -> list[DueDefinition]:
        cursor = self.conn.cursor(binary=True)
        cursor.adapters.register_loader("timestamptz", Int8BinaryLoader)
        return [_due(*row) for row in await call(self.conn, query, *values, cursor=cursor)]

    async def enqueue_due_ticks(self, plans: Sequence[TickPlan]) -> EnqueuedTicks:
        """Creates runs from the plans and advances the cursors. Outdated plans have no effect."""
        ticks = [(plan.id, tick) for plan in plans for tick in plan.ticks]
        skips = [(plan.id, *skip) for plan in plans for skip in plan.skipped]
        rows = await self._rows(
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
            [plan.compiled for plan in plans] if any(plan.compiled for plan in plans) else [],
        )
        return EnqueuedTicks(*rows[0])

    async def enqueue_dependents(self, count: int = 1000) -> EnqueuedDependents:
        """Creates and frees the runs that have waited for the ends of others."""
        rows = await self._rows("select * from wakeboard.enqueue_dependents(%s)", count)
        return EnqueuedDependents(*rows[0])

    async def joins_to_check(self, count: int) -> list[JoinToCheck]:
        """Ticks of schedules with `ticks: All` that must be checked, a row for each of these parents."""
        rows = await self._rows("select * from wakeboard.joins_to_check(%s)", count)
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

    async def enqueue_joined_ticks(self, joined: Sequence[JoinedTick]) -> int:
        """Creates the runs of those ticks for which all the ticks that they need have ended. Returns how many."""
        needs = [(place, *need) for place, tick in enumerate(joined, 1) for need in tick.needs]
        return await self._value(
            "select wakeboard.enqueue_joined_ticks(%s::bigint[], %s::pg_catalog.timestamptz[],"
            " %s::pg_catalog.timestamptz[], %s::integer[], %s::bigint[], %s::pg_catalog.timestamptz[])",
            [tick.definition_id for tick in joined],
            [tick.scheduled_for for tick in joined],
            [tick.since for tick in joined],
            *([need[column] for need in needs] for column in range(3)),
        )

    async def now(self) -> datetime:
        """The time of the database's clock, in UTC."""
        return (await self._value("select now from wakeboard.schema_state()")).astimezone(UTC)

    async def list_definitions(self, source: str) -> list[KnownDefinition]:
        """All stored schedules of a source, removed ones too."""
        return [_known(*row) for row in await self._rows("select * from wakeboard.list_definitions(%s)", source)]

    async def sync_definitions(self, source: str, rows: Sequence[Mapping[str, Any]]) -> list[Synced]:
        """Stores declared schedules; the keys of `rows` are columns of job_definitions."""
        query = "select id, namespace, name, answer from wakeboard.sync_definitions(%s, %s::pg_catalog.jsonb)"
        return [Synced(*row) for row in await self._rows(query, source, json.dumps(rows, default=str))]

    async def remove_definitions(self, source: str, ids: Sequence[int], synced_before: datetime) -> list[Answer]:
        """Removes schedules that no sync has written since then: 'removed', or 'due' (skip their ticks first)."""
        query = "select id, answer from wakeboard.remove_definitions(%s, %s::bigint[], %s)"
        return [Answer(*row) for row in await self._rows(query, source, list(ids), synced_before)]

    async def request_removal(self, source: str, names_hash: str, count: int) -> bool:
        """True if an administrator has confirmed this removal; otherwise it stays pending."""
        return await self._value("select wakeboard.request_removal(%s, %s, %s)", source, names_hash, count)

    async def suspend_definitions(self, source: str, ids: Sequence[int]) -> int:
        """Suspends schedules whose objects are deleted and whose removal is pending. Returns how many."""
        return await self._value("select wakeboard.suspend_definitions(%s, %s::bigint[])", source, list(ids))

    async def pop_changed_definitions(self) -> list[int]:
        """Removes and returns the ids of schedules whose status must be computed again."""
        return [row[0] for row in await self._rows("select wakeboard.pop_changed_definitions()")]

    async def skip_past_deadline(self) -> int:
        """Skips runs that had not started by their deadline. Returns how many."""
        return await self._value("select wakeboard.skip_past_deadline()")

    async def create_partitions(self) -> int:
        """Creates the history's partitions for the coming weeks. Returns how many."""
        return await self._value("select wakeboard.create_partitions()")

    async def drop_partitions(self, retention: timedelta) -> int:
        """Drops the history's partitions older than `retention`. Returns how many."""
        return await self._value("select wakeboard.drop_partitions(%s)", retention)

    async def roll_up(self, min_interval: timedelta) -> bool:
        """Continues `run_rollups`, unless another call began less than `min_interval` ago. True: work is left."""
        return await self._value("select wakeboard.roll_up(%s)", min_interval)

    async def end_pauses(self) -> int:
        """Ends the pauses whose time is over. Returns how many it ended."""
        return await self._value("select wakeboard.end_pauses()")

    async def update_circuits(self) -> int:
        """Opens and closes the circuits of schedules with suspendAfterDead. Returns how many are open."""
        return await self._value("select wakeboard.update_circuits()")

    async def update_expectations(self) -> bool:
        """Looks whether ticks succeed within the time that their schedules expect. Returns whether more wait."""
        return await self._value("select wakeboard.update_expectations()")

    async def declare_limits(
        self, source: str, limits: Sequence[Mapping[str, Any]], *, actor: str | None = None, program: str = "sql"
    ) -> dict[str, str]:
        """Makes `limits` (key, max_running, rate_count, rate_period_s, rate_burst) those that `source` declares.

        Returns the keys that changed: 'set', 'removed', or 'kept' because an administrator has set another limit; and
        those that are 'locked' by another transaction: call it again.
        """
        query = "select key, answer from wakeboard.declare_limits(%s, %s::pg_catalog.jsonb, %s, %s)"
        return dict(await self._rows(query, source, json.dumps(limits), actor, program))

    async def claim_alert_rules(self, rules: Sequence[Mapping[str, Any]], count: int = 10_000) -> list[ClaimedRule]:
        """Claims up to `count` of the rules of a file (name, severity, interval_s, definition): those that are due.

        Removes the rules that no process has claimed for an hour, except those of the file.
        """
        query = "select * from wakeboard.claim_alert_rules(%s::pg_catalog.jsonb, %s)"
        return [_claimed_rule(*row) for row in await self._rows(query, json.dumps(rules), count)]

    async def measure_alert(
        self,
        condition: str,
        span: timedelta | None,
        share: float | None,
        patterns: tuple[str | None, str | None, str | None],
    ) -> tuple[float, list[str]]:
        """The value of an alert rule's condition, and examples. `patterns`: of queue, job type and schedule."""
        query = "select value, examples from wakeboard.measure_alert(%s, %s, %s, %s, %s, %s)"
        value, examples = (await self._rows(query, condition, span, share, *patterns))[0]
        return value, examples

    async def fire_alert(
        self,
        rule: str,
        claimed_at: datetime,
        summary: str,
        value: float,
        examples: Sequence[str],
        notification: Notification | None = None,
    ) -> int | None:
        """Opens the alert of a rule, or renews the open one, and returns its id. None: the claim is not the newest."""
        query = (
            "select wakeboard.record_alert(%s, %s, true, %s, %s, %s::pg_catalog.text[], %s, %s::pg_catalog.text[], %s)"
        )
        arguments = _notification_args(notification)
        return await self._value(query, rule, claimed_at, summary, value, list(examples), *arguments)

    async def resolve_alert(
        self, rule: str, claimed_at: datetime, notification: Notification | None = None
    ) -> int | None:
        """Resolves the open alert of a rule and returns its id. None: there is none, or the claim is not the newest."""
        query = (
            "select wakeboard.record_alert(%s, %s, false, notification => %s, receivers => %s::pg_catalog.text[],"
            " queue => %s)"
        )
        return await self._value(query, rule, claimed_at, *_notification_args(notification))

    async def record_measured_rules(self, rules: Sequence[str], claimed_at: datetime) -> int:
        """Records that the evaluations of this claim of these alert rules succeeded. Returns how many it recorded."""
        query = "select wakeboard.record_measured_rules(%s::pg_catalog.text[], %s)"
        return await self._value(query, list(rules), claimed_at)

    async def unmeasured_rules(self, rules: Mapping[str, float]) -> dict[str, datetime | None]:
        """The rules that could not be measured for their number of seconds, and since when (None: never claimed)."""
        query = "select name, since from wakeboard.unmeasured_rules(%s::pg_catalog.jsonb)"
        return dict(await self._rows(query, json.dumps(rules)))

    async def enqueue_heartbeats(self, heartbeats: Sequence[Mapping[str, Any]], queue: str) -> int:
        """Enqueues runs that call the urls of heartbeats (name, every_s), if no alert is open. Returns how many."""
        query = "select wakeboard.enqueue_heartbeats(%s::pg_catalog.jsonb, %s)"
        return await self._value(query, json.dumps(heartbeats), queue)

    async def continue_backfills(self) -> int:
        """Creates the next runs of the backfills, and ends those that are done. Returns how many runs."""
        return await self._value("select wakeboard.continue_backfills()")

    async def set_retention(
        self,
        history: timedelta,
        keys: timedelta,
        dead: timedelta | None,
        effects: timedelta | None,
        logs: timedelta | None = None,
    ) -> None:
        """Sets the minimum retention; a worker's settings can only lengthen it. `logs` None: as before."""
        query = "select wakeboard.set_retention(%s, %s, %s, %s, %s)"
        await self._rows(query, history, keys, dead, effects, logs)

    async def set_audit_retention(self, retention: timedelta) -> None:
        """Sets how long audit rows and bulk actions are kept."""
        await self._rows("select wakeboard.set_audit_retention(%s)", retention)

    async def delete_expired(
        self, key_retention: timedelta, dead_retention: timedelta | None, history_retention: timedelta
    ) -> int | None:
        """Deletes a bounded batch of expired rows. Returns how many: call it again until it is 0.

        None: less than an hour ago a call found nothing to delete.
        """
        query = "select wakeboard.delete_expired(%s, %s, %s)"
        return await self._value(query, key_retention, dead_retention, history_retention)


def locked_limits(changed: Mapping[str, str]) -> str:
    """The sentence about the keys that an answer of `declare_limits` calls locked."""
    keys = ", ".join(sorted(key for key, answer in changed.items() if answer == "locked"))
    return f"the limits of {keys} are not set: another transaction has locked them; try again"


def _notification_args(notification: Notification | None) -> tuple[str | None, list[str], str]:
    if notification is None:
        return None, [], "default"
    return notification.kind, list(notification.receivers), notification.queue


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
        now=known.now.astimezone(UTC),
    )


def _claimed_rule(
    name: str, claimed_at: datetime, alert_id: int | None, seen_at: datetime | None, notified_at: datetime | None
) -> ClaimedRule:
    """With all times in UTC, as in `_known`."""
    seen_at, notified_at = (at and at.astimezone(UTC) for at in (seen_at, notified_at))
    return ClaimedRule(name, claimed_at.astimezone(UTC), alert_id, seen_at, notified_at)


def _columns(rows: Sequence[tuple[Any, ...]], width: int) -> list[list[Any]]:
    """Rows as one list per column, `width` of them also when there are no rows."""
    return [list(column) for column in zip(*rows, strict=True)] if rows else [[] for _ in range(width)]
