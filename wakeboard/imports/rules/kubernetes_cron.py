"""When a Kubernetes CronJob is due, computed apart from wakeboard's own ticks.

The CronJob controller uses the Go package robfig/cron 3.0.1. This module follows its grammar and its order of search:
the month, then the day, the hour, the minute and the second. Where a clock change makes that search miss or shift a
tick, so does this module. `wakeboard import --check` compares the result with the ticks of a JobSchedule, so this
module shares no code with them but the zone data. tests/imports/robfig_ticks.json holds ticks that robfig/cron
computed.

Times are whole seconds since 1970 UTC ("instant").
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from typing import TYPE_CHECKING, Final

from wakeboard.errors import InvalidSchedule
from wakeboard.ticks.zones import zone_info

if TYPE_CHECKING:
    from collections.abc import Callable
    from zoneinfo import ZoneInfo

_DAY: Final = timedelta(days=1)
_HOUR: Final = 3600  # seconds
_MINUTE: Final = 60  # seconds
_NOON: Final = 12
_DECEMBER: Final = 12
_YEARS: Final = 5  # robfig/cron gives up after as many
_SHOWN: Final = 100  # characters of an invalid expression
SHORT_FORMS: Final = {
    "@yearly": "0 0 1 1 *",
    "@annually": "0 0 1 1 *",
    "@monthly": "0 0 1 * *",
    "@weekly": "0 0 * * 0",
    "@daily": "0 0 * * *",
    "@midnight": "0 0 * * *",
    "@hourly": "0 * * * *",
}
MONTHS: Final = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
WEEKDAYS: Final = ("sun", "mon", "tue", "wed", "thu", "fri", "sat")
_DURATION: Final = re.compile(r"(?:([0-9]{1,9})h)?(?:([0-9]{1,9})m)?(?:([0-9]{1,9})s)?")
_NUMBER: Final = re.compile(r"\+?[0-9]{1,9}")


@dataclass(frozen=True, slots=True)
class KubernetesCron:
    """A parsed expression. Bit n of a mask stands for the value n; weekday 0 is Sunday.

    `both_days`: a day must match the day of the month and the weekday; otherwise one of them is enough.
    `every_s`: the seconds of `@every`, which counts from the tick before and has no masks; else None.
    """

    minutes: int = 0
    hours: int = 0
    days: int = 0
    months: int = 0
    weekdays: int = 0
    both_days: bool = True
    every_s: int | None = None


@dataclass(frozen=True, slots=True)
class CronField:
    """A field of an expression: its name in messages, and its values. Names stand for the values from `low` on."""

    noun: str
    low: int
    high: int
    names: tuple[str, ...] = ()


class _Field(CronField):
    __slots__ = ()

    def mask(self, text: str) -> tuple[int, bool]:
        """The values of a comma-separated list, and whether one of its parts is a star."""
        mask, star = 0, False
        for part in filter(None, text.split(",")):
            values, is_star = self._part(part)
            mask |= sum(1 << value for value in values)
            star |= is_star
        return mask, star

    def _part(self, part: str) -> tuple[range, bool]:
        span, *steps = part.split("/")
        ends = span.split("-")
        is_star = ends[0] in {"*", "?"}
        if len(steps) > 1 or (len(ends) > 2 and not is_star):  # noqa: PLR2004 - a range has two ends
            raise _Refused(f'has the {self.noun} "{part[:40]}", which is not understood')
        step = self._number(steps[0]) if steps else 1
        first = self.low if is_star else self._value(ends[0])
        last = self.high if is_star or (steps and len(ends) == 1) else self._value(ends[-1])
        if not self.low <= first <= last <= self.high:
            raise _Refused(f'has the {self.noun} "{part[:40]}", which is not a range within {self.low}-{self.high}')
        if step == 0:
            raise _Refused(f'has the {self.noun} "{part[:40]}", which steps by 0')
        return range(first, last + 1, step), is_star and step == 1

    def _value(self, text: str) -> int:
        name = text.lower()
        return self.names.index(name) + self.low if name in self.names else self._number(text)

    def _number(self, text: str) -> int:
        if not _NUMBER.fullmatch(text):
            raise _Refused(f'has the {self.noun} "{text[:40]}", which is not a number')
        return int(text)


FIELDS: Final = (
    _Field("minute", 0, 59),
    _Field("hour", 0, 23),
    _Field("day of the month", 1, 31),
    _Field("month", 1, 12, MONTHS),
    _Field("day of the week", 0, 6, WEEKDAYS),
)


class _Refused(Exception):
    """Why an expression is invalid, as the rest of a sentence."""


def zone_prefix(schedule: str) -> tuple[str | None, str]:
    """The zone of a prefix `TZ=` or `CRON_TZ=`, or None, and the expression behind it."""
    if not schedule.startswith(("TZ=", "CRON_TZ=")):
        return None, schedule
    prefix, _, expression = schedule.partition(" ")
    return prefix.partition("=")[2], expression.strip()


@lru_cache(maxsize=4096)
def parse_kubernetes_cron(expression: str) -> KubernetesCron:
    """Parses an expression without a zone. Raises InvalidSchedule for one that Kubernetes refuses, too."""
    try:
        if expression.startswith("@every "):
            return KubernetesCron(every_s=_duration(expression.removeprefix("@every ")))
        if expression.startswith("@") and expression not in SHORT_FORMS:
            raise _Refused("is not a known short form")  # noqa: TRY301 - one way out for every refusal
        texts = SHORT_FORMS.get(expression, expression).split()
        if len(texts) != len(FIELDS):
            raise _Refused(f"has {len(texts)} fields, not five")  # noqa: TRY301
        return _parsed(texts)
    except _Refused as error:
        raise InvalidSchedule(f'schedule "{expression[:_SHOWN]}" {error}') from None


def _parsed(texts: list[str]) -> KubernetesCron:
    masks, stars = zip(*(field.mask(text) for field, text in zip(FIELDS, texts, strict=True)), strict=True)
    minutes, hours, days, months, weekdays = masks
    return KubernetesCron(minutes, hours, days, months, weekdays, stars[2] or stars[4])


def _duration(text: str) -> int:
    """A Go duration in seconds, at least one; fractions and other units are refused."""
    found = _DURATION.fullmatch(text.strip())
    if found is None or not text.strip():
        raise _Refused("has an interval that is not understood")
    hours, minutes, seconds = (int(part or 0) for part in found.groups())
    return max(1, hours * _HOUR + minutes * _MINUTE + seconds)


def next_kubernetes_tick(cron: KubernetesCron, zone: str, after: datetime) -> datetime | None:
    """The first tick strictly after `after`; None when there is none within five years.

    Raises InvalidSchedule for a zone that the zone data does not have.
    """
    instant = int(after.timestamp() // 1)
    if cron.every_s is not None:
        return datetime.fromtimestamp(instant + cron.every_s, UTC)
    search = _Search(cron, zone_info(zone), instant + 1)
    if not (cron.minutes and cron.hours and cron.months):  # a field of commas: never due
        return None
    steps: tuple[Callable[[], bool], ...] = (
        search.to_month,
        search.to_day,
        search.to_hour,
        search.to_minute,
        search.to_second,
    )
    last_year = search.local.year + _YEARS
    while search.local.year <= last_year:
        if not any(step() for step in steps):  # a step that returns True has left its month, day, hour or minute
            return datetime.fromtimestamp(search.instant, UTC)
    return None


def kubernetes_ticks(cron: KubernetesCron, zone: str, after: datetime, count: int) -> list[datetime]:
    """The next `count` ticks after `after`, in UTC; fewer when they end."""
    ticks: list[datetime] = []
    while len(ticks) < count and (tick := next_kubernetes_tick(cron, zone, ticks[-1] if ticks else after)) is not None:
        ticks.append(tick)
    return ticks


class _Search:
    """A moment that only moves ahead, from one candidate to the next."""

    def __init__(self, cron: KubernetesCron, zone: ZoneInfo, instant: int) -> None:
        self._cron, self._zone = cron, zone
        self._moved = False
        self._go(instant)

    def to_month(self) -> bool:
        while not self._cron.months >> self.local.month & 1:
            self._start(day=1, hour=0, minute=0, second=0)
            january = self.local.month == _DECEMBER
            year, month = (self.local.year + 1, 1) if january else (self.local.year, self.local.month + 1)
            self._show(self.local.replace(year=year, month=month, day=1) + _DAY * (self.local.day - 1))
            if self.local.month == 1:
                return True
        return False

    def to_day(self) -> bool:
        while not self._day_matches():
            self._start(hour=0, minute=0, second=0)
            self._show(self.local + _DAY)
            if self.local.hour > _NOON:  # midnight was skipped: the clock shows the hour before it
                self._go(self.instant + (24 - self.local.hour) * _HOUR)
            elif self.local.hour:  # or the hour after it
                self._go(self.instant - self.local.hour * _HOUR)
            if self.local.day == 1:
                return True
        return False

    def to_hour(self) -> bool:
        while not self._cron.hours >> self.local.hour & 1:
            self._start(minute=0, second=0)
            self._go(self.instant + _HOUR)
            if self.local.hour == 0:
                return True
        return False

    def to_minute(self) -> bool:
        while not self._cron.minutes >> self.local.minute & 1:
            self._truncate()
            self._go(self.instant + _MINUTE)
            if self.local.minute == 0:
                return True
        return False

    def to_second(self) -> bool:
        if self.local.second == 0:
            return False
        self._moved = True
        self._go(self.instant + _MINUTE - self.local.second)
        return True

    def _day_matches(self) -> bool:
        of_month = self._cron.days >> self.local.day & 1
        of_week = self._cron.weekdays >> self.local.isoweekday() % 7 & 1
        return bool(of_month and of_week if self._cron.both_days else of_month or of_week)

    def _start(self, **parts: int) -> None:
        """Sets the smaller parts of the clock to their lowest values, before the first move only."""
        if not self._moved:
            self._moved = True
            self._show(self.local.replace(**parts))  # pyright: ignore[reportArgumentType]

    def _truncate(self) -> None:
        if not self._moved:
            self._moved = True
            self._go(self.instant - self.instant % _MINUTE)

    def _go(self, instant: int) -> None:
        self.instant = instant
        self.local = datetime.fromtimestamp(instant, self._zone).replace(tzinfo=None, fold=0)

    def _show(self, local: datetime) -> None:
        """Goes to the moment when the clock shows `local`; for one that it shows never or twice, as Go's time.Date."""
        as_if_utc = int(local.replace(tzinfo=UTC).timestamp())
        offset = self._offset(as_if_utc)
        self._go(as_if_utc - (self._offset(as_if_utc - offset) if offset else 0))

    def _offset(self, instant: int) -> int:
        offset = datetime.fromtimestamp(instant, self._zone).utcoffset()
        assert offset is not None, "ZoneInfo always has an offset"
        return int(offset.total_seconds())
