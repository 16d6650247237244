"""The reconciler: makes the stored schedules equal to the JobSchedules of the cluster.

A resync works on a complete list, which is authoritative. It happens at the start of a term, every minute, and soon
after a deletion. Only a resync removes schedules: those that the API server has reported as deleted, and those that are
missing from the list. A large removal of missing ones waits for a confirmation (missing_schedules.py). A list that
fails changes nothing.

Between resyncs, changes from the watch are applied in batches: a thousand edits become a few statements. An invalid
spec is left out, and the last valid one stays in force.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Mapping
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Final, TypeAlias, cast

from pydantic import BaseModel

from wakeboard.errors import InvalidSchedule, InvalidValue, Locked
from wakeboard.schedules import calls
from wakeboard.schedules.desired_schedule import DesiredSchedule
from wakeboard.schedules.prune import needs_confirmation, remove, suspend_deleted
from wakeboard.schedules.rules.job_schedule import API_VERSION, JobScheduleSpec, load_job_schedule
from wakeboard.schedules.sync import sync
from wakeboard.text.humanize import counted
from wakeboard_operator.missing_schedules import MissingSchedules
from wakeboard_operator.ownership import Ownership
from wakeboard_operator.problems import FOREIGN, INVALID, ScheduleProblem
from wakeboard_operator.resources import KIND
from wakeboard_operator.tenancy import tenancy_problem
from wakeboard_operator.watch import Deleted

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from datetime import datetime
    from typing import Protocol

    from wakeboard.schedules.calls import KnownDefinition
    from wakeboard.schedules.leader_api import ActionResult, LeaderStore
    from wakeboard.schedules.sync import SyncReport
    from wakeboard_operator.cache import ResourceCache
    from wakeboard_operator.kube_client import Listing
    from wakeboard_operator.resources import Key, Resource
    from wakeboard_operator.settings import OperatorSettings

    class Deletions(Protocol):
        """Asks the API server whether objects and namespaces that a list did not show still exist."""

        async def namespaces_gone(self, names: Iterable[str]) -> set[str]:
            """The namespaces that are deleted or terminating."""
            ...

        async def objects_gone(self, objects: Mapping[Key, str]) -> set[Key]:
            """The objects that no longer exist with these uids."""
            ...


log = logging.getLogger("wakeboard.operator")

BACKFILL: Final = "backfill"
ACTIONS: Final = ("run-now", "retry-dead", "discard-dead", BACKFILL)
MAX_LOCK_WAIT_S: Final = 4.0  # of all actions of one sync
ACTIONS_LEFT_S: Final = 5.0  # until the resync that runs the rest
JUST_ANNOTATED: Final = timedelta(seconds=60)  # how long a user's annotation may have waited for the first sync

Requested: TypeAlias = "tuple[Key, str, str]"  # the schedule, the action and the value of an annotation


class Reconciler:
    """The state of one term: the cache, the schedules that are missing, and the keys whose status is pending.

    `pending_removal` is the message of a removal that waits for a confirmation. `last_resync_at` is a time.monotonic().
    `resync_in_s` is set if the next resync is needed earlier than usual.
    """

    def __init__(
        self,
        settings: OperatorSettings,
        source: str,
        installation: str,
        cache: ResourceCache,
        deletions: Deletions | None = None,
    ) -> None:
        self._settings, self._source, self.installation = settings, source, installation
        self.release = settings.release or None
        self.ownership = Ownership(installation, settings.release, adopt=settings.adopt_foreign_schedules)
        self.missing = MissingSchedules()
        self._deletions = deletions
        self._misfire_grace = settings.misfire_grace
        self._done: set[Requested] = set()  # annotation tokens that this term has handled, while schedules have them
        self._set_later: set[Requested] = set()  # those that this term saw appear on stored schedules, and are not done
        self.refused_actions: dict[Requested, float] = {}  # time.monotonic(); those that were locked, and are not done
        self._actions_left = False
        self.cache = cache
        self._pending_keys: set[Key] = set()
        self.pending_removal: str | None = None
        self.last_resync_at: float | None = None
        self.resync_in_s: float | None = None

    @property
    def pending_keys(self) -> frozenset[Key]:
        """The resources whose status must be computed again."""
        return frozenset(self._pending_keys)

    def mark_pending(self, keys: Iterable[Key]) -> None:
        """Adds resources whose status must be computed again."""
        self._pending_keys.update(keys)

    def take_pending(self) -> set[Key]:
        """Returns the pending keys and clears them."""
        taken, self._pending_keys = self._pending_keys, set()
        return taken

    async def resync(
        self, store: LeaderStore, listing: Listing, listed_at: datetime, now: float | None = None
    ) -> SyncReport:
        """Syncs a complete list. `listed_at` is the database's time before the list was requested.

        `now` is in monotonic seconds (None: now).
        """
        if self.last_resync_at is None:
            self.ownership.rows(await calls.list_definitions(store, self._source))
        listed = {found.key for found in listing.resources}
        for key in self.cache:
            if key not in listed:
                self.cache.remove(key)
                self.ownership.remove(key)
        declared, changed = self._observe(listing.resources)
        self._forget_former_requests()
        try:
            report = await sync(
                store,
                self._source,
                declared.values(),
                prune=False,
                spared=listed - declared.keys(),  # invalid, but declared
                listed_at=listed_at,
                misfire_grace=self._misfire_grace,
            )
            await self._remove(store, report, listed_at, time.monotonic() if now is None else now)
            await self._record_sync(store, report, listing.resources)
            if self._actions_left:
                self.resync_in_s = min(self.resync_in_s or ACTIONS_LEFT_S, ACTIONS_LEFT_S)
        finally:
            self.mark_pending(changed)  # only now are the rows of new schedules known
        if report.removed:
            log.info("removed because no longer declared: %s", counted(len(report.removed), "schedule"))
        for installation, count in self.ownership.taken_over().items():
            log.warning("took over %s that installation %s ran", counted(count, "schedule"), installation)
        self.last_resync_at = time.monotonic()
        return report

    async def _remove(self, store: LeaderStore, report: SyncReport, listed_at: datetime, now: float) -> None:
        """Removes the schedules that are missing from the list."""
        gone: set[str] = set()
        if self._deletions is not None and needs_confirmation(len(report.missing_definitions), report.live):
            gone = await self._deletions.namespaces_gone({each.namespace for each in report.missing_definitions})
        reported, missing, self.resync_in_s = self.missing.decide(report.missing_definitions, report.live, now, gone)
        report.removed, report.pending_removal = await remove(
            store, self._source, missing, report.live, listed_at, reported=reported
        )
        self.pending_removal = report.pending_removal
        if report.pending_removal is not None:
            await self._suspend_deleted(store, missing)
        removed = set(report.removed)
        report.missing = [name for name in report.missing if name not in removed]

    async def _suspend_deleted(self, store: LeaderStore, missing: Sequence[KnownDefinition]) -> None:
        """Suspends schedules whose removal is pending and whose objects no longer exist."""
        if self._deletions is None:
            return
        running = {(each.namespace, each.name): each for each in missing if each.spec_hash}
        gone = await self._deletions.objects_gone({key: each.uid for key, each in running.items()})
        await suspend_deleted(store, self._source, [running[key] for key in gone])

    async def apply_changes(self, store: LeaderStore, batch: Mapping[Key, Resource | Deleted]) -> bool:
        """Syncs changes from the watch. Returns True if a resync is needed soon: for a deletion or locked schedules."""
        self._actions_left = False
        resources = [each for each in batch.values() if not isinstance(each, Deleted)]
        found = [each for each in resources if not self.observe_status_only(each)]
        declared, changed = self._observe(found)
        try:
            if declared:
                report = await sync(
                    store, self._source, declared.values(), prune=False, misfire_grace=self._misfire_grace
                )
                await self._record_sync(store, report, found)
        finally:
            self.mark_pending(changed)
        return self._actions_left or len(resources) < len(batch)

    def observe_status_only(self, found: Resource) -> bool:
        """Stores a change that concerns the status only, most often this operator's own write. False: it does not."""
        known = self.cache.get(found.key)
        if known is None or known.problem is not None:
            return False
        old = known.resource
        if (old.uid, old.generation, old.annotations, old.origin, old.labels) != (
            found.uid,
            found.generation,
            found.annotations,
            found.origin,
            found.labels,
        ):
            return False
        if self.ownership.problem(found) is not None:
            return False
        if self.cache.observe(found, None):
            self.mark_pending([found.key])
        return True

    def _observe(self, found: Iterable[Resource]) -> tuple[dict[Key, DesiredSchedule], set[Key]]:
        """Stores resources in the cache. Returns the desired schedules of the valid ones, and the keys that changed."""
        declared: dict[Key, DesiredSchedule] = {}
        changed: set[Key] = set()
        for each in found:
            read, problem = self._read(each)
            known = self.cache.get(each.key)
            before = known.resource if known is not None and known.definition_id is not None else None
            if self.cache.observe(each, problem):
                changed.add(each.key)
                if before is not None and before.uid == each.uid:
                    appeared = set(_requests(each)).difference(_requests(before))
                    self._set_later |= appeared
                    self._done -= appeared  # it may have been there before: the store knows that
                self._record_owner_reply(each, problem)
            known = self.cache.get(each.key)
            if read is not None and known is not None and known.resource.resource_version == each.resource_version:
                declared[each.key] = read
        return declared, changed

    def _record_owner_reply(self, found: Resource, problem: ScheduleProblem | None) -> None:
        """Records that an operator of another installation has repaired a status that this one wrote."""
        known = self.cache.get(found.key)
        if problem is None or problem.reason != FOREIGN or known is None or not known.written_at:
            return
        if known.reports_foreign():
            return
        self.ownership.others.record_repair(self.ownership.other_owner(found.key), time.monotonic())

    def _read(self, found: Resource) -> tuple[DesiredSchedule | None, ScheduleProblem | None]:
        if (problem := self.ownership.problem(found)) is not None:
            return None, problem
        document = {
            "apiVersion": API_VERSION,
            "kind": KIND,
            "metadata": {"name": found.name, "namespace": found.namespace},
            "spec": _known_fields(found.spec, JobScheduleSpec),
        }
        try:
            spec = load_job_schedule(document, "").spec
        except InvalidSchedule as error:
            return None, ScheduleProblem(INVALID, " ".join(f"{each.removeprefix(': ')}." for each in error.problems))
        problem = tenancy_problem(self._settings.tenancy, found.namespace, spec.queue, spec.job_type)
        if problem is not None:
            return None, problem
        return DesiredSchedule(
            found.namespace, found.name, spec, found.uid, found.generation, found.origin, found.labels
        ), None

    async def _record_sync(self, store: LeaderStore, report: SyncReport, found: Iterable[Resource]) -> None:
        for full_name, why in report.failed.items():
            key = _key(full_name)
            if (known := self.cache.get(key)) is not None:
                known.problem = ScheduleProblem(INVALID, f"{why}.")
        rows = await calls.list_definitions(store, self._source)
        self.ownership.rows(rows)
        stored = {(known.namespace, known.name): known for known in rows if not known.removed}
        for key, known in stored.items():
            self.cache.link(key, known.id)
        self.mark_pending(map(_key, [*report.created, *report.updated, *report.failed, *report.contended]))
        await self._run_actions(store, found, stored)

    async def _run_actions(
        self, store: LeaderStore, found: Iterable[Resource], stored: Mapping[Key, KnownDefinition]
    ) -> None:
        """Runs the actions that annotations request, once for each token.

        Each waits about two seconds for a locked schedule. When all together have waited for MAX_LOCK_WAIT_S, the rest
        is left for a resync soon, which begins with those that were not locked before.
        """
        waited_s, self._actions_left = 0.0, False
        for request, each in self._requested_actions(found, stored):
            if waited_s > MAX_LOCK_WAIT_S:
                self._actions_left = True
                break
            began = time.monotonic()
            key, action, value = request
            record_only = request not in self._set_later and _was_there_at_first(each, action, stored[key].created_at)
            try:
                acted = await self._run_action(store, stored[key].id, each, action, value, record_only=record_only)
            except (Locked, InvalidValue) as error:  # the next resync tries again; the others do not wait
                log.warning("%s %s of %s: %s", action, value, each.full_name, error)
                self.refused_actions[request] = time.monotonic()
                waited_s += time.monotonic() - began
                continue
            self._done.add(request)
            self._set_later.discard(request)
            self.refused_actions.pop(request, None)
            if acted.new:
                log.info("%s %s of %s: %s", action, value, each.full_name, acted.result)
                self.mark_pending([each.key])

    def _requested_actions(
        self, found: Iterable[Resource], stored: Mapping[Key, KnownDefinition]
    ) -> Sequence[tuple[Requested, Resource]]:
        """The actions to run. Those that were refused come last, the oldest first."""
        requested: list[tuple[Requested, Resource]] = []
        for each in found:
            known = self.cache.get(each.key)
            if known is not None and known.problem is None and each.key in stored:
                requested += [(request, each) for request in _requests(each) if request not in self._done]
        return sorted(requested, key=lambda each: self.refused_actions.get(each[0], 0.0))

    def _forget_former_requests(self) -> None:
        """Forgets the annotations that no schedule has any more. If one comes back, the store knows its token."""

        def is_former(request: Requested) -> bool:
            known = self.cache.get(request[0])
            return known is None or request not in _requests(known.resource)

        former = set(filter(is_former, self._done | self._set_later | self.refused_actions.keys()))
        self._done -= former
        self._set_later -= former
        for request in former & self.refused_actions.keys():
            del self.refused_actions[request]

    async def _run_action(
        self, store: LeaderStore, definition_id: int, found: Resource, action: str, token: str, *, record_only: bool
    ) -> ActionResult:
        what: dict[str, Any] = {"traceparent": found.annotations.get("traceparent")}
        if action == BACKFILL:
            from wakeboard_operator.backfill_annotation import wanted_backfill

            desired, problem = self._read(found)
            try:
                what = {"backfill": wanted_backfill(desired, token, await store.now())} if desired else {}
            except InvalidValue as error:
                what = {"refusal": str(error)}
            if desired is None:
                what = {"refusal": problem.message if problem else "the schedule is not valid"}
        return await store.run_annotation_action(definition_id, action, token, record_only=record_only, **what)


def _known_fields(written: Mapping[str, Any], model: type[BaseModel]) -> dict[str, Any]:
    """Keeps the fields that this release knows. The API server only stores fields of its CRD: others are newer."""
    known: dict[str, Any] = {}
    for name, field in model.model_fields.items():
        word = field.alias or name
        if word not in written:
            continue
        value, kind = written[word], field.annotation
        if isinstance(value, Mapping) and isinstance(kind, type) and issubclass(kind, BaseModel):
            value = _known_fields(cast("Mapping[str, Any]", value), kind)
        known[word] = value
    return known


def _requests(found: Resource) -> list[Requested]:
    """The actions that the annotations of a schedule request."""
    values = ((action, found.annotations.get(action, "")[:253]) for action in ACTIONS)
    return [(found.key, action, value) for action, value in values if value]


def _was_there_at_first(found: Resource, action: str, stored_at: datetime) -> bool:
    """Whether a schedule had the annotation when the object was created, or when its row was stored (`stored_at`).

    False if a user set it in the last minute before that.
    """
    if (last := found.annotated.get(action)) is None:
        return True
    return stored_at - last.at >= (timedelta(0) if last.with_spec else JUST_ANNOTATED)


def _key(full_name: str) -> Key:
    namespace, _, name = full_name.partition("/")
    return namespace, name
