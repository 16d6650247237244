"""SQL functions of alert rules, typed."""

from __future__ import annotations

import json
from datetime import UTC
from typing import TYPE_CHECKING, Any, NamedTuple

from wakeboard.store.statements import call

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from datetime import datetime, timedelta

    from wakeboard.alerts.rules.receivers import HeartbeatSpec
    from wakeboard.engine.maintenance_api import MaintenanceStore


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


async def claim_alert_rules(
    store: MaintenanceStore, rules: Sequence[Mapping[str, Any]], count: int = 10_000
) -> list[ClaimedRule]:
    """Claims up to `count` of the rules of a file (name, severity, interval_s, definition): those that are due.

    Removes the rules that no process has claimed for an hour, except those of the file.
    """
    query = "select * from wakeboard.claim_alert_rules(%s::pg_catalog.jsonb, %s)"
    return [_claimed_rule(*row) for row in await store.rows(query, json.dumps(rules), count)]


async def measure_alert(
    store: MaintenanceStore,
    condition: str,
    span: timedelta | None,
    share: float | None,
    patterns: tuple[str | None, str | None, str | None],
) -> tuple[float, list[str]]:
    """The value of an alert rule's condition, and examples. `patterns`: of queue, job type and schedule.

    It does not check the term of a leader, as a long one would keep the leadership's row locked. The claim of the rule
    and the record of the result check it.
    """
    query = "select value, examples from wakeboard.measure_alert(%s, %s, %s, %s, %s, %s)"
    value, examples = (await call(store.conn, query, condition, span, share, *patterns))[0]
    return value, examples


async def record_alert(
    store: MaintenanceStore,
    rule: str,
    claimed_at: datetime,
    firing: tuple[str, float, Sequence[str]] | None,
    notification: Notification | None = None,
) -> int | None:
    """Opens the alert of a rule, or renews the open one, and returns its id. `firing`: summary, value and examples.

    Without `firing` it resolves the open one. None: there is none to resolve, or the claim is not the newest.
    """
    query = "select wakeboard.record_alert(%s, %s, %s, %s, %s, %s::pg_catalog.text[], %s, %s::pg_catalog.text[], %s)"
    summary, value, examples = firing or ("", 0.0, ())
    kind, receivers, queue = notification or (None, (), "default")
    found = summary, value, list(examples), kind, list(receivers), queue
    return await store.value(query, rule, claimed_at, firing is not None, *found)


async def record_measured_rules(store: MaintenanceStore, rules: Sequence[str], claimed_at: datetime) -> int:
    """Records that the evaluations of this claim of these alert rules succeeded. Returns how many it recorded."""
    query = "select wakeboard.record_measured_rules(%s::pg_catalog.text[], %s)"
    return await store.value(query, list(rules), claimed_at)


async def unmeasured_rules(store: MaintenanceStore, rules: Mapping[str, float]) -> dict[str, datetime | None]:
    """The rules that could not be measured for their number of seconds, and since when (None: never claimed)."""
    query = "select name, since from wakeboard.unmeasured_rules(%s::pg_catalog.jsonb)"
    return dict(await store.rows(query, json.dumps(rules)))


async def enqueue_heartbeats(
    store: MaintenanceStore, heartbeats: Sequence[HeartbeatSpec], queue: str = "default"
) -> int:
    """Enqueues the calls of the heartbeats that are due, if no alert is open. Returns how many."""
    query = "select wakeboard.enqueue_heartbeats(%s::pg_catalog.jsonb, %s)"
    beats = [{"name": each.name, "every_s": each.every_seconds} for each in heartbeats]
    return await store.value(query, json.dumps(beats), queue)


def _claimed_rule(
    name: str, claimed_at: datetime, alert_id: int | None, seen_at: datetime | None, notified_at: datetime | None
) -> ClaimedRule:
    """With all times in UTC."""
    seen_at, notified_at = (at and at.astimezone(UTC) for at in (seen_at, notified_at))
    return ClaimedRule(name, claimed_at.astimezone(UTC), alert_id, seen_at, notified_at)
