"""Decides from a measurement whether an alert rule fires, and when its alert opens and resolves. No I/O, no clock.

An alert opens with the first measurement that reaches the threshold of its rule. It resolves with one below the
threshold, a minute or more after the last that reached it, so that a value around the threshold does not open one alert
after another.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, Final, Literal

from wakeboard.alerts.rules.alert_rules import duration_text
from wakeboard.text.humanize import counted, lasted
from wakeboard.ticks.zones import zone_info

if TYPE_CHECKING:
    from collections.abc import Mapping
    from datetime import datetime

    from wakeboard.alerts.rules.alert_rules import AlertRule, QuietHours

RESOLVE_AFTER: Final = timedelta(minutes=1)
CLOCK_TOLERANCE: Final = timedelta(minutes=1)  # a later time in the database was written by a clock that was ahead
INTERVAL_S: Final = 15.0
SLOW_INTERVAL_S: Final = 60.0  # of conditions that read much, and that change slowly
_SLOW: Final = frozenset({"noSuccessFor", "durationOver"})
SILENT_AFTER: Final = timedelta(minutes=3)  # since a process claimed an evaluation of a rule
UNTIL_RESOLVED_YEAR: Final = 9999  # infinity is read as a time of this year
DURATION_WITHIN: Final = timedelta(minutes=15)

Step = Literal["fire", "resolve", "wait"]


@dataclass(frozen=True, slots=True)
class Measurement:
    """What a rule measured: see the SQL function `measure_alert`. `examples`: the most important first."""

    value: float
    examples: tuple[str, ...] = ()


def interval_s(definition: Mapping[str, object]) -> float:
    """Seconds between two evaluations of a rule with this definition."""
    return SLOW_INTERVAL_S if _SLOW & definition.keys() else INTERVAL_S


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
    if rule.condition == "durationOver":
        return rule.within or DURATION_WITHIN
    return rule.within or rule.late or rule.no_success_for or rule.no_worker


def threshold(rule: AlertRule) -> float:
    """The value that a measurement must reach for the rule to fire."""
    if rule.duration_over is not None:
        return rule.duration_over.times
    if (span := rule.late or rule.no_worker) is not None:
        return span.total_seconds()
    return float(rule.failures or rule.dead or rule.backlog or rule.circuit_open or 1)


def fires(rule: AlertRule, measured: Measurement) -> bool:
    """Whether the condition of the rule is true."""
    return measured.value >= threshold(rule)


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


def summary_of(rule: AlertRule, measured: Measurement) -> str:  # noqa: PLR0911 - a table
    """One sentence, without a full stop, that says what is wrong."""
    count = int(measured.value)
    span = timedelta(seconds=measured.value)
    within = f" within {duration_text(rule.within)}" if rule.within else ""
    match rule.condition:
        case "failures":
            return f"{counted(count, 'attempt')} failed{within}{_of(rule)}"
        case "dead":
            became = "became dead" if within else "dead"
            verb = "" if within else ("is " if count == 1 else "are ")
            return f"{counted(count, 'run')} {verb}{became}{within}{_of(rule)}"
        case "late":
            return f"the oldest due run{_of(rule)} has waited for {lasted(span)}"
        case "noSuccessFor":
            period = duration_text(rule.no_success_for or timedelta())
            return f"{counted(count, 'schedule')}{_of(rule)} had no successful run for {period}"
        case "backlog":
            return f"{counted(count, 'due run')}{_of(rule)} {'waits' if count == 1 else 'wait'}"
        case "durationOver":
            share = round(100 * rule.duration_over.share) if rule.duration_over else 0
            return f"a run{_of(rule)} took {measured.value:.1f} x the p{share} of its job type"
        case "circuitOpen":
            return f"{counted(count, 'schedule')}{_of(rule)} stopped after dead runs"
        case "noWorker":
            return f"runs are due{_of(rule)}, and no worker was seen for {lasted(span)}"


def _of(rule: AlertRule) -> str:
    """The restriction of the rule in words: " (queue billing)"."""
    where = rule.where.model_dump(exclude_none=True)
    parts = [f"{name.replace('_', ' ')} {pattern}" for name, pattern in where.items()]
    return f" ({', '.join(parts)})" if parts else ""


def like_pattern(pattern: str | None) -> str | None:
    """A pattern with * as one for LIKE."""
    if pattern is None:
        return None
    return pattern.replace("\\", r"\\").replace("%", r"\%").replace("_", r"\_").replace("*", "%")
