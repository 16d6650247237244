"""Compares the ticks of a CronJob or a line of a crontab with those of its JobSchedule.

Compared are the next ten ticks, and those around each clock change of the zone within a year. The ticks of the source
come from `kubernetes_cron`, which shares no code with those of a JobSchedule. For a crontab only the expression is
compared, as `crontab_schedule` reads it, without clock changes, because implementations of cron differ there.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from itertools import takewhile
from typing import TYPE_CHECKING, Final

from wakeboard.imports.rules.kubernetes_cron import kubernetes_ticks, next_kubernetes_tick
from wakeboard.ticks.dst_ticks import DstTicks
from wakeboard.ticks.upcoming_ticks import local_time
from wakeboard.ticks.zones import periods_from

if TYPE_CHECKING:
    from collections.abc import Iterator

    from wakeboard.imports.rules.imported_schedule import ImportedSchedule
    from wakeboard.imports.rules.kubernetes_cron import KubernetesCron
    from wakeboard.ticks.compiled_cron import CronFields
    from wakeboard.ticks.dst_ticks import Gap, Overlap

COMPARED: Final = 10  # ticks
_YEAR: Final = timedelta(days=366)
_DAY: Final = timedelta(days=1)
_LONG: Final = timedelta(days=40)  # holds a tick of each schedule that is due each month
_FEW: Final = 200  # ticks


@dataclass(frozen=True, slots=True, kw_only=True)
class TickComparison:
    """`ticks`: the next ticks of the source. `differences`: a sentence for each difference; none if they are equal."""

    ticks: tuple[datetime, ...]
    differences: tuple[str, ...]


def compare_ticks(imported: ImportedSchedule, now: datetime) -> TickComparison:
    """The comparison from `now` on."""
    ticks = imported.ticks()
    cron = imported.cron
    if cron is None or ticks is None or cron.every_s is not None:
        why = "the source is due at a random time or at an interval of its own, so its ticks cannot be compared"
        return TickComparison(ticks=(), differences=(why,))
    zone = "Etc/UTC" if imported.command else ticks.zone
    return _compared(cron, zone, ticks.fields, ticks.gap, ticks.overlap, now)


@lru_cache(maxsize=4096)
def _compared(
    cron: KubernetesCron, zone: str, fields: CronFields, gap: Gap, overlap: Overlap, now: datetime
) -> TickComparison:
    ticks = DstTicks(fields, zone, gap, overlap)
    theirs = kubernetes_ticks(cron, zone, now, COMPARED)
    differences = [*_differences(set(theirs), set(ticks.upcoming(now, COMPARED)), zone, "")]
    for change in _clock_changes(zone, now):
        around, after, until = _window(ticks, change)
        theirs_there = {*_ticks_between(cron, zone, after, until)}
        ours = {*takewhile(lambda tick: tick <= until, ticks.upcoming(after, len(theirs_there) + _FEW))}  # noqa: B023
        differences += _differences(theirs_there, ours, zone, around)
    return TickComparison(ticks=tuple(theirs), differences=tuple(dict.fromkeys(differences)))


def _window(ticks: DstTicks, change: datetime) -> tuple[str, datetime, datetime]:
    """What to call the days around a clock change, and their first and last moment: longer if they have few ticks."""
    begin = int((change - _LONG).timestamp()) // 60 * 60
    few = ticks.minutes(begin, int((change + _DAY).timestamp())).bit_count() <= _FEW
    around = f"around the clock change of {local_time(ticks.zone, change):%Y-%m-%d} "
    return around, change - (_LONG if few else _DAY), change + _DAY


def _ticks_between(cron: KubernetesCron, zone: str, after: datetime, until: datetime) -> Iterator[datetime]:
    tick = next_kubernetes_tick(cron, zone, after)
    while tick is not None and tick <= until:
        yield tick
        tick = next_kubernetes_tick(cron, zone, tick)


def _clock_changes(zone: str, now: datetime) -> Iterator[datetime]:
    end = (now + _YEAR).timestamp()
    for period in takewhile(lambda period: period.start < end, periods_from(zone, int(now.timestamp()))):
        if period.start > now.timestamp() and period.shown_until != period.local_start:
            yield datetime.fromtimestamp(period.start, UTC)


def _differences(theirs: set[datetime], ours: set[datetime], zone: str, around: str) -> Iterator[str]:
    for only, whose, others in (
        (theirs - ours, "the source", "the JobSchedule"),
        (ours - theirs, "the JobSchedule", "the source"),
    ):
        if only:
            first, more = min(only), f" and {len(only) - 1} more" if len(only) > 1 else ""
            yield f"{around}only {whose} is due at {local_time(zone, first):%Y-%m-%d %H:%M %z}{more}, {others} is not"
