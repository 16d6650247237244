"""The grid of the calendar: a cell for each hour of the local clock and day, from the counts of single minutes."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from math import log
from typing import TYPE_CHECKING, Final

from wakeboard.text.humanize import counted
from wakeboard.ticks.tick_load import ClockChange, TickRule, clock_changes, minute_counts
from wakeboard.ticks.ticks import moment_of
from wakeboard.ticks.upcoming_ticks import local_time

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping, Sequence
    from datetime import datetime

    from wakeboard.board.pages.calendar_days import DaySegment

LEVELS: Final = 5
NAMES_IN_CELL: Final = 2
NOTABLE: Final = 1.5  # times: smaller differences have one colour


@dataclass(frozen=True, slots=True)
class Load:
    """The ticks of each minute from `begin` on (seconds since 1970), and the clock changes in this time."""

    begin: int
    counts: Sequence[int]
    changes: Sequence[ClockChange]


@dataclass(frozen=True, slots=True)
class MinuteBar:
    """A minute of a day that has ticks. `minute`: of its segment, from 0."""

    minute: int
    count: int
    level: int
    is_pile_up: bool
    at: datetime
    title: str


@dataclass(frozen=True, slots=True)
class Cell:
    """An hour of the local clock on one day. `segment` None: the clock jumps over this hour.

    `level`: 0 for no ticks, then 1 to 5. `peak`: the most ticks in one minute. `bars`: in the view of a day.
    `names`: of the schedules with ticks in it, if they are few and known.
    """

    segment: DaySegment | None
    count: int = 0
    level: int = 0
    peak: int = 0
    is_pile_up: bool = False
    is_past: bool = False
    changes: tuple[ClockChange, ...] = ()
    bars: tuple[MinuteBar, ...] = ()
    names: tuple[str, ...] = ()

    @property
    def at(self) -> datetime:
        """The first instant, for the link to its ticks."""
        assert self.segment is not None, "only a cell with time has a link"
        return moment_of(self.segment.start)

    @property
    def minutes(self) -> int:
        """The length in minutes."""
        return 0 if self.segment is None else (self.segment.end - self.segment.start) // 60


Rows = tuple[tuple[str, tuple[Cell, ...]], ...]  # for each hour its label and a cell for each day


def load_of(rules: Mapping[TickRule, int], begin: int, end: int) -> Load:
    """Counts the ticks of these rules from the instant `begin` to `end`."""
    return Load(begin, minute_counts(rules, begin, end), clock_changes(rules, begin, end))


def coming(load: Load, now: datetime) -> list[int]:
    """The ticks of each minute that are still to come; 0 for past minutes."""
    past = min(max((int(now.timestamp()) - load.begin) // 60 + 1, 0), len(load.counts))
    return [0] * past + list(load.counts[past:])


@dataclass(frozen=True, slots=True)
class Grid:
    """Makes cells. `counts`: of each minute from the beginning of `load`. `piled`: the places of pile-ups in it.

    `named`: schedules with the minutes of their ticks that are to come, as bits.
    """

    load: Load
    counts: Sequence[int]
    piled: Collection[int]
    now: int
    zone: str
    named: Sequence[tuple[str, int]] = ()

    def of_day(self, segments: Sequence[DaySegment]) -> Rows:
        """A row for each segment of a day, so that doubled hours come twice. Cells have bars."""
        hours, minutes = _scale(sum(self._minutes(segment)) for segment in segments), _scale(self.counts)
        return tuple((segment.label, (self._cell(segment, hours, minutes),)) for segment in segments)

    def of_week(self, days: Sequence[Sequence[DaySegment]]) -> Rows:
        """A row for each hour of the clock. An hour that comes twice on a day is one cell."""
        merged = [_by_hour(segments) for segments in days]
        cells = [segment for hours in merged for segment in hours.values()]
        # The colours do not depend on an hour that has partly passed: it looks emptier than it is.
        complete = [segment for segment in cells if segment.start > self.now]
        scale = _scale(sum(self._minutes(segment)) for segment in complete or cells)
        return tuple(
            (
                f"{hour:02}:00",
                tuple(self._cell(hours[hour], scale) if hour in hours else Cell(None) for hours in merged),
            )
            for hour in range(24)
        )

    def _minutes(self, segment: DaySegment) -> Sequence[int]:
        return self.counts[(segment.start - self.load.begin) // 60 : (segment.end - self.load.begin) // 60]

    def _cell(self, segment: DaySegment, scale: tuple[int, int], minute_scale: tuple[int, int] | None = None) -> Cell:
        first = (segment.start - self.load.begin) // 60
        minutes = self._minutes(segment)
        count = sum(minutes)
        changes = (change for change in self.load.changes if change.affected)
        bits = (1 << len(minutes)) - 1
        names = tuple(name for name, ticks in self.named if ticks >> first & bits)
        return Cell(
            segment,
            count,
            level_of(count, *scale),
            max(minutes, default=0),
            any(first + minute in self.piled for minute in range(len(minutes))),
            segment.end <= self.now,
            tuple(change for change in changes if segment.start <= int(change.at.timestamp()) < segment.end),
            () if minute_scale is None else self._bars(segment, minutes, minute_scale),
            names if len(names) <= NAMES_IN_CELL else (),
        )

    def _bars(self, segment: DaySegment, minutes: Sequence[int], scale: tuple[int, int]) -> tuple[MinuteBar, ...]:
        begin = local_time(self.zone, moment_of(segment.start))
        first = (segment.start - self.load.begin) // 60
        return tuple(
            MinuteBar(
                minute,
                count,
                level_of(count, *scale),
                first + minute in self.piled,
                moment_of(segment.start + 60 * minute),
                f"{begin + timedelta(minutes=minute):%H:%M}: {counted(count, 'tick')}",
            )
            for minute, count in enumerate(minutes)
            if count
        )


def level_of(count: int, least: int, most: int) -> int:
    """The level of a count on a logarithmic scale: 0 for none, else 1 to 5, from the least count to the highest one.

    Counts that hardly differ have the same calm level. A count below the least is of an hour that has partly passed.
    """
    if count == 0:
        return 0
    if most < NOTABLE * least:
        return 1 if NOTABLE * count < least else 2
    return 1 + round((LEVELS - 1) * log(min(max(count, least), most) / least) / log(most / least))


def _scale(counts: Iterable[int]) -> tuple[int, int]:
    """The least and the highest of the counts that are not 0."""
    found = [count for count in counts if count]
    return (min(found), max(found)) if found else (1, 1)


def _by_hour(segments: Sequence[DaySegment]) -> dict[int, DaySegment]:
    """One segment for each hour of the clock: an hour that comes twice is one of twice the length."""
    hours: dict[int, DaySegment] = {}
    for segment in segments:
        first = hours.get(segment.hour)
        hours[segment.hour] = segment if first is None else first.until(segment)
    return hours
