"""How many ticks of many schedules each minute of a day or a week has, and what clock changes do to them.

Ten thousand schedules must take milliseconds, so no tick is enumerated. The ticks of one schedule are the bits of an
integer, one for each minute, or of several integers for an interval below a minute (`Ticks.minute_planes`). They are
added column by column: plane p of the sum holds bit p of the count of each minute, so that adding a schedule is a few
operations on whole integers.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from statistics import median_low
from typing import TYPE_CHECKING, Final, Literal, NamedTuple

from wakeboard.errors import InvalidSchedule
from wakeboard.ticks.compiled_ticks import ticks_for
from wakeboard.ticks.dst_ticks import DstTicks
from wakeboard.ticks.ticks import moment_of
from wakeboard.ticks.zones import zone_changes

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from wakeboard.ticks.dst_ticks import Gap, Overlap
    from wakeboard.ticks.ticks import Ticks
    from wakeboard.ticks.zones import Period

MIN_PILE_UP: Final = 10  # ticks in one minute
_EVERY_HOUR: Final = 24
_HOUR: Final = 60  # minutes


class TickRule(NamedTuple):
    """What determines the ticks of a schedule. Many schedules may share one."""

    cron_fields: str
    time_zone: str
    dst_gap: Gap
    dst_overlap: Overlap

    def ticks(self) -> Ticks:
        """The ticks. Raises InvalidSchedule if the stored text is not readable or the zone is not known."""
        return ticks_for(*self)


@dataclass(frozen=True, slots=True)
class ClockChange:
    """A clock change of one zone, and the schedules in that zone that it affects.

    `before` and `after`: what the local clock shows just before the change and at it, for example 02:00 and 03:00.
    `moved`: schedules whose ticks in the gap run after it. `skipped`: those whose ticks in the gap do not run. `once`:
    those with ticks in the doubled time that run the first time only. `twice`: those that run both times. Schedules
    with a tick in every hour are not counted.
    """

    zone: str
    at: datetime
    before: str
    after: str
    is_gap: bool
    moved: int
    skipped: int
    once: int
    twice: int

    @property
    def affected(self) -> int:
        """The counted schedules with a tick in the gap or in the doubled time."""
        return self.moved + self.skipped + self.once + self.twice


@dataclass(frozen=True, slots=True)
class PileUps:
    """Minutes with far more ticks than the others, the fullest first, as places in the list of counts.

    `single`: minutes that are also fuller than the same minute of other hours. `hourly`: minutes of the hour that are
    full in most hours.
    """

    single: list[int]
    hourly: list[int]


def minute_counts(rules: Mapping[TickRule, int], begin: int, end: int) -> list[int]:
    """How many ticks each minute has, from the instant `begin` to `end` (whole minutes, in seconds since 1970).

    `rules`: how many schedules each rule has. A rule that cannot be computed has no ticks.
    """
    return counts_of(count_planes(rules, begin, end), (end - begin) // 60)


def count_planes(rules: Mapping[TickRule, int], begin: int, end: int, planes: Iterable[int] = ()) -> list[int]:
    """As `minute_counts`, in planes: plane p has bit p of the count of each minute. They are added to `planes`."""
    summed = list(planes)
    for rule, schedules in rules.items():
        for plane, bits in enumerate(_planes(rule, begin, end)):
            for position in range(schedules.bit_length()):
                if schedules >> position & 1:
                    _add(summed, bits, plane + position)
    return summed


def counts_of(planes: Sequence[int], width: int) -> list[int]:
    """The count of each minute, of planes."""
    counts = [0] * width
    for position, plane in enumerate(planes):
        text = f"{plane:0{width}b}"[::-1]
        value = 1 << position
        minute = text.find("1")
        while minute >= 0:
            counts[minute] += value
            minute = text.find("1", minute + 1)
    return counts


def minutes_above(planes: Sequence[int], bound: int) -> int:
    """The minutes whose count is above `bound`, as bits."""
    above, equal = 0, -1
    for position in reversed(range(max(len(planes), bound.bit_length()))):
        plane = planes[position] if position < len(planes) else 0
        if bound >> position & 1:
            equal &= plane
        else:
            above |= equal & plane
            equal &= ~plane
    return above


def highest_count(planes: Sequence[int]) -> tuple[int, int]:
    """The highest count of a minute, and the minutes that have it, as bits."""
    count, minutes = 0, -1
    for position in reversed(range(len(planes))):
        if minutes & planes[position]:
            minutes &= planes[position]
            count |= 1 << position
    return count, minutes


def rules_with_ticks(rules: Iterable[TickRule], begin: int, end: int) -> list[tuple[TickRule, int]]:
    """The rules that have ticks from `begin` on that are before `end`, each with its minutes as bits."""
    found = ((rule, _bits(rule, begin, end)) for rule in rules)
    return [(rule, bits) for rule, bits in found if bits]


def pile_ups(counts: Sequence[int]) -> PileUps:
    """The minutes with far more ticks than the others: at least ten, and twice as many as the median minute.

    A schedule with a tick each hour makes the same minute of each hour full. Such a minute of the hour is listed once,
    if it is full in most hours. A single minute is listed if it also exceeds the median of the same minute of all hours
    by at least ten ticks and by a tenth.
    """
    if not counts:
        return PileUps([], [])
    bound = max(MIN_PILE_UP, 2 * median_low(counts))
    usual = [median_low(counts[minute::_HOUR]) for minute in range(min(_HOUR, len(counts)))]
    single = [
        minute
        for minute, count in enumerate(counts)
        if count >= bound and count - usual[minute % _HOUR] >= max(MIN_PILE_UP, usual[minute % _HOUR] / 10)
    ]
    hourly = [minute for minute, count in enumerate(usual) if count >= bound and len(counts) > _HOUR]
    return PileUps(
        sorted(single, key=lambda minute: (-counts[minute], minute)),
        sorted(hourly, key=lambda minute: (-usual[minute], minute)),
    )


def clock_changes(rules: Mapping[TickRule, int], begin: int, end: int) -> list[ClockChange]:
    """The clock changes from the instant `begin` on that are before `end`, of all zones of the rules, in order."""
    by_zone: dict[str, list[TickRule]] = {}
    for rule in rules:
        by_zone.setdefault(rule.time_zone, []).append(rule)
    changes = [
        _clock_change(zone, period, {rule: rules[rule] for rule in of_zone})
        for zone, of_zone in by_zone.items()
        for period in zone_changes(zone, begin, end)
    ]
    return sorted(changes, key=lambda change: (change.at, -change.affected, change.zone))


def _bits(rule: TickRule, begin: int, end: int) -> int:
    bits = 0
    for plane in _planes(rule, begin, end):
        bits |= plane
    return bits


def _planes(rule: TickRule, begin: int, end: int) -> list[int]:
    try:
        return rule.ticks().minute_planes(begin, end)
    except InvalidSchedule:  # its page shows the error
        return []


def _add(planes: list[int], bits: int, position: int) -> None:
    """Adds `bits` times two to the power of `position`."""
    while bits:
        if position >= len(planes):
            planes.extend([0] * (position + 1 - len(planes)))
        planes[position], bits = planes[position] ^ bits, planes[position] & bits
        position += 1


def _clock_change(zone: str, period: Period, rules: Mapping[TickRule, int]) -> ClockChange:
    is_gap = period.shown_until < period.local_start
    first, last = sorted((period.shown_until, period.local_start))
    counts = {"moved": 0, "skipped": 0, "once": 0, "twice": 0}
    for rule, schedules in rules.items():
        try:
            ticks = rule.ticks()
        except InvalidSchedule:
            continue
        if not isinstance(ticks, DstTicks):
            continue
        if ticks.fields.hours.bit_count() < _EVERY_HOUR and ticks.local_ticks.first(first, last) is not None:
            counts[_effect(ticks, is_gap=is_gap)] += schedules
    return ClockChange(
        zone, moment_of(period.start), _clock(period.shown_until), _clock(period.local_start), is_gap, **counts
    )


def _effect(ticks: DstTicks, *, is_gap: bool) -> Literal["moved", "skipped", "once", "twice"]:
    if is_gap:
        return "moved" if ticks.gap == "RunAfter" else "skipped"
    return "once" if ticks.overlap == "First" else "twice"


def _clock(local: int) -> str:
    return f"{datetime.fromtimestamp(local, UTC):%H:%M}"
