"""The next ticks of a cron expression, with the local times that a clock change skips."""

from __future__ import annotations

from typing import TYPE_CHECKING

from wakeboard.ticks.upcoming_ticks import upcoming_ticks
from wakeboard.views.rules.schedule_rows import Tick

if TYPE_CHECKING:
    from datetime import datetime

    from wakeboard.ticks.ticks import Ticks


def next_ticks(tick_schedule: Ticks, after: datetime, count: int) -> tuple[list[Tick], list[str]]:
    """The next `count` ticks after `after`, and the local times that are skipped before the last of them."""
    found = upcoming_ticks(tick_schedule, after, count)
    ticks = [Tick(at=tick.at, local=_iso(tick.local), note=tick.note) for tick in found.ticks]
    return ticks, list(found.skipped)


def _iso(local: datetime) -> str:
    return local.isoformat(timespec="seconds" if local.second else "minutes")
