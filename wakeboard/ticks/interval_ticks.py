"""The ticks of an interval, and the one tick of a single moment."""

from __future__ import annotations

from math import gcd

from wakeboard.ticks.repeated_bits import repeated
from wakeboard.ticks.ticks import LAST_INSTANT, UNBOUNDED, Bounds, Ticks, planes_of

_MINUTE = 60  # seconds


class IntervalTicks(Ticks):
    """A tick each `every` seconds, counted from `anchor` in both directions: clock changes and delays move none."""

    __slots__ = ("anchor", "every")

    def __init__(self, every: int, anchor: int, zone: str, bounds: Bounds = UNBOUNDED) -> None:
        super().__init__(zone, bounds)
        self.every = every
        self.anchor = anchor

    def _first_from(self, begin: int) -> int | None:
        tick = self.anchor + self._number(begin) * self.every
        return tick if tick <= LAST_INSTANT else None

    def _count(self, begin: int, end: int) -> int:
        return self._number(end) - self._number(begin)

    def _minutes(self, begin: int, end: int) -> int:
        numbers = range(self._number(begin), self._number(end))
        if not numbers:
            return 0
        first, last = (self._minute(numbers[place], begin) for place in (0, -1))
        if self.every <= _MINUTE:
            return (1 << last + 1) - (1 << first)
        common = gcd(self.every, _MINUTE)  # the minutes repeat after so many ticks: one of an interval of whole minutes
        bits = sum(1 << self._minute(number, begin) - first for number in numbers[: _MINUTE // common])
        bits = repeated(bits, self.every // common, -(-len(numbers) * common // _MINUTE))
        return (bits & (1 << last - first + 1) - 1) << first

    def minute_planes(self, begin: int, end: int) -> list[int]:
        """Below a minute, the numbers of ticks repeat after at most 59 minutes. Only these are counted."""
        first, stop = max(begin, self.bounds.first), min(end, self.bounds.last + 1)
        if self.every >= _MINUTE or first >= stop:
            return super().minute_planes(begin, end)
        whole = range((first - begin - 1) // _MINUTE + 1, (stop - begin) // _MINUTE)  # minutes that no bound cuts
        kinds = whole[: self.every // gcd(self.every, _MINUTE)]
        planes = [
            (repeated(plane, len(kinds), -(-len(whole) // len(kinds))) & (1 << len(whole)) - 1) << whole.start
            for plane in planes_of([self._count_of_minute(minute, begin, end) for minute in kinds])
        ]
        for minute in {(first - begin) // _MINUTE, (stop - 1 - begin) // _MINUTE}.difference(whole):
            count = self._count_of_minute(minute, begin, end)
            planes += [0] * (count.bit_length() - len(planes))
            planes = [plane | (count >> place & 1) << minute for place, plane in enumerate(planes)]
        return planes

    def _count_of_minute(self, minute: int, begin: int, end: int) -> int:
        at = begin + minute * _MINUTE
        return self._count_within(at, min(at + _MINUTE, end))

    @property
    def has_seconds(self) -> bool:
        """Whether the interval or its anchor has seconds."""
        return bool(self.every % _MINUTE or self.anchor % _MINUTE)

    def _seconds(self, begin: int, end: int) -> int:
        numbers = range(self._number(begin), self._number(end))
        first = self.anchor + numbers.start * self.every - begin
        return repeated(1, self.every, len(numbers)) << first if numbers else 0

    def _minute(self, number: int, begin: int) -> int:
        return (self.anchor + number * self.every - begin) // _MINUTE

    def _number(self, instant: int) -> int:
        """The number of the first tick from `instant` on; that of the anchor is 0."""
        return -((self.anchor - instant) // self.every)


class SingleTick(Ticks):
    """One tick, `at` an instant."""

    __slots__ = ("at",)

    def __init__(self, at: int, zone: str, bounds: Bounds = UNBOUNDED) -> None:
        super().__init__(zone, bounds)
        self.at = at

    def _first_from(self, begin: int) -> int | None:
        return self.at if self.at >= begin else None

    def _count(self, begin: int, end: int) -> int:
        return int(begin <= self.at < end)

    def _minutes(self, begin: int, end: int) -> int:
        return 1 << (self.at - begin) // _MINUTE if begin <= self.at < end else 0

    @property
    def has_seconds(self) -> bool:
        """Whether the moment has seconds."""
        return bool(self.at % _MINUTE)

    def _seconds(self, begin: int, end: int) -> int:
        return 1 << self.at - begin if begin <= self.at < end else 0
