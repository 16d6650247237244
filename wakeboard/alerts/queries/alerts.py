"""Alerts that are open or were resolved. Needs SELECT on the tables; the viewer's and the operator's role have it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, LiteralString

from psycopg.rows import class_row

from wakeboard.store.statements import read

if TYPE_CHECKING:
    from datetime import datetime

    import psycopg


@dataclass(frozen=True, slots=True, kw_only=True)
class AlertRow:
    """One outage that an alert rule found.

    `value`: what the rule measured when it last fired (`seen_at`). `examples`: what is behind it, the most important
    first. `resolution`: recovered, rule removed, or null while the alert is open. Of its rule: `evaluated_at`, the
    newest evaluation, and `silenced_until`.
    """

    id: int
    rule: str
    severity: str
    summary: str
    examples: list[str]
    value: float
    opened_at: datetime
    seen_at: datetime
    resolved_at: datetime | None
    resolution: str | None
    evaluated_at: datetime | None
    silenced_until: datetime | None


ALERT_COLUMNS: LiteralString = """
       id, rule, severity, summary, examples, value, opened_at, seen_at, resolved_at, resolution,
       (select evaluated_at from wakeboard.alert_rules where name = rule) as evaluated_at,
       (select silenced_until from wakeboard.alert_rules where name = rule) as silenced_until"""
_ALERTS: LiteralString = f"""
select {ALERT_COLUMNS}
  from (
    (select * from wakeboard.alerts where resolved_at is null)
    union all
    (select * from wakeboard.alerts
      where resolved_at is not null and %(resolved)s
      order by resolved_at desc
      limit %(limit)s)) as alert
 order by resolved_at desc nulls first, array_position('{{critical,warning,info}}', severity), opened_at desc, id desc
 limit %(limit)s
"""


async def read_alerts(conn: psycopg.AsyncConnection[Any], *, resolved: bool, limit: int) -> list[AlertRow]:
    """The open alerts, worst first; with `resolved` then the resolved ones, newest first."""
    return await read(conn, class_row(AlertRow), _ALERTS, {"resolved": resolved, "limit": limit})
