"""The status writer: writes the statuses that have changed, changes of conditions first.

Changes of conditions are written at once. Values that change often (times, counts) are written with them, or when the
last write is some seconds old. The stalest of these are written first, within a budget. Nothing is written for a
version of the resource that is not the newest, and nothing after this operator has stopped leading. Events are written
after the statuses: they show users how a status came about, and cost the API server as much as a status.

A status that another client has overwritten is repaired, without events. Repeated repairs of one status become slower
and slower: two operators with two databases would otherwise write for ever. Times are the database's.
"""

from __future__ import annotations

import asyncio
import logging
import time
from typing import TYPE_CHECKING, Final, Literal, NamedTuple

from wakeboard.engine.maintenance_api import MaintenanceStore
from wakeboard.kube.client import CONFLICT, NOT_FOUND, ApiError
from wakeboard.views.queries.schedule_state import schedule_states
from wakeboard_operator.event_budget import EventBudget
from wakeboard_operator.events import events_between
from wakeboard_operator.problems import FOREIGN
from wakeboard_operator.status import Owner, difference, next_change_at, status_of
from wakeboard_operator.tracing import span

if TYPE_CHECKING:
    from collections.abc import Callable
    from datetime import datetime

    from wakeboard.store.connection import AsyncConnection
    from wakeboard.views.queries.schedule_state import ScheduleState
    from wakeboard_operator.cache import CachedResource
    from wakeboard_operator.kube_client import Cluster
    from wakeboard_operator.metrics import Metrics
    from wakeboard_operator.reconciler import Reconciler
    from wakeboard_operator.resources import Key, Resource
    from wakeboard_operator.status_models import JobScheduleStatus

log = logging.getLogger("wakeboard.operator")

BATCH_SIZE: Final = 1000  # statuses that are computed together
MAX_CONCURRENT_WRITES: Final = 10
RETRY_S: Final = 5.0
BURST_S: Final = 1.0  # of budget that may be saved up
FREE_REPAIRS: Final = 3  # of one status; the next ones wait for 2, 4, 8, … s
MAX_REPAIR_PAUSE_S: Final = 300.0
REPAIRS_RESET_S: Final = 600.0  # without a foreign write, after which the count of repairs starts again


class _StatusChange(NamedTuple):
    """A status, and the version of the resource that it was computed for."""

    known: CachedResource
    resource: Resource
    before: JobScheduleStatus | None
    after: JobScheduleStatus
    at: datetime


class _Budget:
    """A token bucket: a rate in writes per second, and a burst of one second."""

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
    """Writes the statuses of the reconciler's pending keys."""

    def __init__(
        self,
        cluster: Cluster,
        reconciler: Reconciler,
        metrics: Metrics,
        is_leader: Callable[[], bool],
        *,
        per_second: float,
        min_interval_s: float,
        errors: Literal["full", "type-only"] = "full",
    ) -> None:
        self._cluster, self._reconciler, self._metrics, self._is_leader = cluster, reconciler, metrics, is_leader
        self._budget = _Budget(per_second)
        self._batch = max(1, int(per_second))  # values that are written before the next check for transitions
        self._min_interval_s = min_interval_s
        self._errors: Literal["full", "type-only"] = errors
        self._later: dict[Key, float] = {}  # when to check again (time.monotonic())

    async def write(self, conn: AsyncConnection) -> int:
        """Writes the statuses that are due and returns their number. They stay due if it fails.

        Raises WakeboardError without a database.
        """
        keys = self._due()
        try:
            return await self._write_due(conn, keys) if keys else 0
        except BaseException:
            self._reconciler.mark_pending(keys)
            raise

    async def _write_due(self, conn: AsyncConnection, keys: list[Key]) -> int:
        transitions: list[_StatusChange] = []
        values: list[_StatusChange] = []
        now = await MaintenanceStore(conn).now()
        for start in range(0, len(keys), BATCH_SIZE):
            for known, facts in await self._facts(conn, keys[start : start + BATCH_SIZE]):
                before = known.status()
                owner = self._owner_of(known, before)
                foreign = owner.installation != self._reconciler.installation
                after = status_of(known.resource, known.problem, facts, before, owner, now, self._errors)
                wanted = _StatusChange(known, known.resource, before, after, now)
                match difference(before, after):
                    case "none":
                        pass
                    case _ if foreign and known.reports_foreign_for_this_spec():
                        pass  # owned by another installation; writing would loop
                    case _ if (wait_s := self._repair_wait_s(known)) > 0:
                        self._check_later(known.resource.key, time.monotonic() + wait_s)
                    case "transition":
                        transitions.append(wanted)
                    case "values":
                        values.append(wanted)
                if facts is not None and (at := next_change_at(facts, now)):
                    self._check_later(known.resource.key, time.monotonic() + (at - now).total_seconds())
        return await self._write_selected(transitions, self._select(values))

    async def _write_selected(self, transitions: list[_StatusChange], values: list[_StatusChange]) -> int:
        if not transitions and not values:
            return 0
        with span("write statuses", {"wakeboard.schedules": len(transitions) + len(values)}):
            return await self._write_all(transitions, None) + await self._write_all(values, self._budget)

    def _select(self, values: list[_StatusChange]) -> list[_StatusChange]:
        """Returns those whose last write is old enough, the stalest first, at most one batch. The others wait."""
        written_before = time.monotonic() - self._min_interval_s
        selected: list[_StatusChange] = []
        for each in values:
            if each.known.written_at <= written_before:
                selected.append(each)
            else:
                self._check_later(each.resource.key, each.known.written_at + self._min_interval_s)
        selected.sort(key=lambda each: (each.known.written_at, each.resource.key))
        self._reconciler.mark_pending(each.resource.key for each in selected[self._batch :])
        return selected[: self._batch]

    def _owner_of(self, known: CachedResource, before: JobScheduleStatus | None) -> Owner:
        """The owner that the status names: the other installation if the schedule belongs to it."""
        if known.problem is not None and known.problem.reason == FOREIGN:
            release = before.release if before else None
            return Owner(self._reconciler.ownership.other_owner(known.resource.key), release)
        return Owner(self._reconciler.installation, self._reconciler.release)

    def _repair_wait_s(self, known: CachedResource) -> float:
        """Seconds until a status that another client has overwritten may be repaired; 0: now."""
        if not known.is_overwritten():
            return 0.0
        quiet_s = time.monotonic() - known.written_at
        if quiet_s > REPAIRS_RESET_S:
            known.repairs = 0
        pause_s = 0.0 if known.repairs < FREE_REPAIRS else 2.0 ** (known.repairs - FREE_REPAIRS + 1)
        return max(0.0, min(MAX_REPAIR_PAUSE_S, pause_s) - quiet_s)

    def _due(self) -> list[Key]:
        now = time.monotonic()
        for key in [key for key, at in self._later.items() if at <= now]:
            del self._later[key]
            self._reconciler.mark_pending([key])
        return sorted(self._reconciler.take_pending())

    def _check_later(self, key: Key, at: float) -> None:
        self._later[key] = min(at, self._later.get(key, at))

    async def _facts(self, conn: AsyncConnection, keys: list[Key]) -> list[tuple[CachedResource, ScheduleState | None]]:
        """Returns the resources whose status is ours to write, with their state in the store."""
        known = [each for key in keys if (each := self._reconciler.cache.get(key))]
        mine = [each for each in known if self._may_write(each)]
        found = await schedule_states(conn, [each.definition_id for each in mine if each.definition_id is not None])
        facts = {each.id: each for each in found if not each.removed}
        # A resync may have removed some meanwhile.
        still_there = [each for each in mine if self._reconciler.cache.get(each.resource.key)]
        return [(each, facts.get(each.definition_id or 0)) for each in still_there]

    def _may_write(self, known: CachedResource) -> bool:
        """Whether the schedule is ours or no other operator runs it; if unknown, it is checked again later."""
        if known.problem is None or known.problem.reason != FOREIGN:
            return True
        key, now = known.resource.key, time.monotonic()
        ownership = self._reconciler.ownership
        wait_s = ownership.others.probe_wait_s(ownership.other_owner(key), key, now)
        if wait_s > 0:
            self._check_later(key, now + wait_s)
        return wait_s == 0

    async def _write_all(self, wanted: list[_StatusChange], budget: _Budget | None) -> int:
        slots = asyncio.Semaphore(MAX_CONCURRENT_WRITES)

        async def write(status: _StatusChange) -> bool:
            async with slots:
                if budget is not None:
                    await budget.spend()
                return await self._write(status)

        repairs = {id(status) for status in wanted if status.known.is_overwritten()}

        async def emit(status: _StatusChange) -> None:
            async with slots:
                await self._emit_events(status)

        answers = await asyncio.gather(*map(write, wanted))
        written = [status for status, answer in zip(wanted, answers, strict=True) if answer]
        await asyncio.gather(*(emit(status) for status in written if id(status) not in repairs))
        return len(written)

    async def _write(self, wanted: _StatusChange) -> bool:
        if not self._is_leader():
            return False
        document = wanted.after.model_dump(mode="json", by_alias=True)
        document["conditions"] = [
            each.model_dump(mode="json", by_alias=True, exclude_none=True) for each in wanted.after.conditions or []
        ]
        try:
            with span("PATCH jobschedules/status", _names(wanted.resource), is_request=True):
                written = await self._cluster.patch_status(wanted.resource, document)
        except ApiError as error:
            await self._failed(wanted.known, error)
            return False
        self._metrics.status_writes.inc()
        known = wanted.known
        if known.is_overwritten():
            known.repairs += 1
            self._metrics.status_repairs.inc()
            if known.repairs == FREE_REPAIRS:
                log.warning("another client keeps overwriting the status of %s", known.resource.full_name)
        known.written_at = time.monotonic()
        self._reconciler.cache.observe(written, known.problem)
        known.written = known.hash_of(written)
        return True

    async def _emit_events(self, wanted: _StatusChange) -> None:
        about, now = wanted.known.resource, time.monotonic()
        budget = wanted.known.event_budget = wanted.known.event_budget or EventBudget(now)
        for event in events_between(wanted.before, wanted.after):
            if not budget.spend(now):
                return
            try:
                await self._cluster.post_event(about, event.reason, event.message, wanted.at, warning=event.warning)
            except ApiError as error:
                log.debug("cannot post an event of %s: %s", about.full_name, error)

    async def _failed(self, known: CachedResource, error: ApiError) -> None:
        key = known.resource.key
        if error.status == NOT_FOUND:
            return
        if error.status == CONFLICT:
            self._metrics.status_conflicts.inc()
            try:
                fresh = await self._cluster.read(key)
            except ApiError:
                self._check_later(key, time.monotonic() + RETRY_S)
                return
            if fresh is not None and not self._reconciler.observe_status_only(fresh):
                self._check_later(key, time.monotonic() + RETRY_S)  # the watch or a resync delivers the edit
            return
        log.warning("cannot write the status of %s: %s", known.resource.full_name, error)
        self._check_later(key, time.monotonic() + RETRY_S)


def _names(resource: Resource) -> dict[str, str | int]:
    namespace, name = resource.key
    return {"k8s.namespace.name": namespace, "wakeboard.schedule": f"{namespace}/{name}"}
