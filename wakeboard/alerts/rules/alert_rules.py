"""Alert rules as a file declares them: their fields, defaults and bounds, and the messages for mistakes.

    apiVersion: wakeboard.dev/v1alpha1
    kind: AlertRules
    spec:
      rules:
        - name: billing-fails
          failures: 10
          within: 60m
          where: {queue: billing}

A rule has exactly one condition. docs/alerts.md describes them all.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from datetime import time, timedelta
from typing import Annotated, Any, Final, Literal, Self, cast

from pydantic import AfterValidator, BeforeValidator, Field, ValidationError, ValidationInfo, model_validator
from pydantic.alias_generators import to_camel

from wakeboard.alerts.rules.receivers import HeartbeatSpec, Receiver  # noqa: TC001 - pydantic reads it when it builds the class
from wakeboard.declared.model import Declared
from wakeboard.declared.validation_messages import Place, problems_of, refusal
from wakeboard.errors import InvalidSchedule
from wakeboard.schedules.rules.job_schedule import QueueName, ZoneName  # noqa: TC001 - the same
from wakeboard.text.name_patterns import SUBDOMAIN

Condition = Literal["failures", "dead", "late", "noSuccessFor", "backlog", "durationOver", "noWorker", "circuitOpen"]

API_VERSION: Final = "wakeboard.dev/v1alpha1"
KIND: Final = "AlertRules"
CONDITIONS: Final[tuple[Condition, ...]] = (
    "failures",
    "dead",
    "late",
    "noSuccessFor",
    "backlog",
    "durationOver",
    "noWorker",
    "circuitOpen",
)
MAX_RULES: Final = 200
MAX_RECEIVERS: Final = 100  # of a rule; the database stores a rule in at most 8 KiB

_UNITS: Final = {"s": 1, "m": 60, "h": 3600, "d": 86_400}
_LONGEST: Final = timedelta(days=31)
_DURATION: Final = re.compile(r"([1-9][0-9]{0,6})(s|m|h|d)")
_TIMES: Final = re.compile(r"([1-9][0-9]{0,2}(?:\.[0-9]{1,2})?) ?[x×] ?p(50|90|95|99)")  # noqa: RUF001 - both signs
_CLOCK: Final = re.compile(r"([01][0-9]|2[0-3]):([0-5][0-9])")
_PATTERN: Final = r"^[A-Za-z0-9*][A-Za-z0-9*._/-]*$"
_SCHEDULE: Final = re.compile(r"[^/]+/[^/]+|[^/]*\*[^/]*")  # namespace/name; a * stands for the slash, too

Severity = Literal["info", "warning", "critical"]


def _duration(written: object, info: ValidationInfo) -> object:
    found = _DURATION.fullmatch(written) if isinstance(written, str) else None
    span = timedelta(seconds=int(found[1]) * _UNITS[found[2]]) if found else None
    if span is None or span > _LONGEST:
        raise refusal(
            f"{to_camel(info.field_name or '')} is {_shown(written)}; write a duration of at most 31d, for example 90s,"
            " 5m, 26h or 7d"
        )
    return span


def _times_usual(written: object) -> object:
    found = _TIMES.fullmatch(written) if isinstance(written, str) else None
    if found is None:
        raise refusal(
            f"durationOver is {_shown(written)}; write how many times a percentile (p50, p90, p95 or p99), for example"
            " 3 x p95"
        )
    return TimesUsual(times=float(found[1]), share=int(found[2]) / 100)


def _pattern(written: object, info: ValidationInfo) -> object:
    if isinstance(written, str) and len(written) <= 128 and re.fullmatch(_PATTERN, written):  # noqa: PLR2004
        return written
    name = to_camel(info.field_name or "")
    example = {"schedule": "billing/*", "jobType": "send_*"}.get(name, "billing")
    raise refusal(f"{name} is {_shown(written)}; write a name, in which * stands for any text, for example {example}")


def _that_a_schedule_matches(pattern: str) -> str:
    if _SCHEDULE.fullmatch(pattern):
        return pattern
    raise refusal(
        f"schedule is {_shown(pattern)}, which no schedule matches; write its namespace and its name, for example"
        " billing/close-month or */close-month"
    )


def _shown(value: object) -> str:
    text = f'"{value}"' if isinstance(value, str) else str(value)
    return text if len(text) <= 60 else f"{text[:60]}..."  # noqa: PLR2004


def _local_time(written: object, info: ValidationInfo) -> object:
    found = _CLOCK.fullmatch(written) if isinstance(written, str) else None
    if found is None:
        name = "from" if info.field_name == "start" else info.field_name
        raise refusal(f'{name} is {_shown(written)}; write a time of the day in quotes, for example "22:00"')
    return time(int(found[1]), int(found[2]))


LocalTime = Annotated[time, BeforeValidator(_local_time)]
Duration = Annotated[timedelta, BeforeValidator(_duration)]
NamePattern = Annotated[str, BeforeValidator(_pattern)]
SchedulePattern = Annotated[NamePattern, AfterValidator(_that_a_schedule_matches)]


class TimesUsual(Declared):
    """How many times a quantile of the durations: `3 x p95` is times=3, share=0.95."""

    times: float
    share: float


class Where(Declared):
    """Restricts a rule to runs of a queue, a job type or schedules. In each, * stands for any text."""

    queue: NamePattern | None = None
    job_type: NamePattern | None = None
    schedule: SchedulePattern | None = None


class QuietHours(Declared):
    """A time of the day, by the local clock of a zone, in which no alert is announced.

    If `until` is before `from`, the time ends on the next day.
    """

    start: LocalTime = Field(alias="from")
    until: LocalTime
    time_zone: ZoneName = "Etc/UTC"

    @model_validator(mode="after")
    def _has_a_length(self) -> Self:
        if self.start == self.until:
            raise refusal(f"quietHours begin and end at {self.start:%H:%M}; write for example until: 07:00")
        return self


class AlertRule(Declared):
    """One rule: its name, exactly one condition, and what it applies to.

    Durations: `within` belongs to failures (required), dead (absent: whenever they died) and durationOver (absent:
    15 minutes). `receivers`: names of receivers; absent: the alert is listed and not announced. `repeat_interval` and
    `quiet_hours`: absent, those of the file.
    """

    name: Annotated[str, Field(max_length=63, pattern=SUBDOMAIN)] = Field(examples=["billing-fails"])
    severity: Severity = "warning"
    failures: Annotated[int, Field(ge=1, le=10_000)] | None = Field(default=None, examples=[10])
    dead: Annotated[int, Field(ge=1, le=10_000)] | None = Field(default=None, examples=[1])
    late: Duration | None = None
    no_success_for: Duration | None = None
    backlog: Annotated[int, Field(ge=1, le=100_000)] | None = Field(default=None, examples=[1000])
    duration_over: Annotated[TimesUsual, BeforeValidator(_times_usual)] | None = None
    no_worker: Duration | None = None
    circuit_open: Annotated[int, Field(ge=1, le=10_000)] | None = Field(default=None, examples=[1])
    within: Duration | None = None
    where: Where = Field(default=Where(), examples=[{"queue": "billing"}])
    receivers: list[str] = Field(default=[], examples=[["team"]])
    repeat_interval: Duration | None = None
    quiet_hours: QuietHours | None = None

    @property
    def condition(self) -> Condition:
        """The name of its condition."""
        return self._conditions()[0]

    def _conditions(self) -> list[Condition]:
        fields = {to_camel(name): value for name, value in self}
        return [name for name in CONDITIONS if fields[name] is not None]

    @model_validator(mode="after")
    def _has_one_condition(self) -> Self:
        found = self._conditions()
        if len(found) != 1:
            raise refusal(
                f"{self.name} has {' and '.join(found)}; write a rule for each of them"
                if found
                else f"{self.name} has no condition; write one of {', '.join(CONDITIONS)}, for example dead: 1"
            )
        if found == ["failures"] and self.within is None:
            raise refusal(f"{self.name} has failures without within; write for example within: 60m")
        if self.within is not None and found[0] not in {"failures", "dead", "durationOver"}:
            raise refusal(f"{self.name} has within, which {found[0]} does not use; remove it")
        if found == ["noSuccessFor"] and self.where == Where():
            raise refusal(
                f"{self.name} has noSuccessFor without where; write for example where: {{schedule: billing/*}}"
            )
        return self

    @model_validator(mode="after")
    def _receivers_fit(self) -> Self:
        if len(self.receivers) > MAX_RECEIVERS:
            raise refusal(
                f"{self.name} has {len(self.receivers)} receivers, which is too many; write at most {MAX_RECEIVERS}"
            )
        return self


class AlertSpec(Declared):
    """The rules of a file, their receivers, and what applies to all of them.

    `queue`: of the runs that deliver notifications. `quiet_hours` do not apply to critical rules; those of a rule do.
    """

    rules: list[AlertRule] = Field(examples=[[{"name": "dead-runs", "dead": 1}]])
    receivers: list[Receiver] = Field(default=[], examples=[[{"name": "team", "slack": {}}]])
    heartbeats: list[HeartbeatSpec] = Field(default=[], examples=[[{"name": "watchdog", "url": "https://…"}]])
    repeat_interval: Duration = Field(default=timedelta(hours=4), validate_default=False)
    quiet_hours: QuietHours | None = None
    queue: QueueName = "default"

    @model_validator(mode="after")
    def _names_are_unique(self) -> Self:
        names = [rule.name for rule in self.rules]
        for name in names:
            if names.count(name) > 1:
                raise refusal(f"two rules are named {name}; rename one of them")
        if len(names) > MAX_RULES:
            raise refusal(f"the file has {len(names)} rules, which is too many; write at most {MAX_RULES}")
        return self

    @model_validator(mode="after")
    def _receivers_are_known(self) -> Self:
        known = [receiver.name for receiver in self.receivers]
        names = [*known, *(heartbeat.name for heartbeat in self.heartbeats)]
        for name in names:
            if names.count(name) > 1:
                raise refusal(f"two receivers or heartbeats are named {name}; rename one of them")
        for rule in self.rules:
            for name in rule.receivers:
                if name not in known:
                    raise refusal(
                        f"the rule {rule.name} has the receiver {_shown(name)}, which is not declared; the receivers"
                        f" are {', '.join(known) or 'none: write spec.receivers'}"
                    )
        return self

    def resolved_rules(self) -> list[AlertRule]:
        """The rules, each with the repeat interval and the quiet hours that apply to it."""
        return [
            rule.model_copy(
                update={
                    "repeat_interval": rule.repeat_interval or self.repeat_interval,
                    "quiet_hours": rule.quiet_hours or (None if rule.severity == "critical" else self.quiet_hours),
                }
            )
            for rule in self.rules
        ]


NO_RULES: Final = AlertSpec(rules=[])


class AlertRules(Declared):
    """A document with alert rules."""

    api_version: Literal["wakeboard.dev/v1alpha1"]
    kind: Literal["AlertRules"]
    metadata: dict[str, Any] = Field(default_factory=dict)
    spec: AlertSpec = Field(examples=[{"rules": []}])


def load_alert_rules(document: object, where: Callable[[Place], str]) -> AlertRules:
    """The rules that `document` declares. `where` returns file and line of a part of it, which begin each sentence.

    Raises InvalidSchedule with a sentence for each problem.
    """
    if not isinstance(document, Mapping):
        raise InvalidSchedule(f'{where(())}: these are not alert rules; begin with "apiVersion: {API_VERSION}"')
    try:
        return AlertRules.model_validate(cast("Mapping[str, object]", document))
    except ValidationError as error:
        problems = problems_of(error, AlertRules.model_json_schema())
        raise InvalidSchedule(*(f"{where(place)}: {sentence}" for place, sentence in problems)) from None


def definition_of(rule: AlertRule) -> dict[str, Any]:
    """The rule for display: its fields as a file would have them, those with defaults left out."""
    shown = rule.model_dump(by_alias=True, exclude_defaults=True)
    return {name: _text(value) for name, value in shown.items() if name not in {"name", "severity"}}


def _texts(fields: Mapping[str, Any]) -> dict[str, Any]:
    return {name: _text(value) for name, value in fields.items()}


def _text(value: object) -> object:
    match value:
        case timedelta():
            return duration_text(value)
        case time():
            return f"{value:%H:%M}"
        case dict():
            inner = cast("dict[str, Any]", value)
            return f"{inner['times']:g} x p{round(inner['share'] * 100)}" if "times" in inner else _texts(inner)
        case _:
            return value


def seconds_of(written: str) -> int:
    """The seconds of a duration as a file has it."""
    found = _DURATION.fullmatch(written)
    return int(found[1]) * _UNITS[found[2]] if found else 0


def duration_text(span: timedelta) -> str:
    """A duration as a file has it, in the largest unit that divides it: "26h", "90s"."""
    seconds = int(span.total_seconds())
    unit = next(unit for unit in ("d", "h", "m", "s") if seconds % _UNITS[unit] == 0)
    return f"{seconds // _UNITS[unit]}{unit}"
