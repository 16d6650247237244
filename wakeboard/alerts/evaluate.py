"""Evaluates alert rules: claims those that are due, measures each, and records the result. Also enqueues heartbeats.

The claim is atomic, so that any number of workers, operators and `wakeboard up` together evaluate a rule once in its
interval. A result is stored only if its claim is the newest, so a process that was suspended changes nothing. At most
one alert of a rule is open, whatever fails. A rule whose measurement fails, or whose alert another transaction has
locked, does not stop the others; heartbeats stop if that lasts. The waits for locks are bounded, because a worker
claims runs over the same connection.
"""

from __future__ import annotations

import random
from datetime import UTC
from typing import TYPE_CHECKING, Final

from wakeboard.alerts import calls
from wakeboard.alerts.calls import Notification
from wakeboard.alerts.rules.alert_rules import definition_of
from wakeboard.alerts.rules.evaluation import (
    Measurement,
    interval_s,
    like_pattern,
    notification_of,
    span_of,
    step_of,
    summary_of,
    unmeasured_after,
)
from wakeboard.alerts.rules.fields import TimesUsual
from wakeboard.errors import LeadershipLost, Locked, WakeboardError
from wakeboard.text.humanize import counted

if TYPE_CHECKING:
    from collections.abc import Sequence

    from wakeboard.alerts.calls import ClaimedRule
    from wakeboard.alerts.rules.alert_rules import AlertRule, AlertSpec
    from wakeboard.engine.maintenance_api import MaintenanceStore

CLAIMED_AT_ONCE: Final = 10  # rules: another process may claim one again after its interval, and that result counts
MAX_NAMED: Final = 5  # rules in an error
MAX_LOCKED: Final = 5  # an evaluation stops after this many rules met a lock, each usually after 0.1 s


async def run_alerts(store: MaintenanceStore, alerts: AlertSpec) -> None:
    """Evaluates the rules that are due, then enqueues the heartbeats that are due if each rule can be measured.

    Raises WakeboardError with the rules that cannot be measured, or the error of an evaluation or of the heartbeats. If
    both fail, one WakeboardError has both messages. LeadershipLost and the error of a lost connection are raised as
    they are.
    """
    rules = alerts.resolved_rules()
    failure: Exception | None = None
    try:
        await evaluate_alerts(store, rules, alerts.queue)
    except Exception as error:
        if store.conn.closed:
            raise
        failure = error  # a single failure does not stop heartbeats
    try:
        await require_measured(store, rules)
        if alerts.heartbeats:
            await calls.enqueue_heartbeats(store, alerts.heartbeats, alerts.queue)
    except Exception as error:
        if failure is None or store.conn.closed or isinstance(error, LeadershipLost):
            raise
        raise WakeboardError(f"{error}; {failure}") from failure
    if failure is not None:
        raise failure


async def evaluate_alerts(store: MaintenanceStore, rules: Sequence[AlertRule], queue: str = "default") -> int:
    """Evaluates the rules that are due and returns their number. `queue`: of the runs that deliver notifications.

    Raises the error of the last rule that failed, after the others were evaluated. Once MAX_LOCKED rules have met a
    lock, the others are evaluated when they are due again.
    """
    failures: list[Exception] = []
    evaluated = locked = 0
    by_name = {rule.name: rule for rule in rules}
    rows = [_row(rule) for rule in rules]
    for _ in range(0, max(len(rules), 1), CLAIMED_AT_ONCE):  # one without rules still removes those of a former file
        claimed = await calls.claim_alert_rules(store, rows, CLAIMED_AT_ONCE)
        random.shuffle(claimed)  # so that a lock, or another process, does not stop the same rules each time
        evaluated += len(claimed)
        measured: list[str] = []
        for claim in claimed:
            if locked == MAX_LOCKED:
                break
            try:
                if await _evaluate(store, by_name[claim.name], claim, queue):
                    measured.append(claim.name)
            except Exception as error:  # noqa: BLE001 - the other rules are evaluated
                failures.append(error)
                locked += isinstance(error, Locked)
        if measured:
            await calls.record_measured_rules(store, measured, claimed[0].claimed_at)  # one call claimed them all
        if locked == MAX_LOCKED or len(claimed) < CLAIMED_AT_ONCE:
            break
    if failures:
        raise failures[-1]
    return evaluated


async def require_measured(store: MaintenanceStore, rules: Sequence[AlertRule]) -> None:
    """Raises WakeboardError if rules cannot be measured: no evaluation succeeded within `unmeasured_after`."""
    unmeasured = await calls.unmeasured_rules(
        store, {rule.name: unmeasured_after(definition_of(rule)).total_seconds() for rule in rules}
    )
    if unmeasured:
        each = [
            f"{name} since {at.astimezone(UTC):%Y-%m-%d %H:%M:%S} UTC" if at else name
            for name, at in unmeasured.items()
        ]
        more = f" and {len(each) - MAX_NAMED} more" if len(each) > MAX_NAMED else ""
        raise WakeboardError(
            f"{counted(len(each), 'alert rule')} cannot be measured: {', '.join(each[:MAX_NAMED])}{more}"
        )


def _row(rule: AlertRule) -> dict[str, object]:
    definition = definition_of(rule)
    return {
        "name": rule.name,
        "severity": rule.severity,
        "interval_s": interval_s(definition),
        "definition": definition,
    }


async def _evaluate(store: MaintenanceStore, rule: AlertRule, claimed: ClaimedRule, queue: str) -> bool:
    """Returns False if another process has claimed the rule meanwhile, so that no alert is opened or resolved."""
    measured = await measure(store, rule)
    step = step_of(rule, measured, claimed.seen_at, claimed.claimed_at)
    kind = notification_of(rule, step, claimed.notified_at, claimed.claimed_at)
    notification = Notification(kind, tuple(dict.fromkeys(rule.receivers)), queue) if kind else None
    if step not in {"fire", "resolve"}:
        return True
    firing = (summary_of(rule, measured), measured.value, measured.examples) if step == "fire" else None
    return await calls.record_alert(store, rule.name, claimed.claimed_at, firing, notification) is not None


async def measure(store: MaintenanceStore, rule: AlertRule) -> Measurement:
    """What the rule measures now."""
    where = rule.where
    value, examples = await calls.measure_alert(
        store,
        rule.condition.name,
        span_of(rule),
        rule.limit.share if isinstance(rule.limit, TimesUsual) else None,
        (like_pattern(where.queue), like_pattern(where.job_type), like_pattern(where.schedule)),
    )
    return Measurement(value, tuple(examples))
