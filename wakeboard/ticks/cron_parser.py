"""Parses a cron expression into `CronFields`.

croniter expands the fields. The result is stored as text with the schedule, so a worker imports croniter only to
compile a schedule of an application, and an upgrade of croniter never changes an existing schedule.

This module checks and rewrites each field before croniter sees it, for two reasons. Errors can say what to write
instead. And expressions that croniter interprets differently from cron are refused or rewritten: `5-5` is the whole
field for croniter, and `FRI-MON` wraps around. Where implementations of cron differ, this one follows the Kubernetes
CronJob.
"""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Final, cast

from wakeboard.errors import InvalidSchedule
from wakeboard.text.sanitize import shortened
from wakeboard.ticks.compiled_cron import LAST, CronFields

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

_SHOWN: Final = 100  # characters of an invalid expression
_EXAMPLE: Final = '"0 8 * * MON"'
_MACROS: Final = {
    "@HOURLY": "0 * * * *",
    "@DAILY": "0 0 * * *",
    "@MIDNIGHT": "0 0 * * *",
    "@WEEKLY": "0 0 * * 0",
    "@MONTHLY": "0 0 1 * *",
    "@YEARLY": "0 0 1 1 *",
    "@ANNUALLY": "0 0 1 1 *",
}
_MONTHS: Final = ("JAN", "FEB", "MAR", "APR", "MAY", "JUN", "JUL", "AUG", "SEP", "OCT", "NOV", "DEC")
_WEEKDAYS: Final = ("SUN", "MON", "TUE", "WED", "THU", "FRI", "SAT")

_SPAN: Final = re.compile(r"(\*|([0-9]{1,2}|[A-Z]{3})(?:-([0-9]{1,2}|[A-Z]{3}))?)(?:/([0-9]{1,2}))?")
_HASHED: Final = re.compile(r"H(?:\(([0-9]{1,2})-([0-9]{1,2})\))?(?:/([0-9]{1,2}))?")
_NTH_WEEKDAY: Final = re.compile(r"([0-7]|[A-Z]{3})#([1-5])")
_LAST_WEEKDAY: Final = re.compile(r"L([0-7])")
_ZONE_PREFIX: Final = re.compile(r"(?:CRON_)?TZ=(\S*)[ \t]*(.*)", re.IGNORECASE)


def parse_cron(expression: str, *, name: str) -> CronFields:
    """Parse five fields, or a short form: `@hourly @daily @midnight @weekly @monthly @yearly @annually`.

    `H` is a value that depends only on `name` ("namespace/name" of the schedule) and spreads schedules over
    the field: `H`, `H/15`, `H(1-10)`. As a day of the month it is within 1-28, which every month has.

    Raises InvalidSchedule, in one sentence with a valid example, also for ranges that run backwards and for days that
    never come.
    """
    return _parse(expression, _name_of_hash(expression, name))


def cron_text(expression: str, *, name: str) -> str:
    """As `parse_cron`, in the text form that the database stores."""
    return _text(expression, _name_of_hash(expression, name))


def _name_of_hash(expression: str, name: str) -> str:
    return name if "h" in expression.lower() else ""  # without H the result does not depend on the name


@lru_cache(maxsize=16_384)  # one for each name of a schedule with H
def _text(expression: str, name: str) -> str:
    return _parse(expression, name).to_text()


@lru_cache(maxsize=4096)
def _parse(expression: str, name: str) -> CronFields:
    try:
        texts = _split(expression)
        resolved = tuple(field.resolve_hash(text, name) for field, text in zip(_FIELDS, texts, strict=True))
        return _without_hash(resolved, every_hour=texts[1].startswith(("*", "H/")))
    except _CronError as error:
        message = f'schedule "{shortened(expression, _SHOWN)}" {error.complaint}; write for example {error.example}'
        raise InvalidSchedule(message) from None


@lru_cache(maxsize=4096)  # H has few values: many names share them
def _without_hash(texts: tuple[str, ...], *, every_hour: bool) -> CronFields:
    fields = [field.rewrite(text) for field, text in zip(_FIELDS, texts, strict=True)]
    return _check_ever_due(_compile(fields, every_hour=every_hour))


class _CronError(Exception):
    """Why an expression is invalid, as the rest of a sentence, and what to write instead."""

    def __init__(self, complaint: str, example: str) -> None:
        super().__init__(complaint, example)
        self.complaint = complaint
        self.example = example


def _split(expression: str) -> list[str]:
    """The five fields of `expression` in upper case, with short forms expanded."""
    bare = expression.strip(" \t\n")
    if prefix := _ZONE_PREFIX.fullmatch(bare):
        raise _CronError("names a time zone", f'"{prefix[2] or "0 8 * * MON"}" and timeZone: {prefix[1] or "Etc/UTC"}')
    upper = bare.upper() if bare.isascii() else bare
    if upper.startswith(("@EVERY", "EVERY ")):
        raise _CronError("is an interval, not a cron expression", '"*/5 * * * *", or every: 5m in place of it')
    if upper.startswith("AT "):
        raise _CronError(
            "is a moment, not a cron expression", f"{_EXAMPLE}, or at: 2027-01-04T08:00:00Z in place of it"
        )
    if upper.startswith("@") and upper not in _MACROS:
        raise _CronError("is not one of the short forms", '"@hourly", "@daily", "@weekly", "@monthly" or "@yearly"')
    if not upper:
        raise _CronError("is empty", f"{_EXAMPLE}, or leave it out to run only on demand")
    fields = re.split(r"[ \t]+", _MACROS.get(upper, upper))
    if len(fields) != len(_FIELDS):
        count = f"{len(fields)} field{'s' if len(fields) > 1 else ''}"
        raise _CronError(f"has {count}, not five (minute, hour, day of the month, month, day of the week)", _EXAMPLE)
    return fields


@dataclass(frozen=True)
class _Field:
    """One of the five fields: checks it and rewrites it for croniter."""

    noun: str
    low: int
    high: int
    spread_to: int  # the highest value of H: days stay within those that every month has
    example: str
    names: tuple[str, ...] = ()

    def resolve_hash(self, text: str, name: str) -> str:
        """`text` with H replaced by the value (or the first value and the steps) that `name` always gets."""
        if not text.startswith("H"):
            return text
        hashed = _HASHED.fullmatch(text)
        if hashed is None:
            raise self._refused(text, "is not understood (H must be alone in its field)", '"H", "H/15" or "H(1-10)"')
        low, high, step = hashed.groups()
        self._check_step(text, step)
        begin, end = (self.low, self.spread_to) if low is None else (self._value(text, low), self._value(text, high))
        if begin > end:
            raise self._refused(text, "runs backwards", f'"H({self.low}-{self.spread_to})"')
        choices = end - begin + 1 if step is None else min(int(step), end - begin + 1)
        value = begin + self._hash(name) % choices
        return f"{value}-{end}/{step}" if step else str(value)

    def rewrite(self, text: str) -> str:
        """The field in plain numbers, with Sunday as 0, or "*" when it restricts nothing."""
        parts = [self.rewrite_part(part) for part in text.split(",")]
        return "*" if "*" in parts else ",".join(parts)

    def rewrite_part(self, part: str) -> str:
        """One element of the field's list."""
        span = _SPAN.fullmatch(part)
        if span is None:
            raise self._refused(part, "is not understood")
        whole, low, high, step = span.groups()
        self._check_step(part, step)
        if whole == "*":
            return "*" if step in (None, "1", "01") else part
        start = self._value(part, low)
        if high is None or low == high:
            return self._stepped(str(start), step if high is None else None)
        return self._stepped(f"{start}-{self._range_end(part, low, high)}", step)

    def _stepped(self, span: str, step: str | None) -> str:
        return f"{span}/{step}" if step else span

    def _range_end(self, part: str, low: str, high: str) -> int:
        start, end = self._value(part, low), self._value(part, high)
        if start > end:
            top, bottom = (self.names[-1], self.names[0]) if low in self.names else (str(self.high), str(self.low))
            ends = [low if low == top else f"{low}-{top}", high if high == bottom else f"{bottom}-{high}"]
            raise self._refused(part, "runs backwards", f'"{",".join(ends)}"')
        return end

    def _value(self, part: str, text: str) -> int:
        if text.isdigit():
            value = int(text)
        elif text in self.names:
            value = self.names.index(text) + self.low
        else:
            raise self._refused(part, "is not understood")
        if not self.low <= value <= self.high:
            raise self._refused(part, f"is not within {self.low}-{self.high}")
        return value

    def _check_step(self, part: str, step: str | None) -> None:
        longest = len(self.names) or self.high - self.low + 1
        if step is not None and not 1 <= int(step) <= longest:
            raise self._refused(part, f"steps by {int(step)}, not by 1-{longest}")

    def _hash(self, name: str) -> int:
        """A separate hash for each field. With croniter's own, `H H` reaches only 240 of the 1,440 minutes of a day."""
        return int.from_bytes(hashlib.sha256(f"{self.noun} of {name}".encode()).digest()[:8])

    def _refused(self, part: str, complaint: str, example: str = "") -> _CronError:
        return _CronError(f'has the {self.noun} "{shortened(part, 40)}", which {complaint}', example or self.example)


class _DayField(_Field):
    """The day of the month: also `L`, the last one."""

    def rewrite_part(self, part: str) -> str:
        return "l" if part == "L" else super().rewrite_part(part)


class _WeekdayField(_Field):
    """The day of the week: also the nth one (`FRI#2`) and the last one of a month (`L5`); 7 is Sunday, as 0 is."""

    def rewrite(self, text: str) -> str:
        rewritten = super().rewrite(text)
        counted = ["#" in part or part.startswith("L") for part in text.split(",")]
        if any(counted) and not all(counted):
            raise self._refused(text, "mixes plain days with counted ones", '"FRI#2", or two schedules')
        return rewritten

    def rewrite_part(self, part: str) -> str:
        if nth := _NTH_WEEKDAY.fullmatch(part):
            return f"{self._value(part, nth[1]) % 7}#{nth[2]}"
        if last := _LAST_WEEKDAY.fullmatch(part):
            return f"l{int(last[1]) % 7}"
        rewritten = super().rewrite_part(part)
        return rewritten.replace("7", "0", 1) if rewritten.startswith("7") else rewritten

    def _range_end(self, part: str, low: str, high: str) -> int:
        """A range that ends with SUN ends with the 7 that is Sunday."""
        return 7 if high == "SUN" else super()._range_end(part, low, high)


_FIELDS: Final = (
    _Field("minute", 0, 59, 59, '"0", "*/15" or "H"'),
    _Field("hour", 0, 23, 23, '"8", "9-17" or "*/2"'),
    _DayField("day of the month", 1, 31, 28, '"1", "1,15" or "L" for the last'),
    _Field("month", 1, 12, 12, '"1", "JAN-MAR" or "*/3"', _MONTHS),
    _WeekdayField(
        "day of the week", 0, 7, 6, '"MON-FRI", "FRI#2" for the second or "L5" for the last Friday', _WEEKDAYS
    ),
)


def _compile(fields: Sequence[str], *, every_hour: bool) -> CronFields:
    # Imported here so that a worker, which only reads compiled fields, starts without it.
    from croniter import CroniterError, croniter

    try:
        (minutes, hours, days, months, weekdays), counted = croniter.expand(" ".join(fields))
    except CroniterError:
        raise _CronError("is not understood", _EXAMPLE) from None
    # Contrary to its stubs, the keys are weekdays, and the values numbers or "l" for the last.
    nth_weekdays = [(day, n) for day, ns in cast("dict[int, set[int | str]]", counted).items() for n in ns]
    _, _, day_text, _, weekday_text = fields
    compiled_hours = _mask(hours, 0, 23)
    return CronFields(
        minutes=_mask(minutes, 0, 59),
        hours=compiled_hours,
        days=_mask(days, 1, 31),
        months=_mask(months, 1, 12),
        weekdays=0 if nth_weekdays else _mask(weekdays, 0, 6),
        nth_weekdays=tuple(sorted((day, n if isinstance(n, int) else LAST) for day, n in nth_weekdays)),
        last_day="l" in days,
        either_day=day_text != "*" and weekday_text != "*",
        follows_real_time=every_hour or compiled_hours == _mask("*", 0, 23),
    )


def _mask(values: Iterable[int | str], low: int, high: int) -> int:
    numbers = range(low, high + 1) if "*" in values else [value for value in values if isinstance(value, int)]
    return sum(1 << number for number in set(numbers))


def _check_ever_due(fields: CronFields) -> CronFields:
    """Returns the fields if some month of some year has a matching day. Raises _CronError otherwise."""
    if any(
        fields.months >> month & 1 and fields.matching_days(first_weekday, length)
        for month in range(1, 13)
        for length in _lengths(month)
        for first_weekday in range(7)
    ):
        return fields
    month = next(month for month in range(1, 13) if fields.months >> month & 1)
    raise _CronError("names days that its months do not have, so it would never run", f'"0 0 L {month} *"')


def _lengths(month: int) -> tuple[int, ...]:
    february, short_months = 2, (4, 6, 9, 11)
    return (28, 29) if month == february else (30,) if month in short_months else (31,)
