"""Time zones as sequences of periods with a constant UTC offset.

Between two periods the local clock jumps ahead over a gap, or back into an overlap. All rules of real zones (negative
DST, a lost day, half hours) are of this form, so no code depends on them.

The zone data comes from the pinned PyPI package `tzdata` and nowhere else, so that the operator, the workers and the
command line agree. It is read file by file with `ZoneInfo.from_file`: `zoneinfo.reset_tzpath(())` would have the same
effect, but on the whole process, and applications import wakeboard into theirs.
"""

from __future__ import annotations

from datetime import UTC, datetime
from functools import cache, lru_cache
from typing import TYPE_CHECKING, BinaryIO, Final, NamedTuple
from zoneinfo import ZoneInfo

import tzdata

from wakeboard.errors import InvalidSchedule

if TYPE_CHECKING:
    from collections.abc import Iterator

FIRST_YEAR: Final = 1900
LAST_YEAR: Final = 9998  # datetime ends with 9999, and local time may be a day ahead

_DAY: Final = 86_400  # seconds
_STRIDE: Final = 3 * _DAY  # the shortest period of any zone since 1900 is a week (a test checks this)
_LONGEST_OVERLAP: Final = _DAY  # no zone has ever set its clock back by more


class Period(NamedTuple):
    """An interval of real time with a constant UTC offset.

    `start` and `end` are seconds since 1970 UTC, `end` excluded. Adding `offset` gives local seconds:
    what the local clock shows, counted as if it were UTC. `shown_until` is the local second that the local clock had
    reached before `start`. If it is below `start + offset`, there is a gap; if it is above, there is an overlap; if it
    is equal, the period only begins with its year.
    """

    start: int
    end: int
    offset: int
    shown_until: int

    @property
    def local_start(self) -> int:
        """The local time at `start`."""
        return self.start + self.offset

    @property
    def local_end(self) -> int:
        """The local time at `end`, before the clock changes."""
        return self.end + self.offset


def tzdata_version() -> str:
    """The release of the IANA time zone database in use, for example "2025b"."""
    return tzdata.IANA_VERSION


@cache
def known_zones() -> frozenset[str]:
    """Every zone name of the pinned database, old aliases included, without that of a clock that was never set."""
    with _open("zones") as names:
        return frozenset(names.read().decode("ascii").split()) - {"Factory"}


def periods_from(zone: str, instant: int) -> Iterator[Period]:
    """The periods of `zone` in order, from the one that holds `instant` (seconds since 1970 UTC) to the end of time.

    A period ends with its year at the latest, so that only the requested years are computed.
    """
    for year in range(_year_of(instant), LAST_YEAR + 1):
        for period in periods_in_year(zone, year):
            if period.end > instant:
                yield period


def zone_changes(zone: str, begin: int, end: int) -> Iterator[Period]:
    """The periods of a zone that begin with a clock change from `begin` on, before `end`. Empty for an unknown zone."""
    try:
        for period in periods_from(zone, begin):
            if period.start >= end:
                return
            if period.start >= begin and period.shown_until != period.local_start:
                yield period
    except InvalidSchedule:
        return


@lru_cache(maxsize=8192)
def periods_in_year(zone: str, year: int) -> tuple[Period, ...]:
    """The periods of `zone` that fill one UTC year.

    Raises InvalidSchedule for a zone that the database does not have.
    """
    year_start, year_end = _start_of_year(year), _start_of_year(year + 1)
    return tuple(
        period if period.start >= year_start else _cut(period, year_start)
        for period in _periods_between(_load(zone), year_start - _LONGEST_OVERLAP, year_end)
        if period.end > year_start
    )


def _cut(period: Period, start: int) -> Period:
    """The part of `period` from `start` on: its gap has ended by then, its overlap may continue."""
    return period._replace(start=start, shown_until=max(period.shown_until, start + period.offset))


def _periods_between(zone: ZoneInfo, start: int, end: int) -> list[Period]:
    periods: list[Period] = []
    shown_until = start + _offset(zone, start)
    while start < end:
        offset, until = _offset(zone, start), _next_change(zone, start, end)
        periods.append(Period(start, until, offset, shown_until))
        shown_until, start = until + offset, until
    return periods


def _next_change(zone: ZoneInfo, start: int, end: int) -> int:
    """The first second after `start` at which the offset is another one, or `end` when there is none before."""
    offset = _offset(zone, start)
    before = start
    while before < end:
        after = min(before + _STRIDE, end)
        if _offset(zone, after) != offset:
            return _change_between(zone, offset, before, after)
        before = after
    return end


def _change_between(zone: ZoneInfo, offset: int, before: int, after: int) -> int:
    """The second at which the zone leaves `offset`, which it has at `before` and no longer at `after`."""
    while after - before > 1:
        middle = (before + after) // 2
        if _offset(zone, middle) == offset:
            before = middle
        else:
            after = middle
    return after


def _offset(zone: ZoneInfo, instant: int) -> int:
    """Seconds to add to UTC for local time. A whole number: no zone has had fractions of a second."""
    offset = datetime.fromtimestamp(instant, zone).utcoffset()
    assert offset is not None, "ZoneInfo always has an offset"
    return offset.days * _DAY + offset.seconds


def _year_of(instant: int) -> int:
    return max(datetime.fromtimestamp(instant, UTC).year, FIRST_YEAR)


@lru_cache(maxsize=512)
def _start_of_year(year: int) -> int:
    return int(datetime(year, 1, 1, tzinfo=UTC).timestamp())


def unknown_zone(subject: str, example: str = '"Europe/Lisbon"') -> str:
    """The error for a name that is not a time zone; `subject` says where it is written."""
    return f"{subject} is not a known time zone; write for example {example}"


def zone_info(zone: str) -> ZoneInfo:
    """The zone of the pinned database. Raises InvalidSchedule for one that it does not have."""
    return _load(zone)


@lru_cache(maxsize=1024)
def _load(zone: str) -> ZoneInfo:
    if zone not in known_zones():
        raise InvalidSchedule(unknown_zone(f'timeZone "{zone}"'))
    with _open(f"zoneinfo/{zone}") as data:
        return ZoneInfo.from_file(data, key=zone)


def _open(name: str) -> BinaryIO:
    return open(f"{tzdata.__path__[0]}/{name}", "rb")  # noqa: PTH123 - pathlib would cost a wake milliseconds
