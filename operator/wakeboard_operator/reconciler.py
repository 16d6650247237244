"""Reconciling: the board's definitions brought up to the JobSchedules of the cluster.

A complete list is authoritative. It is made at the start of a term, every minute, and soon after a deletion. Only after
such a list are schedules removed: those that the API server has reported as deleted, and those that are missing. A
large removal of missing ones waits for a confirmation (missing_schedules.py). A list that fails changes nothing.

Between lists, changes from the stream are applied in batches: a thousand edits become a few statements. An invalid spec
is left out, and the last valid one stays in force.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final, cast

from pydantic import BaseModel

from wakeboard.errors import InvalidSchedule, Locked
from wakeboard.maintenance.desired_schedule import DesiredSchedule
from wakeboard.maintenance.prune import needs_confirmation, remove, suspend_deleted
from wakeboard.maintenance.sync import sync
from wakeboard.rules.humanize import counted
from wakeboard.rules.job_schedule import API_VERSION, JobScheduleSpec, load_job_schedule
from wakeboard_operator.missing_schedules import MissingSchedules
from wakeboard_operator.ownership import Ownership
from wakeboard_operator.problems import FOREIGN, INVALID, Problem
from wakeboard_operator.resources import KIND
from wakeboard_operator.tenancy import outside
from wakeboard_operator.watch import Deleted

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from datetime import datetime
    from typing import Protocol

    from wakeboard.maintenance.sync import SyncReport
    from wakeboard.store.leader_api import LeaderStore
    from wakeboard.store.maintenance_api import KnownDefinition
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

ACTIONS: Final = ("run-now", "retry-dead", "discard-dead")


class Reconciler:
    """What one term knows about its source. `dirty`: those whose status must be computed anew, for the writer."""

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
        self.absences = MissingSchedules()
        self._deletions = deletions
        self._misfire_grace = settings.misfire_grace
        self._acted: set[tuple[Key, str, str]] = set()  # tokens that this term has dealt with
        self.cache = cache
        self.dirty: set[Key] = set()
        self.held: str | None = None  # a removal that waits for a yes
        self.last_full_at: float | None = None  # time.monotonic()
        self.again_s: float | None = None  # seconds until another list is needed

    async def full(
        self, store: LeaderStore, listing: Listing, listed_at: datetime, now: float | None = None
    ) -> SyncReport:
        """Brings the board up to a complete list. `listed_at`: the database's time before the list was asked for.

        `now`: monotonic seconds.
        """
        if self.last_full_at is None:
            self.ownership.rows(await store.list_definitions(self._source))
        listed = {found.key for found in listing.resources}
        for key in self.cache:
            if key not in listed:
                self.cache.forget(key)
                self.ownership.forget(key)
        declared, news = self._look_at(listing.resources)
        try:
            report = await sync(
                store,
                self._source,
                declared.values(),
                prune=False,
                spared=listed - declared.keys(),  # whatever was listed is declared, if in words that cannot be read
                listed_at=listed_at,
                misfire_grace=self._misfire_grace,
            )
            await self._remove(store, report, listed_at, time.monotonic() if now is None else now)
            await self._after(store, report, listing.resources)
        finally:
            self.dirty |= news  # only now: what stands on the board is known with its row, and not told as missing
        if report.removed:
            log.info("removed because no longer declared: %s", counted(len(report.removed), "schedule"))
        for installation, count in self.ownership.taken_over().items():
            log.warning("took over %s that installation %s ran", counted(count, "schedule"), installation)
        self.last_full_at = time.monotonic()
        return report

    async def _remove(self, store: LeaderStore, report: SyncReport, listed_at: datetime, now: float) -> None:
        """Removes absent schedules from the database, all of them or none."""
        gone: set[str] = set()
        if self._deletions is not None and needs_confirmation(len(report.missing_definitions), report.live):
            gone = await self._deletions.namespaces_gone({each.namespace for each in report.missing_definitions})
        reported, missing, self.again_s = self.absences.sort(report.missing_definitions, report.live, now, gone)
        report.removed, report.pending_removal = await remove(
            store, self._source, missing, report.live, listed_at, reported=reported
        )
        self.held = report.pending_removal
        if report.pending_removal is not None:
            await self._stop(store, missing)
        removed = set(report.removed)
        report.missing = [name for name in report.missing if name not in removed]

    async def _stop(self, store: LeaderStore, held: Sequence[KnownDefinition]) -> None:
        """Suspends schedules whose removal is held and whose objects no longer exist."""
        if self._deletions is None:
            return
        running = {(each.namespace, each.name): each for each in held if each.spec_hash}
        gone = await self._deletions.objects_gone({key: each.uid for key, each in running.items()})
        await suspend_deleted(store, self._source, [running[key] for key in gone])

    async def changes(self, store: LeaderStore, batch: Mapping[Key, Resource | Deleted]) -> bool:
        """Brings the board up to what the stream has shown. True: something was deleted, so a list is wanted soon."""
        resources = [each for each in batch.values() if not isinstance(each, Deleted)]
        found = [each for each in resources if not self.saw_only_its_status(each)]
        declared, news = self._look_at(found)
        try:
            if declared:
                report = await sync(
                    store, self._source, declared.values(), prune=False, misfire_grace=self._misfire_grace
                )
                await self._after(store, report, found)
        finally:
            self.dirty |= news
        return len(resources) < len(batch)

    def saw_only_its_status(self, found: Resource) -> bool:
        """Whether nothing has changed but the status, most often by this operator's own write; that is noted here."""
        known = self.cache.get(found.key)
        if known is None or known.problem is not None:
            return False
        old = known.resource
        if (old.uid, old.generation, old.annotations) != (found.uid, found.generation, found.annotations):
            return False
        if self.ownership.problem(found) is not None:
            return False
        if self.cache.see(found, None):
            self.dirty.add(found.key)
        return True

    def _look_at(self, found: Iterable[Resource]) -> tuple[dict[Key, DesiredSchedule], set[Key]]:
        """What they declare, and those with news. What cannot be honoured, or is older than known, declares nothing."""
        declared: dict[Key, DesiredSchedule] = {}
        news: set[Key] = set()
        for each in found:
            read, problem = self._read(each)
            if self.cache.see(each, problem):
                news.add(each.key)
                self._heard_of_an_owner(each, problem)
            known = self.cache.get(each.key)
            if read is not None and known is not None and known.resource.resource_version == each.resource_version:
                declared[each.key] = read
        return declared, news

    def _heard_of_an_owner(self, found: Resource, problem: Problem | None) -> None:
        """Records that an operator of another installation has repaired a status that this one wrote."""
        known = self.cache.get(found.key)
        if problem is None or problem.reason != FOREIGN or known is None or not known.written_at:
            return
        if known.says_foreign():
            return
        self.ownership.others.has_answered(self.ownership.claim(found.key), time.monotonic())

    def _read(self, found: Resource) -> tuple[DesiredSchedule | None, Problem | None]:
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
            return None, Problem(INVALID, " ".join(f"{each.removeprefix(': ')}." for each in error.problems))
        problem = outside(self._settings.tenancy, found.namespace, spec.queue, spec.job_type)
        if problem is not None:
            return None, problem
        return DesiredSchedule(found.namespace, found.name, spec, found.uid, found.generation), None

    async def _after(self, store: LeaderStore, report: SyncReport, found: Iterable[Resource]) -> None:
        for full_name, why in report.failed.items():
            key = _key(full_name)
            if (known := self.cache.get(key)) is not None:
                known.problem = Problem(INVALID, f"{why}.")
        rows = await store.list_definitions(self._source)
        self.ownership.rows(rows)
        for known in rows:
            if not known.removed:
                self.cache.link((known.namespace, known.name), known.id)
        created = set(map(_key, report.created))
        self.dirty |= created | set(map(_key, [*report.updated, *report.failed, *report.contended]))
        await self._act(store, found, created)

    async def _act(self, store: LeaderStore, found: Iterable[Resource], created: set[Key]) -> None:
        """Annotations that ask for something, each token once."""
        for each in found:
            known = self.cache.get(each.key)
            if known is None or known.definition_id is None or known.problem is not None:
                continue
            for action in ACTIONS:
                token = each.annotations.get(action, "")[:253]
                if not token or (each.key, action, token) in self._acted:
                    continue
                try:
                    acted = await store.run_annotation_action(
                        known.definition_id, action, token, record_only=each.key in created
                    )
                except Locked as error:  # the next list asks again; the others do not wait for it
                    log.warning("%s %s of %s: %s", action, token, each.full_name, error)
                    continue
                self._acted.add((each.key, action, token))
                if acted.new:
                    log.info("%s %s of %s: %s", action, token, each.full_name, acted.result)
                    self.dirty.add(each.key)


def _known_fields(written: Mapping[str, Any], model: type[BaseModel]) -> dict[str, Any]:
    """What this release knows of it. The API server keeps only what its resource definition has: the rest is newer."""
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


def _key(full_name: str) -> Key:
    namespace, _, name = full_name.partition("/")
    return namespace, name
