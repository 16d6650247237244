"""Computes the ticks of a schedule from its cron fields and time zone, with the rules for daylight saving time (DST).

A cron expression describes local times. A zone is a sequence of periods with a constant UTC offset
(`wakeboard.ticks.zones`). `wakeboard.ticks.local_ticks` finds the ticks within a period, and subtracting the offset
converts them to UTC. This module decides what happens between two periods, for expressions with fixed hours:

- **Gap**: the clock jumps ahead. The ticks in the gap are dropped (Skip), or become one tick at the first instant after
  the gap (RunAfter).
- **Overlap**: the clock goes back, so local times occur twice. A tick runs the first time (First) or both times (Both).

An expression whose hour is a wildcard follows real time: it ticks whenever the local time matches. That is Skip with
Both. Two ticks at the same instant are one tick.

The functions are pure: the current time is an argument. Internally, times are whole seconds since 1970, either in UTC
("instant") or as the local clock shows them ("local").
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from typing import TYPE_CHECKING, Final, Literal

from wakeboard.ticks.compiled_cron import CronFields
from wakeboard.ticks.local_ticks import LocalTicks
from wakeboard.ticks.zones import periods_from

if TYPE_CHECKING:
    from wakeboard.ticks.zones import Period

Gap = Literal["Skip", "RunAfter"]
Overlap = Literal["First", "Both"]

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_SECONDS_OF_DAY: Final = 86_400


@dataclass(frozen=True, slots=True)
class Missed:
    """The ticks of an interval: the newest ones in full, the older ones as a count with the first and the last."""

    ticks: tuple[datetime, ...]
    skipped: int
    skipped_first: datetime | None
    skipped_last: datetime | None


@lru_cache(maxsize=16_384)
def dst_ticks_for(cron_fields: str, zone: str, gap: Gap, overlap: Overlap) -> DstTicks:
    """The ticks of a stored schedule, cached by its arguments.

    Raises InvalidSchedule when the text is not one of `CronFields.to_text` or the zone is not known.
    """
    return DstTicks(CronFields.from_text(cron_fields), zone, gap, overlap)


class DstTicks:
    """All ticks of one schedule. Arguments are aware datetimes; results are in UTC.

    `gap` and `overlap` are the effective rules: an expression that follows real time always has Skip and Both.
    """

    __slots__ = ("fields", "gap", "local_ticks", "overlap", "zone")

    def __init__(self, fields: CronFields, zone: str, gap: Gap, overlap: Overlap) -> None:
        self.fields = fields
        self.zone = zone
        self.gap: Gap = "Skip" if fields.follows_real_time else gap
        self.overlap: Overlap = "Both" if fields.follows_real_time else overlap
        self.local_ticks = LocalTicks(fields)

    def next_tick(self, after: datetime) -> datetime | None:
        """The first tick strictly after `after`; None when there is none before the year 9999."""
        tick = self._first_from(second_after(after))
        return None if tick is None else moment_of(tick)

    def upcoming(self, after: datetime, n: int) -> list[datetime]:
        """The next `n` ticks strictly after `after`, in order; fewer only before the year 9999."""
        ticks: list[datetime] = []
        begin = second_after(after)
        while len(ticks) < n and (tick := self._first_from(begin)) is not None:
            ticks.append(moment_of(tick))
            begin = tick + 1
        return ticks

    def missed(self, after: datetime, until: datetime, newest: int) -> Missed:
        """The ticks after `after`, up to and including `until`: the `newest` ones in order, those before them counted.

        Takes milliseconds even after years of outage: only the listed ticks are computed, others are counted by day.
        """
        begin, end = second_after(after), second_after(until)
        count = self._count(begin, end)
        if count <= newest:
            return Missed(tuple(self.upcoming(after, count)), 0, None, None)
        first, last = self._first_from(begin), self._last_but(newest, begin, end)
        assert first is not None, "count > newest, so there is a first tick"
        return Missed(tuple(self.upcoming(moment_of(last), newest)), count - newest, moment_of(first), moment_of(last))

    def minutes(self, begin: int, end: int) -> int:
        """The ticks from the instant `begin` on that are before `end`, as bits: bit n stands for `begin` + n minutes.

        Takes microseconds for a week, however many ticks it has. `begin` and the clock changes in the zone must be
        whole minutes, as in all zones since 1972.
        """
        bits = 0
        for period in periods_from(self.zone, begin):
            if period.start >= end:
                break
            start, stop = max(begin, period.start), min(end, period.end)
            local = self._local_begin(period, start)
            bits |= self.local_ticks.minutes(local, stop + period.offset) << (local - period.offset - begin) // 60
            if start == period.start and self.ticks_after_gap(period):
                bits |= 1 << (start - begin) // 60
        return bits

    def ticks_after_gap(self, period: Period) -> bool:
        """Whether the first instant of `period` is a tick that replaces those in the gap before it."""
        return (
            self.gap == "RunAfter"
            and period.shown_until < period.local_start
            and self.local_ticks.first(period.shown_until, period.local_start) is not None
        )

    def _first_from(self, begin: int) -> int | None:
        """The first tick from the instant `begin` on."""
        for period in periods_from(self.zone, begin):
            start = max(begin, period.start)
            if start == period.start and self.ticks_after_gap(period):
                return start
            tick = self.local_ticks.first(self._local_begin(period, start), period.local_end)
            if tick is not None:
                return tick - period.offset
        return None

    def _count(self, begin: int, end: int) -> int:
        """How many ticks there are from the instant `begin` on that are before `end`."""
        count = 0
        for period in periods_from(self.zone, begin):
            if period.start >= end:
                break
            start, stop = max(begin, period.start), min(end, period.end)
            count += self.local_ticks.count(self._local_begin(period, start), stop + period.offset)
            if start == period.start and self.ticks_after_gap(period):
                count += not self.local_ticks.includes(period.local_start)
        return count

    def _last_but(self, newest: int, begin: int, end: int) -> int:
        """The instant of the tick that is followed by `newest` ticks before `end`, by binary search. It must exist."""
        too_late = end
        while too_late - begin > 1:
            middle = (begin + too_late) // 2
            if self._count(middle, end) > newest:
                begin = middle
            else:
                too_late = middle
        return begin

    def _local_begin(self, period: Period, start: int) -> int:
        """The local time from which ticks of `period` count, for ticks from the instant `start` on."""
        local = start + period.offset
        return max(local, period.shown_until) if self.overlap == "First" else local


def second_after(moment: datetime) -> int:
    """The first whole second after `moment`, since 1970. In integers: floats lose microseconds, and with them ticks."""
    since = moment - _EPOCH
    return since.days * _SECONDS_OF_DAY + since.seconds + 1


def moment_of(instant: int) -> datetime:
    """The datetime of `instant`, in UTC."""
    return _EPOCH + timedelta(seconds=instant)
