"""What clock changes do to the ticks of a timetable, in words for a person."""

from __future__ import annotations

from datetime import UTC, datetime
from itertools import islice, takewhile
from typing import TYPE_CHECKING, Final

from wakeboard.rules.dst_ticks import second_after
from wakeboard.rules.zones import periods_from

if TYPE_CHECKING:
    from collections.abc import Iterator

    from wakeboard.rules.dst_ticks import TickSchedule
    from wakeboard.rules.zones import Period

_EVERY_HOUR: Final = 24


def explain(tick_schedule: TickSchedule, tick: datetime) -> str | None:
    """Why this tick of `timetable` is not what the cron line alone would suggest; None for an ordinary one."""
    instant = second_after(tick) - 1
    period, *later = islice(periods_from(tick_schedule.zone, instant), 3)
    local = instant + period.offset
    if instant == period.start and tick_schedule.ticks_after_gap(period):
        together = tick_schedule.local_ticks.includes(local)
        return f"{'also stands for' if together else 'moved from'} {_lost(tick_schedule, period)}"
    if local < period.shown_until:
        return f"{_time(local)} comes twice on {_date(local)}: this is the second time"
    if any(following.local_start <= local < following.shown_until for following in later):
        alone = ", the only one that counts" if tick_schedule.overlap == "First" else ""
        return f"{_time(local)} comes twice on {_date(local)}: this is the first time{alone}"
    return None


def skipped_between(tick_schedule: TickSchedule, after: datetime, until: datetime) -> tuple[str, ...]:
    """A sentence for each gap after `after`, up to and including `until`, that swallows local times of the cron line.

    A line that names every hour loses nothing in a gap, as no hour passes in it.
    """
    if tick_schedule.gap != "Skip" or tick_schedule.fields.hours.bit_count() == _EVERY_HOUR:
        return ()
    gaps = _gaps_between(tick_schedule, second_after(after), second_after(until))
    return tuple(
        f"skips {_lost(tick_schedule, period)}" for period in gaps if _first_lost(tick_schedule, period) is not None
    )


def _gaps_between(tick_schedule: TickSchedule, begin: int, end: int) -> Iterator[Period]:
    periods = takewhile(lambda period: period.start < end, periods_from(tick_schedule.zone, begin))
    return (period for period in periods if period.start >= begin and period.shown_until < period.local_start)


def _first_lost(tick_schedule: TickSchedule, period: Period) -> int | None:
    return tick_schedule.local_ticks.first(period.shown_until, period.local_start)


def _lost(tick_schedule: TickSchedule, period: Period) -> str:
    """The local ticks in the gap before `period`, of which there is at least one."""
    first = _first_lost(tick_schedule, period)
    assert first is not None, "asked only for gaps with ticks"
    others = tick_schedule.local_ticks.count(first + 1, period.local_start)
    if others == 0:
        return f"{_time(first)}, which does not exist on {_date(first)}"
    return f"{_time(first)} and {others} more, which do not exist on {_date(first)}"


def _time(local: int) -> str:
    return f"{datetime.fromtimestamp(local, UTC):%H:%M}"


def _date(local: int) -> str:
    return f"{datetime.fromtimestamp(local, UTC):%Y-%m-%d}"
