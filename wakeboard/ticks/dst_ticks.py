"""Computes the ticks of a schedule from its cron fields and time zone, with the rules for daylight saving time (DST).

A cron expression describes local times. A zone is a sequence of periods with a constant UTC offset
(`wakeboard.ticks.zones`). `wakeboard.ticks.local_ticks` finds the ticks within a period, and subtracting the offset
converts them to UTC. This module decides what happens between two periods, for expressions with fixed hours:

- **Gap**: the clock jumps ahead. The ticks in the gap are dropped (Skip), or become one tick at the first instant after
  the gap (RunAfter).
- **Overlap**: the clock goes back, so local times occur twice. A tick runs the first time (First) or both times (Both).

An expression whose hour is a wildcard follows real time: it ticks whenever the local time matches. That is Skip with
Both. Two ticks at the same instant are one tick.

Internally, times are whole seconds since 1970, either in UTC ("instant") or as the local clock shows them ("local").
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Literal

from wakeboard.ticks.local_ticks import LocalTicks
from wakeboard.ticks.ticks import UNBOUNDED, Bounds, Ticks, seconds_of
from wakeboard.ticks.zones import periods_from

if TYPE_CHECKING:
    from wakeboard.ticks.compiled_cron import CronFields
    from wakeboard.ticks.zones import Period

_MINUTE: Final = 60  # seconds

Gap = Literal["Skip", "RunAfter"]
Overlap = Literal["First", "Both"]


class DstTicks(Ticks):
    """All ticks of a cron expression in a time zone.

    `gap` and `overlap` are the effective rules: an expression that follows real time always has Skip and Both.
    """

    __slots__ = ("fields", "gap", "local_ticks", "overlap")

    def __init__(self, fields: CronFields, zone: str, gap: Gap, overlap: Overlap, bounds: Bounds = UNBOUNDED) -> None:
        super().__init__(zone, bounds)
        self.fields = fields
        self.gap: Gap = "Skip" if fields.follows_real_time else gap
        self.overlap: Overlap = "Both" if fields.follows_real_time else overlap
        self.local_ticks = LocalTicks(fields)

    def _minutes(self, begin: int, end: int) -> int:
        """The clock changes in the zone must be whole minutes, as in all zones since 1972."""
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

    @property
    def has_seconds(self) -> bool:
        """No: cron expressions have minutes, and so have the clock changes of all zones since 1972."""
        return False

    def _seconds(self, begin: int, end: int) -> int:
        start = begin // _MINUTE * _MINUTE
        return seconds_of(self._minutes(start, end)) >> begin - start

    def ticks_after_gap(self, period: Period) -> bool:
        """Whether the first instant of `period` is a tick that replaces those in the gap before it."""
        return (
            self.gap == "RunAfter"
            and period.shown_until < period.local_start
            and self.local_ticks.first(period.shown_until, period.local_start) is not None
        )

    def _first_from(self, begin: int) -> int | None:
        for period in periods_from(self.zone, begin):
            start = max(begin, period.start)
            if start == period.start and self.ticks_after_gap(period):
                return start
            tick = self.local_ticks.first(self._local_begin(period, start), period.local_end)
            if tick is not None:
                return tick - period.offset
        return None

    def _count(self, begin: int, end: int) -> int:
        count = 0
        for period in periods_from(self.zone, begin):
            if period.start >= end:
                break
            start, stop = max(begin, period.start), min(end, period.end)
            count += self.local_ticks.count(self._local_begin(period, start), stop + period.offset)
            if start == period.start and self.ticks_after_gap(period):
                count += not self.local_ticks.includes(period.local_start)
        return count

    def _local_begin(self, period: Period, start: int) -> int:
        """The local time from which ticks of `period` count, for ticks from the instant `start` on."""
        local = start + period.offset
        return max(local, period.shown_until) if self.overlap == "First" else local
