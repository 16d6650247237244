"""The values that a file of alert rules consists of: durations, patterns, times of the day. No I/O, no clock."""

from __future__ import annotations

import re
from datetime import time, timedelta
from typing import Annotated, Final, Self

from pydantic import AfterValidator, BeforeValidator, Field, ValidationInfo, model_validator
from pydantic.alias_generators import to_camel

from wakeboard.declared.model import Declared
from wakeboard.declared.validation_messages import refusal
from wakeboard.schedules.rules.field_types import ZoneName  # noqa: TC001 - pydantic reads it when it builds the class
from wakeboard.text.durations import parse_duration
from wakeboard.text.sanitize import shortened

_LONGEST: Final = 31 * 86_400  # seconds
_TIMES: Final = re.compile(r"([1-9][0-9]{0,2}(?:\.[0-9]{1,2})?) ?[x×] ?p(50|90|95|99)")  # noqa: RUF001 - both signs
_CLOCK: Final = re.compile(r"([01][0-9]|2[0-3]):([0-5][0-9])")
_PATTERN: Final = r"^[A-Za-z0-9*][A-Za-z0-9*._/-]*$"
_SCHEDULE: Final = re.compile(r"[^/]+/[^/]+|[^/]*\*[^/]*")  # namespace/name; a * stands for the slash, too


def _duration(written: object, info: ValidationInfo) -> object:
    seconds = parse_duration(written) if isinstance(written, str) else None
    if seconds is None or seconds > _LONGEST:
        raise refusal(
            f"{to_camel(info.field_name or '')} is {shown(written)}; write a duration of at most 31d, for example 90s,"
            " 5m, 26h or 7d"
        )
    return timedelta(seconds=seconds)


def _times_usual(written: object) -> object:
    found = _TIMES.fullmatch(written) if isinstance(written, str) else None
    if found is None:
        raise refusal(
            f"durationOver is {shown(written)}; write how many times a percentile (p50, p90, p95 or p99), for example"
            " 3 x p95"
        )
    return TimesUsual(times=float(found[1]), share=int(found[2]) / 100)


def _pattern(written: object, info: ValidationInfo) -> object:
    if isinstance(written, str) and len(written) <= 128 and re.fullmatch(_PATTERN, written):  # noqa: PLR2004
        return written
    name = to_camel(info.field_name or "")
    example = {"schedule": "billing/*", "jobType": "send_*"}.get(name, "billing")
    raise refusal(f"{name} is {shown(written)}; write a name, in which * stands for any text, for example {example}")


def _that_a_schedule_matches(pattern: str) -> str:
    if _SCHEDULE.fullmatch(pattern):
        return pattern
    raise refusal(
        f"schedule is {shown(pattern)}, which no schedule matches; write its namespace and its name, for example"
        " billing/close-month or */close-month"
    )


def shown(value: object) -> str:
    """What a file has, in a message."""
    return shortened(f'"{value}"' if isinstance(value, str) else str(value))


def _local_time(written: object, info: ValidationInfo) -> object:
    found = _CLOCK.fullmatch(written) if isinstance(written, str) else None
    if found is None:
        name = "from" if info.field_name == "start" else info.field_name
        raise refusal(f'{name} is {shown(written)}; write a time of the day in quotes, for example "22:00"')
    return time(int(found[1]), int(found[2]))


LocalTime = Annotated[time, BeforeValidator(_local_time)]
Duration = Annotated[timedelta, BeforeValidator(_duration)]
NamePattern = Annotated[str, BeforeValidator(_pattern)]
SchedulePattern = Annotated[NamePattern, AfterValidator(_that_a_schedule_matches)]


class TimesUsual(Declared):
    """How many times a quantile of the durations: `3 x p95` is times=3, share=0.95."""

    times: float
    share: float


Times = Annotated[TimesUsual, BeforeValidator(_times_usual)]


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
