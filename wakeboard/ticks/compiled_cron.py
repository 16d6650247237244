"""The compiled form of a cron expression: its minutes, hours and days as bit masks, and their text in the database."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from wakeboard.errors import InvalidSchedule

LAST: Final = 0  # as the n of an nth weekday: the last one of the month

ALL_WEEKDAYS: Final = 0b111_1111
_EVERY_WEEK: Final = sum(1 << 7 * week for week in range(5))
_FORMAT: Final = "1"  # the first word of the text form: identifies the format


@dataclass(frozen=True, slots=True)
class CronFields:
    """The fields of a cron expression. Bit n of a mask stands for the value n; weekday 0 is Sunday.

    `nth_weekdays` holds (weekday, n) pairs for `FRI#2` and, with n = LAST, for `L5`. `either_day`:
    when both the day of the month and the weekday are restricted, a day matches if either does. `follows_real_time`:
    the hour is a wildcard, so the expression is an interval, not a time of the day.
    """

    minutes: int
    hours: int
    days: int
    months: int
    weekdays: int
    nth_weekdays: tuple[tuple[int, int], ...] = ()
    last_day: bool = False
    either_day: bool = False
    follows_real_time: bool = False

    def matching_days(self, first_weekday: int, length: int) -> int:
        """The days that match in a month of `length` days whose first is a `first_weekday`: bit 1 is the first."""
        days = self.days | (1 << length if self.last_day else 0)
        weekdays = self._days_by_weekday(first_weekday, length)
        matching = days | weekdays if self.either_day else days & weekdays
        return matching & _days_of_month(length)

    def _days_by_weekday(self, first_weekday: int, length: int) -> int:
        first_week = (self.weekdays | self.weekdays << 7) >> first_weekday & ALL_WEEKDAYS
        days = first_week * _EVERY_WEEK << 1
        for weekday, nth in self.nth_weekdays:
            days |= 1 << _nth_weekday(first_weekday, length, weekday, nth)
        return days

    def to_text(self) -> str:
        """A short text that `from_text` reads, the same for equal fields. The database stores it with the schedule."""
        masks = (self.minutes, self.hours, self.days, self.months, self.weekdays)
        nth = ",".join(f"{weekday}#{n}" for weekday, n in self.nth_weekdays)
        flags = "l" * self.last_day + "e" * self.either_day + "r" * self.follows_real_time
        return " ".join([_FORMAT, *(f"{mask:x}" for mask in masks), nth or "-", flags or "-"])

    @classmethod
    def from_text(cls, text: str) -> CronFields:
        """The fields of a text from `to_text`. Raises InvalidSchedule for any other text."""
        try:
            form, minutes, hours, days, months, weekdays, nth, flags = text.split(" ")
            if form != _FORMAT:
                raise ValueError(form)  # noqa: TRY301 - one way out for every unreadable text
            return cls(
                minutes=int(minutes, 16),
                hours=int(hours, 16),
                days=int(days, 16),
                months=int(months, 16),
                weekdays=int(weekdays, 16),
                nth_weekdays=() if nth == "-" else tuple(_nth_from_text(pair) for pair in nth.split(",")),
                last_day="l" in flags,
                either_day="e" in flags,
                follows_real_time="r" in flags,
            )
        except ValueError as error:
            raise InvalidSchedule(
                f'cron_fields "{text[:80]}" were not written by this version of wakeboard; apply the schedule again'
            ) from error


def _nth_from_text(pair: str) -> tuple[int, int]:
    weekday, nth = pair.split("#")
    return int(weekday), int(nth)


def _days_of_month(length: int) -> int:
    return (2 << length) - 2


def _nth_weekday(first_weekday: int, length: int, weekday: int, nth: int) -> int:
    """The day of the month that is the nth `weekday`; beyond the month's length when there is none."""
    first = 1 + (weekday - first_weekday) % 7
    return first + 7 * ((length - first) // 7 if nth == LAST else nth - 1)
