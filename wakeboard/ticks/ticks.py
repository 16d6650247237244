"""The ticks of one schedule: what is the same for cron expressions, intervals and single moments.

Arguments are aware datetimes; results are in UTC. The functions are pure: the current time is an argument. Internally,
times are whole seconds since 1970 in UTC ("instants").
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Sequence

LAST_INSTANT: Final = 253_402_300_799  # the end of the year 9999, the last one of a datetime
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_SECONDS_OF_DAY: Final = 86_400
_SECONDS_OF_MINUTE: Final = {ord("0"): "0" * 60, ord("1"): "0" * 59 + "1"}


@dataclass(frozen=True, slots=True)
class Missed:
    """The ticks of a range: the newest ones in full, the older ones as a count with the first and the last."""

    ticks: tuple[datetime, ...]
    skipped: int
    skipped_first: datetime | None
    skipped_last: datetime | None


class Bounds(NamedTuple):
    """The first and the last instant at which a schedule may have ticks (startsAt, endsAt)."""

    first: int = -LAST_INSTANT
    last: int = LAST_INSTANT


UNBOUNDED: Final = Bounds()


class Ticks(ABC):
    """All ticks of one schedule. `zone`: in which users read them. `bounds`: no tick is outside them."""

    __slots__ = ("bounds", "zone")

    def __init__(self, zone: str, bounds: Bounds) -> None:
        self.zone = zone
        self.bounds = bounds

    def next_tick(self, after: datetime) -> datetime | None:
        """The first tick strictly after `after`; None when there is none."""
        tick = self._first_within(second_after(after))
        return None if tick is None else moment_of(tick)

    def upcoming(self, after: datetime, n: int) -> list[datetime]:
        """The next `n` ticks strictly after `after`, in order; fewer only if there are no more."""
        ticks: list[datetime] = []
        begin = second_after(after)
        while len(ticks) < n and (tick := self._first_within(begin)) is not None:
            ticks.append(moment_of(tick))
            begin = tick + 1
        return ticks

    def missed(self, after: datetime, until: datetime, newest: int) -> Missed:
        """The ticks after `after`, up to and including `until`: the `newest` ones in order, those before them counted.

        Takes milliseconds even after years of outage: only the listed ticks are computed, others are counted.
        """
        begin, end = second_after(after), second_after(until)
        count = self._count_within(begin, end)
        if count <= newest:
            return Missed(tuple(self.upcoming(after, count)), 0, None, None)
        first, last = self._first_within(begin), self._last_but(newest, begin, end)
        assert first is not None, "count > newest, so there is a first tick"
        return Missed(tuple(self.upcoming(moment_of(last), newest)), count - newest, moment_of(first), moment_of(last))

    def minutes(self, begin: int, end: int) -> int:
        """The minutes with ticks from the instant `begin` on that are before `end`: bit n is the minute `begin` + n.

        Takes microseconds for a week, however many ticks it has. `begin` is a whole minute.
        """
        first, stop = max(begin, self.bounds.first), min(end, self.bounds.last + 1)
        start = first // 60 * 60
        bits = self._minutes(start, stop) if first < stop else 0
        if start < first and not self._count(first, min(start + 60, stop)):
            bits &= ~1  # the ticks of its first minute come before the bound
        return bits << (start - begin) // 60

    def minute_planes(self, begin: int, end: int) -> list[int]:
        """How many ticks each minute has. Plane p has bit p of the number of each minute, in the order of `minutes`."""
        return [self.minutes(begin, end)]

    def seconds(self, begin: int, end: int) -> int:
        """As `minutes`, for seconds: bit n is the second `begin` + n. Each bit is one tick."""
        first, stop = max(begin, self.bounds.first), min(end, self.bounds.last + 1)
        return self._seconds(first, stop) << first - begin if first < stop else 0

    def count(self, begin: int, end: int) -> int:
        """How many ticks there are from the instant `begin` on that are before `end`."""
        return self._count_within(begin, end)

    def _first_within(self, begin: int) -> int | None:
        tick = self._first_from(max(begin, self.bounds.first))
        return None if tick is None or tick > self.bounds.last else tick

    def _count_within(self, begin: int, end: int) -> int:
        begin, end = max(begin, self.bounds.first), min(end, self.bounds.last + 1)
        return self._count(begin, end) if begin < end else 0

    def _last_but(self, newest: int, begin: int, end: int) -> int:
        """The instant of the tick that is followed by `newest` ticks before `end`, by binary search. It must exist."""
        too_late = end
        while too_late - begin > 1:
            middle = (begin + too_late) // 2
            if self._count_within(middle, end) > newest:
                begin = middle
            else:
                too_late = middle
        return begin

    @abstractmethod
    def _first_from(self, begin: int) -> int | None:
        """The first tick from the instant `begin` on, without regard to the bounds."""

    @abstractmethod
    def _count(self, begin: int, end: int) -> int:
        """How many ticks there are from the instant `begin` on that are before `end`, without regard to the bounds."""

    @abstractmethod
    def _minutes(self, begin: int, end: int) -> int:
        """As `minutes`, without regard to the bounds."""

    @property
    @abstractmethod
    def has_seconds(self) -> bool:
        """Whether a tick may be between two whole minutes."""

    @abstractmethod
    def _seconds(self, begin: int, end: int) -> int:
        """As `seconds`, without regard to the bounds."""


def second_after(moment: datetime) -> int:
    """The first whole second after `moment`, since 1970. In integers: floats lose microseconds, and with them ticks."""
    since = moment - _EPOCH
    return since.days * _SECONDS_OF_DAY + since.seconds + 1


def moment_of(instant: int) -> datetime:
    """The datetime of `instant`, in UTC."""
    return _EPOCH + timedelta(seconds=instant)


def planes_of(counts: Sequence[int]) -> list[int]:
    """The planes of single counts: bit n of plane p is bit p of `counts[n]`."""
    width = max(counts, default=0).bit_length()
    return [sum((count >> plane & 1) << place for place, count in enumerate(counts)) for plane in range(width)]


def seconds_of(minutes: int) -> int:
    """The bits of minutes as bits of seconds: bit n becomes bit 60 * n."""
    return int(f"{minutes:b}".translate(_SECONDS_OF_MINUTE), 2)
