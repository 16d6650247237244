"""What the board's page of alerts shows: open and resolved alerts with their deliveries, rules, and heartbeats.

A viewer of some namespaces gets the rules whose `where.schedule` names one of them, and their alerts; no heartbeats.
Lists are read by key. Needs SELECT on the tables, which the viewer's and the operator's role have.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, LiteralString

from psycopg.rows import class_row

from wakeboard.alerts.queries.alerts import ALERT_COLUMNS, AlertRow
from wakeboard.store.statements import read

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence
    from datetime import datetime

    import psycopg


@dataclass(frozen=True, slots=True, kw_only=True)
class ShownAlert(AlertRow):
    """An alert and its rule as it was evaluated last."""

    definition: dict[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class DeliveryRow:
    """The newest notification of an alert to a receiver, and its run. `status` None: the run was deleted."""

    alert_id: int
    receiver: str
    notification: str
    run_id: int
    status: str | None
    error: str | None
    attempts: int | None
    changed_at: datetime | None


@dataclass(frozen=True, slots=True, kw_only=True)
class RuleRow:
    """A rule as it was evaluated last. `other_definition`: another version, which a process had at `other_at`.

    `unmeasured_since`: the first claim of an evaluation since the newest one that succeeded; None: no claim since then.
    """

    name: str
    severity: str
    definition: dict[str, Any]
    evaluated_at: datetime
    unmeasured_since: datetime | None
    silenced_until: datetime | None
    other_definition: dict[str, Any] | None
    other_at: datetime | None
    is_open: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class HeartbeatRow:
    """A heartbeat, when it was enqueued last, and the state of that run; None: the run was deleted.

    `is_held`: no call follows while an alert is open.
    """

    name: str
    enqueued_at: datetime
    run_id: int | None
    status: str | None
    error: str | None
    is_held: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class AlertCounts:
    """How many alerts are open, the worst severity, and the oldest ones. `names`: at most three, the worst first.

    `of_all_dead`: those of rules for all dead runs.
    """

    open: int
    severity: str
    names: list[str]
    of_all_dead: list[str]
    summary: str
    opened_at: datetime


MOST_OPEN: Final = 500  # on the page

_VISIBLE: LiteralString = (
    "(%(namespaces)s::text[] is null or split_part(definition #>> '{where,schedule}', '/', 1) = any (%(namespaces)s))"
)
_COLUMNS: LiteralString = f"{ALERT_COLUMNS}, definition"
_WORST: LiteralString = "array_position('{critical,warning,info}', severity)"  # the lowest number
_OPEN: LiteralString = f"""
select {_COLUMNS} from wakeboard.alerts
 where resolved_at is null and {_VISIBLE}
   and (%(before)s::bigint is null or (-{_WORST}, opened_at, id) < (
         select -{_WORST}, last.opened_at, last.id from wakeboard.alerts as last where last.id = %(before)s))
 order by {_WORST}, opened_at desc, id desc
 limit %(count)s
"""
_RESOLVED: LiteralString = f"""
select {_COLUMNS} from wakeboard.alerts
 where resolved_at is not null and {_VISIBLE}
   and (%(before)s::bigint is null or (resolved_at, id) < (
         select last.resolved_at, last.id from wakeboard.alerts as last where last.id = %(before)s))
 order by resolved_at desc, id desc
 limit %(count)s
"""
_DELIVERIES: LiteralString = """
select newest.alert_id, newest.receiver, newest.notification, newest.run_id, run.status, run.error, run.attempts,
       run.changed_at
  from wakeboard.alerts as alert
 cross join lateral (
   select distinct on (receiver) alert_id, receiver, notification, run_id
     from wakeboard.alert_deliveries where alert_id = alert.id
    order by receiver, run_id desc) as newest
  left join lateral (
    select live.status::text, live.last_error as error, live.attempts,
           greatest(live.created_at, live.failed_at) as changed_at
      from wakeboard.job_runs as live where live.id = newest.run_id
    union all
    select past.status::text, past.last_error, past.attempts, past.finished_at
      from wakeboard.job_run_history as past
     where past.id = newest.run_id and past.finished_at >= alert.opened_at
    limit 1) as run on true
 where alert.id = any (%(ids)s)
 order by newest.alert_id, newest.receiver
"""
_RULES: LiteralString = f"""
select name, severity, definition, evaluated_at, unmeasured_since, silenced_until,
       case when {_VISIBLE.replace("definition", "other_definition")} then other_definition end as other_definition,
       other_at,
       exists (select from wakeboard.alerts where rule = alert_rules.name and resolved_at is null) as is_open
  from wakeboard.alert_rules
 where {_VISIBLE}
 order by name
 limit 1000
"""
_HEARTBEATS: LiteralString = """
select beat.name, beat.enqueued_at, beat.run_id, run.status, run.error,
       exists (select from wakeboard.alerts where resolved_at is null) as is_held
  from wakeboard.alert_heartbeats as beat
  left join lateral (
    select live.status::text, live.last_error as error from wakeboard.job_runs as live where live.id = beat.run_id
    union all
    select past.status::text, past.last_error from wakeboard.job_run_history as past
     where past.id = beat.run_id and past.finished_at >= beat.enqueued_at
    limit 1) as run on true
 order by beat.name
 limit 100
"""
_COUNTS: LiteralString = f"""
select count(*)::integer as open, (array_agg(severity order by worst))[1] as severity,
       (array_agg(rule order by worst))[:3] as names, (array_agg(summary order by worst))[1] as summary,
       coalesce(array_agg(rule order by worst) filter (where definition ? 'dead' and not definition ? 'where'), '{{}}')
         as of_all_dead,
       (array_agg(opened_at order by worst))[1] as opened_at
  from (select rule, severity, summary, opened_at, definition,
               row_number() over (
                 order by {_WORST}, opened_at, id) as worst
          from wakeboard.alerts where resolved_at is null and {_VISIBLE}) as shown
having count(*) > 0
"""


class AlertQueries:
    """The reads of the page, over one connection. `namespaces`: those that the viewer may see; None: all."""

    def __init__(self, conn: psycopg.AsyncConnection[Any], namespaces: Collection[str] | None) -> None:
        self._conn = conn
        self._namespaces = None if namespaces is None else sorted(namespaces)

    async def open(self, count: int = MOST_OPEN, before: int | None = None) -> list[ShownAlert]:
        """The open alerts, the worst first, then the newest. `before`: those behind this one."""
        return await self._alerts(_OPEN, count, before)

    async def resolved(self, count: int, before: int | None = None) -> list[ShownAlert]:
        """The newest resolved alerts. `before`: those that were resolved before this one."""
        return await self._alerts(_RESOLVED, count, before)

    async def _alerts(self, query: LiteralString, count: int, before: int | None) -> list[ShownAlert]:
        values = {"namespaces": self._namespaces, "count": count, "before": before}
        return await read(self._conn, class_row(ShownAlert), query, values)

    async def deliveries(self, alerts: Sequence[ShownAlert]) -> list[DeliveryRow]:
        """The newest delivery of each of these alerts to each receiver."""
        return await read(self._conn, class_row(DeliveryRow), _DELIVERIES, {"ids": [alert.id for alert in alerts]})

    async def rules(self) -> list[RuleRow]:
        """The rules that processes evaluate, by name."""
        return await read(self._conn, class_row(RuleRow), _RULES, {"namespaces": self._namespaces})

    async def heartbeats(self) -> list[HeartbeatRow]:
        """The heartbeats, by name; none for viewers of some namespaces."""
        return [] if self._namespaces is not None else await read(self._conn, class_row(HeartbeatRow), _HEARTBEATS)

    async def counts(self) -> AlertCounts | None:
        """How many alerts are open; None: none is."""
        found = await read(self._conn, class_row(AlertCounts), _COUNTS, {"namespaces": self._namespaces})
        return found[0] if found else None
