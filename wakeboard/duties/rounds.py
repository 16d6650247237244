"""Rounds: which duty is due when.

Whoever makes rounds (a waking worker, one that stays, local mode, the operator) makes them as often as it likes; each
duty has its own pace here, and the board itself knows when others have just done the same. One duty that fails stops no
other. A duty whose connection was lost has not been done: it is due again at once.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from wakeboard.duties.partitions import make_partitions
from wakeboard.duties.reaping import TakenBack, reap
from wakeboard.duties.ticks import NOTHING, materialise_due
from wakeboard.duties.tidying import Retention, Tidied, tidy_up

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable
    from datetime import timedelta

    from wakeboard.store.board import Board, Materialised

EVERY_ROUND: Final = 0.0  # seconds between two times
REAP_EVERY: Final = 5.0
PARTITIONS_EVERY: Final = 3600.0
TIDY_EVERY: Final = 3600.0
AFTER_A_FAILURE: Final = 60.0  # at the latest


@dataclass(slots=True)
class Round:
    """What one round did. `failures`: by the name of the duty."""

    ticks: Materialised = NOTHING
    taken_back: TakenBack = field(default_factory=TakenBack)
    partitions_made: int = 0
    tidied: Tidied = field(default_factory=Tidied)
    failures: dict[str, Exception] = field(default_factory=dict[str, Exception])


@dataclass(slots=True)
class _Duty:
    """A duty and its pace. `do` writes what it did into the round, and answers True when there is more to do, soon."""

    name: str
    every: float
    do: Callable[[Board, Round], Awaitable[bool]]
    due_at: float = float("-inf")


class Rounds:
    """The duties of one process, and when each is due. Moments are monotonic seconds, counted from anywhere."""

    def __init__(self, *, missed_after: timedelta, retention: Retention, decides_retention: bool = False) -> None:
        self._missed_after = missed_after
        self._retention = retention
        self._decides_retention = decides_retention
        self._duties = (
            _Duty("ticks", EVERY_ROUND, self._make_ticks),
            _Duty("reaping", REAP_EVERY, self._reap),
            _Duty("partitions", PARTITIONS_EVERY, self._make_partitions),
            _Duty("tidying", TIDY_EVERY, self._tidy),
        )

    def due(self, now: float) -> list[str]:
        """The names of the duties that a round at `now` will do, in order. At first that is every one."""
        return [duty.name for duty in self._duties if duty.due_at <= now]

    async def make(self, board: Board, now: float) -> Round:
        """Does what is due at `now`. Raises nothing of a duty's own: look at `failures`."""
        done = Round()
        for duty in self._duties:
            if duty.due_at <= now:
                duty.due_at = now + await self._pause_after(duty, board, done)
        return done

    async def _pause_after(self, duty: _Duty, board: Board, done: Round) -> float:
        try:
            return EVERY_ROUND if await duty.do(board, done) else duty.every
        except Exception as error:  # noqa: BLE001 - the next duty is due all the same; the caller says what went wrong
            done.failures[duty.name] = error
            if board.conn.closed:
                return EVERY_ROUND
            return min(duty.every, AFTER_A_FAILURE)

    async def _make_ticks(self, board: Board, done: Round) -> bool:
        done.ticks = await materialise_due(board, missed_after=self._missed_after)
        return False

    async def _reap(self, board: Board, done: Round) -> bool:
        done.taken_back = await reap(board)
        return False

    async def _make_partitions(self, board: Board, done: Round) -> bool:
        done.partitions_made = await make_partitions(board)
        return False

    async def _tidy(self, board: Board, done: Round) -> bool:
        done.tidied = await tidy_up(board, self._retention, decides=self._decides_retention)
        return done.tidied.more
