"""Telling the board what became of attempts: many in one statement, over a connection of its own.

What could not be told is told again, as long as this worker may believe in its leases: the moves answer a repeat as
they answered the first time. After that it is dropped, because the runs are somebody else's by then.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, TypeVar

from wakeboard.errors import DatabaseUnavailable, WakeboardError
from wakeboard.plainwords import counted
from wakeboard_worker.logs import log

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence

    from wakeboard.store.leasing import Leasing
    from wakeboard_worker.attempts import Attempt
    from wakeboard_worker.desk import Desk
    from wakeboard_worker.heartbeat import Heartbeat
    from wakeboard_worker.lines import Line

_Item = TypeVar("_Item")

COLLECT_S = 0.02  # while more outcomes are on their way
ENOUGH = 500  # outcomes that are not kept waiting for others
AT_ONCE = 1000  # in one statement


class Settling:
    """Tells the board what lies on the desk, until cancelled."""

    def __init__(self, desk: Desk, line: Line, heartbeat: Heartbeat) -> None:
        self._desk, self._line, self._heartbeat = desk, line, heartbeat

    async def run(self) -> None:
        """Tells outcomes as they come."""
        desk = self._desk
        while True:
            if not desk.untold:
                desk.flush.clear()
                await desk.flush.wait()
                continue
            if len(desk.succeeded) < ENOUGH and (desk.waiting or desk.running):
                await asyncio.sleep(COLLECT_S)
            await self._tell_all()
            desk.room.set()

    async def _tell_all(self) -> None:
        desk = self._desk
        succeeded, failures, releases, results = desk.succeeded, desk.failures, desk.releases, desk.results
        desk.succeeded, desk.failures, desk.releases, desk.results = [], [], [], {}
        desk.telling = [*succeeded, *failures, *releases]
        by_epoch: dict[int, list[Attempt]] = {}  # nearly always one: first attempts have epoch 1
        for attempt in succeeded:
            by_epoch.setdefault(attempt.epoch, []).append(attempt)
        for epoch, attempts in by_epoch.items():
            for some in _slices(attempts):
                await self._complete(some, epoch, results)
        for some in _slices(failures):
            await self._tell(some, lambda leasing, some: leasing.fail(some))
            desk.counts.failed += len(some)
        for some in _slices(releases):
            await self._tell(some, lambda leasing, some: leasing.release(some))
            counted = sum(release.counted for release in some)
            desk.counts.released += counted
            desk.counts.snoozed += len(some) - counted
        desk.telling = []

    async def _complete(self, attempts: Sequence[Attempt], epoch: int, results: dict[int, str]) -> None:
        ids = [attempt.id for attempt in attempts]
        lost = await self._tell(ids, lambda leasing, some: leasing.complete(some, epoch, _joined(results, some)))
        self._desk.counts.succeeded += len(ids) - lost

    async def _tell(
        self, items: Sequence[_Item], move: Callable[[Leasing, Sequence[_Item]], Awaitable[list[int]]]
    ) -> int:
        """Makes the move, again and again while the database is away; how many outcomes were lost."""
        count = len(items)
        while self._heartbeat.trusted():
            try:
                refused = await move(await self._line.leasing(), items)
            except DatabaseUnavailable as error:
                log.warning("%s not recorded yet: %s", counted(count, "outcome"), error)
                await self._line.pause()
                continue
            except WakeboardError:
                if count > 1:  # one outcome that the board cannot take must not cost the others
                    return sum([await self._tell([item], move) for item in items])
                log.exception("the board cannot take an outcome; its run comes back when the lease lapses")
                break
            if refused:
                self._desk.counts.lost += len(refused)
                log.warning("lost: the board refused the outcome of runs %s", ", ".join(map(str, refused)))
            return len(refused)
        else:
            log.warning("lost: %s could not be told while the leases held", counted(count, "outcome"))
        self._desk.counts.lost += count
        self._desk.lose_sight()
        return count


def _joined(results: dict[int, str], ids: Sequence[int]) -> str | None:
    found = [f'"{run}":{results[run]}' for run in ids if run in results] if results else []
    return "{" + ",".join(found) + "}" if found else None


def _slices(items: Sequence[_Item]) -> list[Sequence[_Item]]:
    return [items[start : start + AT_ONCE] for start in range(0, len(items), AT_ONCE)]
