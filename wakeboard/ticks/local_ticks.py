"""Computes the local times that a cron expression matches, without a time zone and without clock changes.

Times are local seconds: what a local clock shows, counted since 1970-01-01T00:00 as if it were UTC. Days are counted
from the same date.
"""

from __future__ import annotations

from datetime import date
from functools import lru_cache
from typing import TYPE_CHECKING, Final

from wakeboard.ticks.repeated_bits import repeated

if TYPE_CHECKING:
    from wakeboard.ticks.compiled_cron import CronFields

_MINUTE: Final = 60  # seconds
_DAY: Final = 86_400  # seconds
_MINUTES_OF_DAY: Final = 1440
_FIRST_DAY: Final = date(1970, 1, 1).toordinal()
_FIRST_WEEKDAY: Final = 4  # 1970 began on a Thursday; Sunday is 0
_LENGTHS: Final = (0, 31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31)


class LocalTicks:
    """Finds and counts the local ticks of one cron expression. A tick is a whole minute."""

    __slots__ = ("_day_bits", "_days", "_fields", "_first_time", "_per_day", "_per_hour")

    def __init__(self, fields: CronFields) -> None:
        self._fields = fields
        self._per_hour = fields.minutes.bit_count()
        self._per_day = self._per_hour * fields.hours.bit_count()
        self._first_time = _lowest(fields.hours) * 60 + _lowest(fields.minutes)
        self._days: dict[tuple[int, int], int] = {}  # there are only 28 kinds of month
        self._day_bits: int | None = None

    def first(self, begin: int, end: int) -> int | None:
        """The first tick from `begin` on that is before `end`, or None."""
        today, minute = divmod(-(-begin // _MINUTE), _MINUTES_OF_DAY)
        day = self._day_from(today, end)
        time = self._time_from(minute) if day == today else self._first_time
        if time is None:
            day, time = self._day_from(today + 1, end), self._first_time
        if day is None:
            return None
        tick = day * _DAY + time * _MINUTE
        return tick if tick < end else None

    def count(self, begin: int, end: int) -> int:
        """How many ticks there are from `begin` on that are before `end`."""
        if begin >= end:
            return 0
        first_day, first_minute = divmod(-(-begin // _MINUTE), _MINUTES_OF_DAY)
        last_day, last_minute = divmod(-(-end // _MINUTE), _MINUTES_OF_DAY)
        whole_days = self._count_days(first_day, last_day) * self._per_day
        return whole_days - self._count_before(first_day, first_minute) + self._count_before(last_day, last_minute)

    def minutes(self, begin: int, end: int) -> int:
        """The ticks from `begin` on that are before `end`, as bits: bit n stands for the minute `begin` + n minutes.

        `begin` is a whole minute.
        """
        first_day, first_minute = divmod(begin // _MINUTE, _MINUTES_OF_DAY)
        length = -(-end // _MINUTE) - begin // _MINUTE
        if length <= 0:
            return 0
        until = (end - 1) // _DAY + 1
        bits = repeated(self._minutes_of_day(), _MINUTES_OF_DAY, until - first_day)
        return (bits & self._minutes_of_days(first_day, until)) >> first_minute & (1 << length) - 1

    def includes(self, local: int) -> bool:
        """Whether `local` is a tick."""
        return self.first(local, local + 1) is not None

    def _day_from(self, day: int, end: int) -> int | None:
        """The first matching day from `day` on; None when it would not begin before `end`."""
        while day * _DAY < end:
            first, length, matching = self._month(day)
            if later := matching >> (day - first + 1):
                return day + _lowest(later)
            day = first + length
        return None

    def _time_from(self, minute_of_day: int) -> int | None:
        """The first minute of a matching day from `minute_of_day` on, or None."""
        hour, minute = divmod(minute_of_day, 60)
        if self._fields.hours >> hour & 1 and (later := self._fields.minutes >> minute):
            return minute_of_day + _lowest(later)
        if later := self._fields.hours >> (hour + 1):
            return (hour + 1 + _lowest(later)) * 60 + self._first_time % 60
        return None

    def _minutes_of_day(self) -> int:
        """The ticks of a matching day as bits: bit n stands for its minute n."""
        if self._day_bits is None:
            hours = self._fields.hours
            self._day_bits = sum(self._fields.minutes << 60 * hour for hour in range(24) if hours >> hour & 1)
        return self._day_bits

    def _minutes_of_days(self, begin: int, end: int) -> int:
        """All minutes of the matching days from the day `begin` on that are before `end`."""
        bits, day = 0, begin
        while day < end:
            first, length, matching = self._month(day)
            following = min(first + length, end)
            days = matching >> (day - first + 1) & (1 << following - day) - 1
            bits |= _whole_days(days) << (day - begin) * _MINUTES_OF_DAY
            day = following
        return bits

    def _count_days(self, begin: int, end: int) -> int:
        count = 0
        while begin < end:
            first, length, matching = self._month(begin)
            following = min(first + length, end)
            count += (matching >> (begin - first + 1) & (1 << (following - begin)) - 1).bit_count()
            begin = following
        return count

    def _count_before(self, day: int, minute_of_day: int) -> int:
        """The ticks of `day` that come before `minute_of_day`."""
        first, _, matching = self._month(day)
        if not matching >> (day - first + 1) & 1:
            return 0
        hour, minute = divmod(minute_of_day, 60)
        count = (self._fields.hours & (1 << hour) - 1).bit_count() * self._per_hour
        if self._fields.hours >> hour & 1:
            count += (self._fields.minutes & (1 << minute) - 1).bit_count()
        return count

    def _month(self, day: int) -> tuple[int, int, int]:
        """Of the month that holds `day`: its first day, its length, and the mask of its matching days (bit 1 first)."""
        calendar_day = date.fromordinal(day + _FIRST_DAY)
        month = calendar_day.month
        length = _LENGTHS[month] + (month == 2 and _is_leap(calendar_day.year))  # noqa: PLR2004 - February
        first = day - calendar_day.day + 1
        if not self._fields.months >> month & 1:
            return first, length, 0
        kind = ((first + _FIRST_WEEKDAY) % 7, length)
        days = self._days.get(kind)
        if days is None:
            days = self._days[kind] = self._fields.matching_days(*kind)
        return first, length, days


@lru_cache(maxsize=1024)
def _whole_days(days: int) -> int:
    """For each bit n all minutes of day n."""
    whole = (1 << _MINUTES_OF_DAY) - 1
    return sum(whole << day * _MINUTES_OF_DAY for day in range(days.bit_length()) if days >> day & 1)


def _lowest(mask: int) -> int:
    """The number of the lowest bit that is set."""
    return (mask & -mask).bit_length() - 1


def _is_leap(year: int) -> bool:
    return year % 4 == 0 and (year % 100 != 0 or year % 400 == 0)
