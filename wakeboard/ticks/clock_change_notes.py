"""Notes for users on ticks that a clock change (DST) moves, skips or repeats. The rules are in dst_ticks.py."""

from __future__ import annotations

from datetime import UTC, datetime
from itertools import islice, takewhile
from typing import TYPE_CHECKING, Final

from wakeboard.ticks.dst_ticks import DstTicks
from wakeboard.ticks.ticks import second_after
from wakeboard.ticks.zones import periods_from, zone_changes

if TYPE_CHECKING:
    from collections.abc import Iterator

    from wakeboard.ticks.ticks import Ticks
    from wakeboard.ticks.zones import Period

_EVERY_HOUR: Final = 24


def explain(ticks: Ticks, tick: datetime) -> str | None:
    """How a clock change affects this tick; None: it does not."""
    if not isinstance(ticks, DstTicks):
        return None
    instant = second_after(tick) - 1
    period, *later = islice(periods_from(ticks.zone, instant), 3)
    local = instant + period.offset
    if instant == period.start and ticks.ticks_after_gap(period):
        together = ticks.local_ticks.includes(local)
        return f"{'also runs for' if together else 'moved from'} {_skipped_ticks(ticks, period)}"
    if local < period.shown_until:
        return f"{_time(local)} comes twice on {_date(local)}: this is the second time"
    if any(following.local_start <= local < following.shown_until for following in later):
        only = ", the only one that counts" if ticks.overlap == "First" else ""
        return f"{_time(local)} comes twice on {_date(local)}: this is the first time{only}"
    return None


def skipped_between(ticks: Ticks, after: datetime, until: datetime) -> tuple[str, ...]:
    """A sentence for each gap after `after`, up to and including `until`, that skips ticks.

    An expression that matches every hour skips nothing, because no real hour is lost in a gap.
    """
    if not isinstance(ticks, DstTicks) or ticks.gap != "Skip" or ticks.fields.hours.bit_count() == _EVERY_HOUR:
        return ()
    gaps = _gaps_between(ticks, second_after(after), second_after(until))
    return tuple(
        f"skips {_skipped_ticks(ticks, period)}" for period in gaps if _first_skipped(ticks, period) is not None
    )


def clock_change_effects(ticks: Ticks, begin: int, end: int) -> Iterator[tuple[bool, str]]:
    """A sentence for each clock change from the instant `begin` on, before `end`, that affects ticks.

    With it whether ticks get lost or come twice. An expression that matches every hour is not affected.
    """
    if not isinstance(ticks, DstTicks) or ticks.fields.hours.bit_count() == _EVERY_HOUR:
        return
    for period in zone_changes(ticks.zone, begin, end):
        first, last = sorted((period.shown_until, period.local_start))
        found = ticks.local_ticks.first(first, last)
        if found is None or not ticks.bounds.first <= period.start <= ticks.bounds.last:
            continue
        if period.shown_until >= period.local_start:
            twice = ticks.overlap == "Both"
            yield twice, f"{_time(found)} comes twice on {_date(found)}: it runs {'twice' if twice else 'once'}"
        elif ticks.gap == "Skip":
            yield True, f"skips {_skipped_ticks(ticks, period)}"
        else:
            yield False, f"runs at {_time(period.local_start)} for {_skipped_ticks(ticks, period)}"


def _gaps_between(ticks: DstTicks, begin: int, end: int) -> Iterator[Period]:
    periods = takewhile(lambda period: period.start < end, periods_from(ticks.zone, begin))
    return (period for period in periods if period.start >= begin and period.shown_until < period.local_start)


def _first_skipped(ticks: DstTicks, period: Period) -> int | None:
    return ticks.local_ticks.first(period.shown_until, period.local_start)


def _skipped_ticks(ticks: DstTicks, period: Period) -> str:
    """The local ticks in the gap before `period`, of which there is at least one."""
    first = _first_skipped(ticks, period)
    assert first is not None, "callers pass only gaps with ticks"
    others = ticks.local_ticks.count(first + 1, period.local_start)
    if others == 0:
        return f"{_time(first)}, which does not exist on {_date(first)}"
    return f"{_time(first)} and {others} more, which do not exist on {_date(first)}"


def _time(local: int) -> str:
    return f"{datetime.fromtimestamp(local, UTC):%H:%M}"


def _date(local: int) -> str:
    return f"{datetime.fromtimestamp(local, UTC):%Y-%m-%d}"
