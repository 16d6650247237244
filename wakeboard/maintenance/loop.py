"""Rounds: which duty is due when.

Whoever makes rounds (a waking worker, one that stays, local mode, the operator) makes them as often as it likes; each
duty has its own pace here, and the board itself knows when others have just done the same. One duty that fails stops no
other. A duty whose connection was lost has not been done: it is due again at once.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from wakeboard.maintenance.partitions import create_partitions
from wakeboard.maintenance.reaper import ReapCounts, reap
from wakeboard.maintenance.retention import Retention, Tidied, tidy_up
from wakeboard.maintenance.scheduler import NOTHING, schedule_due_ticks

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable
    from datetime import timedelta

    from wakeboard.store.maintenance_api import EnqueuedTicks, Store

EVERY_ROUND: Final = 0.0  # seconds between two times
REAP_EVERY: Final = 5.0
PARTITIONS_EVERY: Final = 3600.0
TIDY_EVERY: Final = 3600.0
AFTER_A_FAILURE: Final = 60.0  # at the latest


@dataclass(slots=True)
class MaintenancePass:
    """What one round did. `failures`: by the name of the duty."""

    ticks: EnqueuedTicks = NOTHING
    taken_back: ReapCounts = field(default_factory=ReapCounts)
    partitions_made: int = 0
    tidied: Tidied = field(default_factory=Tidied)
    failures: dict[str, Exception] = field(default_factory=dict[str, Exception])


@dataclass(slots=True)
class _Task:
    """A duty and its pace. `do` writes what it did into the round, and answers True when there is more to do, soon."""

    name: str
    every: float
    do: Callable[[Store, MaintenancePass], Awaitable[bool]]
    due_at: float = float("-inf")


class MaintenanceLoop:
    """The duties of one process, and when each is due. Moments are monotonic seconds, counted from anywhere."""

    def __init__(self, *, misfire_grace: timedelta, retention: Retention, decides_retention: bool = False) -> None:
        self._missed_after = misfire_grace
        self._retention = retention
        self._decides_retention = decides_retention
        self._duties = (
            _Task("ticks", EVERY_ROUND, self._make_ticks),
            _Task("reaping", REAP_EVERY, self._reap),
            _Task("partitions", PARTITIONS_EVERY, self._create_partitions),
            _Task("tidying", TIDY_EVERY, self._tidy),
        )

    def due(self, now: float) -> list[str]:
        """The names of the duties that a round at `now` will do, in order. At first that is every one."""
        return [duty.name for duty in self._duties if duty.due_at <= now]

    async def make(self, store: Store, now: float) -> MaintenancePass:
        """Does what is due at `now`. Raises nothing of a duty's own: look at `failures`."""
        done = MaintenancePass()
        for duty in self._duties:
            if duty.due_at <= now:
                duty.due_at = now + await self._pause_after(duty, store, done)
        return done

    async def _pause_after(self, duty: _Task, store: Store, done: MaintenancePass) -> float:
        try:
            return EVERY_ROUND if await duty.do(store, done) else duty.every
        except Exception as error:  # noqa: BLE001 - the next duty is due all the same; the caller says what went wrong
            done.failures[duty.name] = error
            if store.conn.closed:
                return EVERY_ROUND
            return min(duty.every, AFTER_A_FAILURE)

    async def _make_ticks(self, store: Store, done: MaintenancePass) -> bool:
        done.ticks = await schedule_due_ticks(store, misfire_grace=self._missed_after)
        return False

    async def _reap(self, store: Store, done: MaintenancePass) -> bool:
        done.taken_back = await reap(store)
        return False

    async def _create_partitions(self, store: Store, done: MaintenancePass) -> bool:
        done.partitions_made = await create_partitions(store)
        return False

    async def _tidy(self, store: Store, done: MaintenancePass) -> bool:
        done.tidied = await tidy_up(store, self._retention, decides=self._decides_retention)
        return done.tidied.more
