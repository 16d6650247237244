"""The coming ticks of a schedule or a cron line, and what clock changes do to them."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta, timezone
from typing import TYPE_CHECKING

from rich.text import Text

from wakeboard.cli.tables import Column
from wakeboard.display_zone import in_zone, zone_label
from wakeboard.rules.clock_change_notes import explain, skipped_between
from wakeboard.rules.humanize import relative
from wakeboard.rules.zones import periods_from

if TYPE_CHECKING:
    from wakeboard.rules.dst_ticks import TickSchedule


@dataclass(frozen=True, slots=True, kw_only=True)
class Tick:
    """One tick. `local` has the zone's offset of that moment; `note` says what a clock change does to it."""

    at: datetime
    local: str
    note: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class ComingTicks:
    """The next ticks in order. `skipped`: local times of the line that a clock change swallows meanwhile."""

    schedule: str | None
    cron: str | None
    time_zone: str
    state: str
    ticks: list[Tick]
    skipped: list[str]


def coming_ticks(tick_schedule: TickSchedule, after: datetime, count: int) -> tuple[list[Tick], list[str]]:
    """The next `count` ticks after `after`, and what is skipped up to the last of them."""
    moments = tick_schedule.upcoming(after, count)
    ticks = [
        Tick(at=at, local=_local(tick_schedule.zone, at).isoformat(timespec="minutes"), note=explain(tick_schedule, at))
        for at in moments
    ]
    return ticks, list(skipped_between(tick_schedule, after, moments[-1])) if moments else []


def _local(zone: str, at: datetime) -> datetime:
    """`at` as the wall clock of the zone shows it, by the zone data that decides."""
    period = next(periods_from(zone, int(at.timestamp())))
    return at.astimezone(timezone(timedelta(seconds=period.offset)))


def tick_cells(tick: Tick, now: datetime, *, local: bool) -> list[str | Text]:
    """One tick; its weekday stands with the local time if that is shown."""
    shown = datetime.fromisoformat(tick.local)
    moments = [f"{shown:%a %Y-%m-%d %H:%M} {shown.isoformat()[-6:]}", f"{in_zone(tick.at):%Y-%m-%d %H:%M}"]
    return [*(moments if local else [f"{shown:%a %Y-%m-%d %H:%M}"]), relative(tick.at, now), tick.note or ""]


def tick_columns(*, local: bool) -> list[Column]:
    """The columns of the cells."""
    names = ["LOCAL", zone_label().upper()] if local else ["UTC"]
    return [*(Column(name) for name in names), Column("IN"), Column("NOTE", narrows=True)]
