"""Writing statuses: only those that say something new, and what people wait for first.

Transitions go out at once. Values that only move (times, counts) ride along with them, or wait until the last write is
a minute old; of those the most stale go first, no more of them than the budget allows. Nothing is written for a version
of the resource that is not the newest, and nothing after this operator has stopped leading.
"""

from __future__ import annotations

import asyncio
import heapq
import logging
import time
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from wakeboard.store.schedule_facts import facts_of
from wakeboard_operator.cluster_access import ListFailed, WriteFailed
from wakeboard_operator.problems import FOREIGN
from wakeboard_operator.schedule_events import events_between
from wakeboard_operator.status_function import difference, status_of

if TYPE_CHECKING:
    from collections.abc import Callable

    import psycopg

    from wakeboard.store.schedule_facts import ScheduleFacts
    from wakeboard_operator.cluster_access import Cluster
    from wakeboard_operator.mirror import Known
    from wakeboard_operator.reconciling import Reconciler
    from wakeboard_operator.resources import Key
    from wakeboard_operator.status_document import JobScheduleStatus

log = logging.getLogger("wakeboard.operator")

AT_ONCE: Final = 1000  # statuses that are computed together
SIDE_BY_SIDE: Final = 10  # writes that are under way
AFTER_A_REFUSAL_S: Final = 5.0
BURST_S: Final = 1.0  # of budget that may be saved up


_Wanted: TypeAlias = "tuple[Known, JobScheduleStatus]"


class _Budget:
    """A token bucket: so many writes a second, and a second's worth at once."""

    def __init__(self, rate: float) -> None:
        self._rate, self._saved, self._at = rate, rate * BURST_S, time.monotonic()

    async def spend(self) -> None:
        now = time.monotonic()
        self._saved = min(self._rate * BURST_S, self._saved + (now - self._at) * self._rate)
        self._at = now
        self._saved -= 1
        if self._saved < 0:
            await asyncio.sleep(-self._saved / self._rate)


class StatusWriter:
    """Writes the statuses of a reconciler's dirty resources. `writes`, `conflicts` count since the start."""

    def __init__(
        self,
        cluster: Cluster,
        reconciler: Reconciler,
        installation: str,
        leads: Callable[[], bool],
        *,
        per_second: float,
        moving_s: float,
    ) -> None:
        self._cluster, self._reconciler, self._installation, self._leads = cluster, reconciler, installation, leads
        self._budget = _Budget(per_second)
        self._round = max(
            1, int(per_second)
        )  # moving statuses that are written before transitions are looked for again
        self._moving_s = moving_s
        self._later: list[tuple[float, Key]] = []  # when to look again
        self._waits: set[Key] = set()
        self.writes = self.conflicts = 0

    async def write(self, conn: psycopg.AsyncConnection[Any]) -> int:
        """Writes what is due now; how many statuses were written. Raises WakeboardError when the database is away."""
        keys = self._due()
        urgent: list[_Wanted] = []
        moving: list[tuple[float, Key, _Wanted]] = []
        now = datetime.now(UTC)
        for start in range(0, len(keys), AT_ONCE):
            for known, facts in await self._facts(conn, keys[start : start + AT_ONCE]):
                before = known.status()
                after = status_of(known.resource, known.problem, facts, before, self._installation, now)
                match difference(before, after):
                    case "transition":
                        urgent.append((known, after))
                    case "moving":
                        moving.append((known.written_at, known.resource.key, (known, after)))
                    case _:
                        pass
        wrote = await self._write_all(urgent, None)
        ripe = time.monotonic() - self._moving_s
        for written_at, key, _ in moving:
            if written_at > ripe:
                self._look_later(key, written_at + self._moving_s)
        stale_first = [each for at, _, each in sorted(moving, key=lambda found: found[:2]) if at <= ripe]
        now_and_later = stale_first[: self._round], stale_first[self._round :]
        self._reconciler.dirty.update(known.resource.key for known, _ in now_and_later[1])
        return wrote + await self._write_all(now_and_later[0], self._budget)

    def _due(self) -> list[Key]:
        now = time.monotonic()
        while self._later and self._later[0][0] <= now:
            _, key = heapq.heappop(self._later)
            self._waits.discard(key)
            self._reconciler.dirty.add(key)
        keys, self._reconciler.dirty = self._reconciler.dirty, set()
        return sorted(keys)

    def _look_later(self, key: Key, at: float) -> None:
        if key not in self._waits:
            self._waits.add(key)
            heapq.heappush(self._later, (at, key))

    async def _facts(
        self, conn: psycopg.AsyncConnection[Any], keys: list[Key]
    ) -> list[tuple[Known, ScheduleFacts | None]]:
        """Those that are ours to write, with what the board knows of them."""
        known = [each for key in keys if (each := self._reconciler.mirror.get(key))]
        mine = [each for each in known if not (each.problem and each.problem.reason == FOREIGN)]
        found = await facts_of(conn, [each.definition_id for each in mine if each.definition_id is not None])
        facts = {each.id: each for each in found if not each.removed}
        return [(each, facts.get(each.definition_id or 0)) for each in mine]

    async def _write_all(self, wanted: list[_Wanted], budget: _Budget | None) -> int:
        side_by_side = asyncio.Semaphore(SIDE_BY_SIDE)

        async def one(known: Known, after: JobScheduleStatus) -> bool:
            async with side_by_side:
                if budget is not None:
                    await budget.spend()
                return await self._write(known, after)

        return sum(await asyncio.gather(*(one(known, after) for known, after in wanted)))

    async def _write(self, known: Known, after: JobScheduleStatus) -> bool:
        resource, before = known.resource, known.status()
        if not self._leads():
            return False
        document = after.model_dump(mode="json", by_alias=True)
        document["conditions"] = [
            each.model_dump(mode="json", by_alias=True, exclude_none=True) for each in after.conditions or []
        ]
        try:
            written = await self._cluster.patch_status(resource, document)
        except WriteFailed as error:
            await self._failed(known, error)
            return False
        self.writes += 1
        known.written_at = time.monotonic()
        self._reconciler.mirror.see(written, known.problem)
        for told in events_between(before, after):
            try:
                await self._cluster.post_event(written, told.reason, told.message, warning=told.warning)
            except WriteFailed as error:
                log.debug("an event of %s was not taken: %s", resource.full_name, error)
        return True

    async def _failed(self, known: Known, error: WriteFailed) -> None:
        key = known.resource.key
        if error.reason == "vanished":
            return
        if error.reason == "conflict":
            self.conflicts += 1
            try:
                fresh = await self._cluster.read(key)
            except ListFailed:
                self._look_later(key, time.monotonic() + AFTER_A_REFUSAL_S)
                return
            if fresh is not None:
                self._reconciler.mirror.see(fresh, known.problem)
                self._reconciler.dirty.add(key)
            return
        log.warning("the status of %s was not taken: %s", known.resource.full_name, error)
        self._look_later(key, time.monotonic() + AFTER_A_REFUSAL_S)
