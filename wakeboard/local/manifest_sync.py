"""Syncs the schedules of a folder to the store and reports what changed and what is wrong."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from wakeboard.actions.admin_api import AdminStore
from wakeboard.dependencies.queries import missing_parents
from wakeboard.errors import InvalidValue, WakeboardError
from wakeboard.limits import calls
from wakeboard.local.messages import UP, UpLine
from wakeboard.manifests import declared_limits, load_folder
from wakeboard.process.system_user import system_user
from wakeboard.schedules.desired_schedule import desired_from_files
from wakeboard.schedules.sync import sync
from wakeboard.text.humanize import counted
from wakeboard.text.sanitize import one_line
from wakeboard.views.queries.listings import Listings, sources_with_same_name

if TYPE_CHECKING:
    from collections.abc import Callable
    from datetime import timedelta
    from pathlib import Path

    from wakeboard.local.messages import Problems
    from wakeboard.manifests import Manifests
    from wakeboard.schedules.rules.job_schedule import JobSchedule
    from wakeboard.schedules.sync import SyncReport
    from wakeboard.store.reconnecting import ReconnectingConnection

RUN_ON_UP: Final = "wakeboard.dev/run-on-up"  # annotation; "true": run the schedule once when `up` starts


class ManifestSync:
    """Syncs one folder under one source. A schedule that is deleted from the folder is removed from the store."""

    def __init__(
        self,
        folder: Path,
        connection: ReconnectingConnection[AdminStore],
        problems: Problems,
        *,
        emit: Callable[[UpLine], None],
    ) -> None:
        self._folder, self._source = folder, f"file:{folder.resolve().name}"
        self._connection, self._problems, self._emit = connection, problems, emit
        self._schedules: tuple[JobSchedule, ...] = ()
        self._duplicates: set[str] = set()  # of which a message has warned
        self._must_retry = False
        self._stalled: set[str] = set()  # as the last sync left them

    async def sync(self, misfire_grace: timedelta) -> bool:
        """Reads the folder and updates the store. Raises WakeboardError if the store is unavailable.

        Returns False if it must be called again: another transaction has locked a schedule or a limit, or an
        application has the name of a schedule.
        """
        try:
            manifests = load_folder(self._folder)
        except WakeboardError as error:
            self._problems.update("folder", [str(error)])
            return True
        self._problems.update("folder", [])
        report = await sync(
            await self._connection.store(),
            self._source,
            desired_from_files(manifests.schedules),
            prune=manifests.complete,
            misfire_grace=misfire_grace,
            spared=manifests.invalid,
        )
        self._schedules = manifests.schedules
        names = {each.full_name for each in manifests.schedules}
        self._problems.update("after", await missing_parents((await self._connection.store()).conn, names))
        limited, locked_limits = await self._declare_limits(manifests)
        failed = [f"{name} is not scheduled: {error}" for name, error in report.failed.items()]
        pending = [report.pending_removal] if report.pending_removal else []
        unremoved = report.missing if manifests.complete and not pending else []
        locked = [
            f"{name} is not {change} yet: another transaction has locked it; trying again."
            for change, names in (("updated", report.contended), ("removed", unremoved))
            for name in names
        ] + locked_limits
        self._problems.update("schedules", [*manifests.problems, *failed, *limited, *pending, *locked])
        if report.changed or not self._must_retry:
            loaded = len(manifests.schedules) + len(unremoved)
            self._emit(UpLine(UP, f"{self._folder.resolve().name}: {_summary(report, loaded)}."))
        self._must_retry = bool(locked or report.taken)
        await self._warn_of_duplicates()
        self._stalled = await self._read_stalled()
        return not self._must_retry

    async def is_stopped_by_a_tick(self) -> bool:
        """Whether a tick has stopped a schedule since the last sync, which says why: an application has its name."""
        return not await self._read_stalled() <= self._stalled

    async def _read_stalled(self) -> set[str]:
        return await Listings((await self._connection.store()).conn).stalled(self._source)

    async def _declare_limits(self, manifests: Manifests) -> tuple[list[str], list[str]]:
        """Declares the limits of the folder. Returns what is wrong, and which limits another transaction has locked."""
        limits = declared_limits(manifests, removes=True)
        if limits is None:
            return [], []
        try:
            changed = await calls.declare_limits(
                await self._connection.store(), self._source, limits.rows(), actor=system_user(), program="up"
            )
        except InvalidValue as error:
            return [f"The limits are not declared: {error}"], []
        if parts := [f"{key} {answer}" for key, answer in sorted(changed.items()) if answer != "locked"]:
            self._emit(UpLine(UP, f"Limits: {', '.join(map(one_line, parts))}."))
        locked = sorted(key for key, answer in changed.items() if answer == "locked")
        return [], [
            f"The limit {key} is not set yet: another transaction has locked it; trying again." for key in locked
        ]

    async def _warn_of_duplicates(self) -> None:
        names = [_name(each) for each in self._schedules if each.full_name not in self._duplicates]
        known = await Listings((await self._connection.store()).conn).schedules_called(names)
        for name, sources in sources_with_same_name(known, self._source).items():
            self._duplicates.add(name)
            self._emit(UpLine(UP, f"{name} is also a schedule of {', '.join(sources)}; both run.", "warning"))

    def queues(self) -> list[str]:
        """The queues of the schedules, and the default queue."""
        return sorted({"default", *(schedule.spec.queue for schedule in self._schedules)})

    async def run_annotated(self) -> None:
        """Enqueues a run of each schedule with the annotation `wakeboard.dev/run-on-up`."""
        wanted = [_name(each) for each in self._schedules if each.metadata.annotations.get(RUN_ON_UP) == "true"]
        conn = (await self._connection.store()).conn
        store = AdminStore(conn, actor=system_user(), source="up")
        known = await Listings(conn).schedules_called(wanted)
        for name in [each for each in known if each.source == self._source]:
            _, answer = await store.run_now(name.id)
            if answer.startswith("refused"):
                text = f"{name.short} was not run at the start: {answer.removeprefix('refused: ')}."
                self._emit(UpLine(UP, text, "warning"))


def _name(schedule: JobSchedule) -> tuple[str, str]:
    return schedule.metadata.namespace, schedule.metadata.name


def _summary(report: SyncReport, loaded: int) -> str:
    """`7 schedules, 2 created, 1 removed`. A schedule whose file cannot be read keeps its earlier spec."""
    count = report.live + report.restored + len(report.created) - len(report.removed)
    kept = f"; {counted(count - loaded, 'schedule')} kept as last loaded" if count > loaded else ""
    parts = [("created", report.created), ("updated", report.updated), ("removed", report.removed)]
    changes = ", ".join(f"{len(names)} {what}" for what, names in parts if names)
    return f"{counted(count, 'schedule')}, {changes or 'unchanged'}{kept}"
