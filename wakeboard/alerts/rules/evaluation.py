"""Decides from a measurement whether an alert rule fires, and when its alert opens and resolves. No I/O, no clock.

An alert opens with the first measurement that reaches the threshold of its rule. It resolves with one below the
threshold, a minute or more after the last that reached it, so that a value around the threshold does not open one alert
after another.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, Final, Literal

from wakeboard.alerts.rules.conditions import FAST_S, Reading, condition_in
from wakeboard.text.durations import duration_text
from wakeboard.text.humanize import lasted
from wakeboard.ticks.zones import zone_info

if TYPE_CHECKING:
    from collections.abc import Mapping
    from datetime import datetime

    from wakeboard.alerts.rules.alert_rules import AlertRule
    from wakeboard.alerts.rules.fields import QuietHours

RESOLVE_AFTER: Final = timedelta(minutes=1)
CLOCK_TOLERANCE: Final = timedelta(minutes=1)  # a later time in the database was written by a clock that was ahead
SILENT_AFTER: Final = timedelta(minutes=3)  # since a process claimed an evaluation of a rule
UNTIL_RESOLVED_YEAR: Final = 9999  # infinity is read as a time of this year

Step = Literal["fire", "resolve", "wait"]


@dataclass(frozen=True, slots=True)
class Measurement:
    """What a rule measured: see the SQL function `measure_alert`. `examples`: the most important first."""

    value: float
    examples: tuple[str, ...] = ()


def interval_s(definition: Mapping[str, object]) -> float:
    """Seconds between two evaluations of a rule with this definition."""
    condition = condition_in(definition)
    return condition.interval_s if condition else FAST_S


def unmeasured_after(definition: Mapping[str, object]) -> timedelta:
    """The time without a successful evaluation after which a rule cannot be measured: two intervals and a minute."""
    return timedelta(seconds=2 * interval_s(definition) + 60)


def is_evaluated(evaluated_at: datetime | None, now: datetime) -> bool:
    """Whether a process evaluates a rule. `evaluated_at`: its newest claim; None: the rule was removed."""
    return evaluated_at is not None and now - evaluated_at <= SILENT_AFTER


def silence_in_words(until: datetime | None, now: datetime) -> str:
    """How long a rule is silenced: "for 59 m" or "until it is resolved"; "" if it is not."""
    if until is None or until <= now:
        return ""
    return "until it is resolved" if until.year >= UNTIL_RESOLVED_YEAR else f"for {lasted(until - now)}"


def span_of(rule: AlertRule) -> timedelta | None:
    """The duration that the measurement of a rule depends on."""
    spans = (rule.within, rule.condition.within, rule.limit)
    return next((span for span in spans if isinstance(span, timedelta)), None)


def fires(rule: AlertRule, measured: Measurement) -> bool:
    """Whether the condition of the rule is true."""
    return measured.value >= rule.condition.threshold(rule.limit)


def step_of(rule: AlertRule, measured: Measurement, seen_at: datetime | None, now: datetime) -> Step:
    """What to do with the alert of a rule. `seen_at`: when its open alert was last seen firing; None: none is open.

    `fire` opens an alert or renews the open one, `resolve` resolves it, `wait` changes nothing.
    """
    if fires(rule, measured):
        return "fire"
    return "resolve" if seen_at is not None and _has_passed(RESOLVE_AFTER, seen_at, now) else "wait"


def notification_of(rule: AlertRule, step: Step, notified_at: datetime | None, now: datetime) -> str | None:
    """What to announce with a step: open, repeat, resolved, or None. `notified_at`: the newest announcement.

    Quiet hours hold back openings and repeats, until they end or the alert resolves. An alert that was never announced
    resolves silently.
    """
    if not rule.receivers:
        return None
    if step == "resolve":
        return None if notified_at is None else "resolved"
    if step == "wait" or (rule.quiet_hours is not None and is_quiet(rule.quiet_hours, now)):
        return None
    if notified_at is None:
        return "open"
    is_due = rule.repeat_interval is not None and _has_passed(rule.repeat_interval, notified_at, now)
    return "repeat" if is_due else None


def _has_passed(span: timedelta, since: datetime, now: datetime) -> bool:
    """Whether `span` has passed. True as well if `since` is over a minute ahead: the server's clock was set back."""
    return since <= now - span or since > now + CLOCK_TOLERANCE


def is_quiet(quiet: QuietHours, now: datetime) -> bool:
    """Whether the local clock shows a time within the quiet hours."""
    local = now.astimezone(zone_info(quiet.time_zone)).time()
    if quiet.start < quiet.until:
        return quiet.start <= local < quiet.until
    return local >= quiet.start or local < quiet.until


def summary_of(rule: AlertRule, measured: Measurement) -> str:
    """One sentence, without a full stop, that says what is wrong."""
    where = [f"{name.replace('_', ' ')} {text}" for name, text in rule.where.model_dump(exclude_none=True).items()]
    found = Reading(
        value=measured.value,
        limit=rule.limit,
        within=f" within {duration_text(rule.within)}" if rule.within else "",
        where=f" ({', '.join(where)})" if where else "",
    )
    return rule.condition.sentence(found)


def like_pattern(pattern: str | None) -> str | None:
    """A pattern with * as one for LIKE."""
    if pattern is None:
        return None
    return pattern.replace("\\", r"\\").replace("%", r"\%").replace("_", r"\_").replace("*", "%")
