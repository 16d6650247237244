"""Writing statuses: only those that say something new, and what people wait for first.

Transitions go out at once. Values that only move (times, counts) ride along with them, or wait until the last write is
a minute old; of those the most stale go first, no more of them than the budget allows. Nothing is written for a version
of the resource that is not the newest, and nothing after this operator has stopped leading. Events follow when the
statuses are written: they tell a person how it came about, and cost the API server as much as a status does.
"""

from __future__ import annotations

import asyncio
import logging
import time
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final, Literal, NamedTuple

from wakeboard.store.schedule_facts import facts_of
from wakeboard_operator.cluster_access import ListFailed, WriteFailed
from wakeboard_operator.problems import FOREIGN
from wakeboard_operator.schedule_events import events_between
from wakeboard_operator.status_function import changes_by_itself_at, difference, status_of

if TYPE_CHECKING:
    from collections.abc import Callable

    import psycopg

    from wakeboard.store.schedule_facts import ScheduleFacts
    from wakeboard_operator.cluster_access import Cluster
    from wakeboard_operator.metrics import Metrics
    from wakeboard_operator.mirror import Known
    from wakeboard_operator.reconciling import Reconciler
    from wakeboard_operator.resources import Key, Resource
    from wakeboard_operator.status_document import JobScheduleStatus

log = logging.getLogger("wakeboard.operator")

AT_ONCE: Final = 1000  # statuses that are computed together
SIDE_BY_SIDE: Final = 10  # writes that are under way
AFTER_A_REFUSAL_S: Final = 5.0
BURST_S: Final = 1.0  # of budget that may be saved up


class _Wanted(NamedTuple):
    """A status, and the version of the resource that it was computed for."""

    known: Known
    resource: Resource
    before: JobScheduleStatus | None
    after: JobScheduleStatus


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
    """Writes the statuses of a reconciler's dirty resources."""

    def __init__(
        self,
        cluster: Cluster,
        reconciler: Reconciler,
        metrics: Metrics,
        leads: Callable[[], bool],
        *,
        per_second: float,
        moving_s: float,
        errors: Literal["full", "type-only"] = "full",
    ) -> None:
        self._cluster, self._reconciler, self._metrics, self._leads = cluster, reconciler, metrics, leads
        self._budget = _Budget(per_second)
        self._round = max(
            1, int(per_second)
        )  # moving statuses that are written before transitions are looked for again
        self._moving_s = moving_s
        self._errors: Literal["full", "type-only"] = errors
        self._later: dict[Key, float] = {}  # when to look again (time.monotonic())

    async def write(self, conn: psycopg.AsyncConnection[Any]) -> int:
        """Writes what is due now; how many statuses were written. Raises WakeboardError when the database is away."""
        keys = self._due()
        urgent: list[_Wanted] = []
        moving: list[_Wanted] = []
        now = datetime.now(UTC)
        for start in range(0, len(keys), AT_ONCE):
            for known, facts in await self._facts(conn, keys[start : start + AT_ONCE]):
                before = known.status()
                after = status_of(
                    known.resource, known.problem, facts, before, self._reconciler.installation, now, self._errors
                )
                wanted = _Wanted(known, known.resource, before, after)
                match difference(before, after):
                    case "transition":
                        urgent.append(wanted)
                    case "moving":
                        moving.append(wanted)
                    case _:
                        pass
                if facts is not None and (at := changes_by_itself_at(facts, now)):
                    self._look_later(known.resource.key, time.monotonic() + (at - now).total_seconds())
        return await self._write_all(urgent, None) + await self._write_all(self._ripe(moving), self._budget)

    def _ripe(self, moving: list[_Wanted]) -> list[_Wanted]:
        """Those whose last write is old enough, the most stale first, as many as one round takes; the others wait."""
        ripe_at = time.monotonic() - self._moving_s
        ripe: list[_Wanted] = []
        for each in moving:
            if each.known.written_at <= ripe_at:
                ripe.append(each)
            else:
                self._look_later(each.resource.key, each.known.written_at + self._moving_s)
        ripe.sort(key=lambda each: (each.known.written_at, each.resource.key))
        self._reconciler.dirty.update(each.resource.key for each in ripe[self._round :])
        return ripe[: self._round]

    def _due(self) -> list[Key]:
        now = time.monotonic()
        for key in [key for key, at in self._later.items() if at <= now]:
            del self._later[key]
            self._reconciler.dirty.add(key)
        keys, self._reconciler.dirty = self._reconciler.dirty, set()
        return sorted(keys)

    def _look_later(self, key: Key, at: float) -> None:
        self._later[key] = min(at, self._later.get(key, at))

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

        async def write(status: _Wanted) -> bool:
            async with side_by_side:
                if budget is not None:
                    await budget.spend()
                return await self._write(status)

        async def tell(status: _Wanted) -> None:
            async with side_by_side:
                await self._tell(status)

        answers = await asyncio.gather(*map(write, wanted))
        written = [status for status, answer in zip(wanted, answers, strict=True) if answer]
        await asyncio.gather(*map(tell, written))
        return len(written)

    async def _write(self, wanted: _Wanted) -> bool:
        if not self._leads():
            return False
        document = wanted.after.model_dump(mode="json", by_alias=True)
        document["conditions"] = [
            each.model_dump(mode="json", by_alias=True, exclude_none=True) for each in wanted.after.conditions or []
        ]
        try:
            written = await self._cluster.patch_status(wanted.resource, document)
        except WriteFailed as error:
            await self._failed(wanted.known, error)
            return False
        self._metrics.status_writes.inc()
        wanted.known.written_at = time.monotonic()
        self._reconciler.mirror.see(written, wanted.known.problem)
        return True

    async def _tell(self, wanted: _Wanted) -> None:
        about = wanted.known.resource
        for told in events_between(wanted.before, wanted.after):
            try:
                await self._cluster.post_event(about, told.reason, told.message, warning=told.warning)
            except WriteFailed as error:
                log.debug("an event of %s was not taken: %s", about.full_name, error)

    async def _failed(self, known: Known, error: WriteFailed) -> None:
        key = known.resource.key
        if error.reason == "vanished":
            return
        if error.reason == "conflict":
            self._metrics.status_conflicts.inc()
            try:
                fresh = await self._cluster.read(key)
            except ListFailed:
                self._look_later(key, time.monotonic() + AFTER_A_REFUSAL_S)
                return
            if fresh is not None and not self._reconciler.saw_only_its_status(fresh):
                self._look_later(key, time.monotonic() + AFTER_A_REFUSAL_S)  # the stream tells of an edit, or the list
            return
        log.warning("the status of %s was not taken: %s", known.resource.full_name, error)
        self._look_later(key, time.monotonic() + AFTER_A_REFUSAL_S)
