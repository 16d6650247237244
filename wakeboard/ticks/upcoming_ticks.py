"""The next ticks of a schedule as users read them: in UTC, in the schedule's zone, and with notes on clock changes.

`wakeboard next` and the board show what this module computes, so they cannot disagree.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta, timezone
from typing import TYPE_CHECKING

from wakeboard.ticks.clock_change_notes import explain, skipped_between
from wakeboard.ticks.zones import periods_from

if TYPE_CHECKING:
    from wakeboard.ticks.ticks import Ticks


@dataclass(frozen=True, slots=True)
class UpcomingTick:
    """One tick. `at`: in UTC. `local`: in the zone of the schedule. `note`: what a clock change does to it."""

    at: datetime
    local: datetime
    note: str | None

    @property
    def shown(self) -> str:
        """The local time for users."""
        return tick_text(self.local)


@dataclass(frozen=True, slots=True)
class UpcomingTicks:
    """The next ticks in order. `skipped`: a sentence for each clock change that skips ticks, up to the last tick."""

    ticks: tuple[UpcomingTick, ...]
    skipped: tuple[str, ...]


def upcoming_ticks(ticks: Ticks, after: datetime, count: int) -> UpcomingTicks:
    """The next `count` ticks strictly after `after`; fewer only before the year 9999."""
    found = ticks.upcoming(after, count)
    skipped = skipped_between(ticks, after, found[-1]) if found else ()
    return UpcomingTicks(
        tuple(UpcomingTick(at, local_time(ticks.zone, at), explain(ticks, at)) for at in found), skipped
    )


def tick_text(local: datetime) -> str:
    """A tick for users: "Mon 2026-11-30 08:00", with seconds if an interval has them."""
    return f"{local:%a %Y-%m-%d %H:%M}" + (f":{local:%S}" if local.second else "")


def local_time(zone: str, moment: datetime) -> datetime:
    """`moment` in the time zone, by the same zone data that computes the ticks.

    Raises InvalidSchedule for a zone that the data does not have.
    """
    period = next(periods_from(zone, int(moment.timestamp())))
    return moment.astimezone(timezone(timedelta(seconds=period.offset)))
