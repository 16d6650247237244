"""Which ticks of a parent belong to a tick of a schedule that needs all of them (`ticks: All`).

They are the parent's ticks after the schedule's own tick before, up to and including its tick: of a daily schedule at
midnight, the 24 hourly ticks from 01:00 to 00:00. On the days on which a clock changes there are 23 or 25.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from wakeboard.ticks.ticks import Ticks

MOST_TICKS: Final = 10_000  # of one parent; a week of minutes
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


def tick_before(own: Ticks, tick: datetime) -> datetime | None:
    """The tick of a schedule before this one; None: there is none since 1970."""
    found = own.missed(_EPOCH, tick - timedelta(seconds=1), 1).ticks
    return found[-1] if found else None


def ticks_between(parent: Ticks, since: datetime, tick: datetime) -> tuple[datetime, ...] | None:
    """The parent's ticks after `since`, up to and including `tick`; None: there are more than `MOST_TICKS`."""
    found = parent.missed(since, tick, MOST_TICKS)
    return None if found.skipped else found.ticks
