"""Splits local days into segments of at most an hour of the local clock, also where the clock changes.

A day has 23 to 25 hours, so the hours of the clock are not those of real time. A segment lies within one hour of the
local clock and within one period of the zone. The segments of a day cover it completely and do not overlap.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import date, timedelta
from itertools import takewhile
from typing import TYPE_CHECKING, Final

from wakeboard.ticks.zones import periods_from

if TYPE_CHECKING:
    from collections.abc import Iterator

    from wakeboard.ticks.zones import Period

_HOUR: Final = 3600  # seconds
_DAY: Final = 86_400  # seconds
_FARTHEST: Final = 26 * _HOUR  # the largest distance from UTC, and the time of a clock change
_EPOCH: Final = date(1970, 1, 1)


@dataclass(frozen=True, slots=True)
class DaySegment:
    """A part of an hour of the local clock, from the instant `start` to `end` (seconds since 1970).

    `local`: what the local clock shows at `start`, in seconds since 1970-01-01T00:00. `is_second`: the clock has shown
    these times before on this day. `follows_gap`: the clock has jumped ahead to `local`.
    """

    start: int
    end: int
    local: int
    is_second: bool = False
    follows_gap: bool = False

    @property
    def hour(self) -> int:
        """The hour that the local clock shows."""
        return self.local % _DAY // _HOUR

    @property
    def label(self) -> str:
        """The time that the local clock shows at the start."""
        return f"{self.hour:02}:{self.local % _HOUR // 60:02}"

    @property
    def is_changed(self) -> bool:
        """Whether a clock change begins it."""
        return self.is_second or self.follows_gap

    def until(self, later: DaySegment) -> DaySegment:
        """This segment and a later one of the same hour together."""
        return replace(
            self,
            end=later.end,
            is_second=self.is_second or later.is_second,
            follows_gap=self.follows_gap or later.follows_gap,
        )


def days_of(first: date, count: int, last: date) -> list[date]:
    """`count` days from `first` on, up to `last`."""
    return [day for day in (first + timedelta(days=offset) for offset in range(count)) if day <= last]


def segments_of(zone: str, day: date) -> list[DaySegment]:
    """The segments of a local day, in order. Empty for a day that the zone has left out."""
    begin = (day - _EPOCH).days * _DAY
    segments: list[DaySegment] = []
    for period in takewhile(
        lambda period: period.start < begin + _DAY + _FARTHEST, periods_from(zone, begin - _FARTHEST)
    ):
        for segment in _of_period(period, begin):
            previous = segments[-1] if segments else None
            if previous and previous.hour == segment.hour and not segment.is_changed and previous.end == segment.start:
                segments[-1] = previous.until(segment)  # a period also ends with its year
            else:
                segments.append(segment)
    return segments


def _of_period(period: Period, begin: int) -> Iterator[DaySegment]:
    local = max(period.local_start, begin)
    while local < min(period.local_end, begin + _DAY):
        end = min(local - local % _HOUR + _HOUR, period.local_end, begin + _DAY)
        yield DaySegment(
            local - period.offset,
            end - period.offset,
            local,
            is_second=local < period.shown_until,
            follows_gap=local == period.local_start > period.shown_until,
        )
        local = end
