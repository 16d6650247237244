"""Brings the board up to what a folder declares, as often as the folder changes, and says what that did."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from wakeboard.errors import WakeboardError
from wakeboard.local.manifests import load_folder
from wakeboard.local.telling import UP, OutputLine
from wakeboard.maintenance.desired_schedule import desired_from_files
from wakeboard.maintenance.sync import sync
from wakeboard.rules.humanize import counted

if TYPE_CHECKING:
    from collections.abc import Callable
    from datetime import timedelta
    from pathlib import Path

    from wakeboard.local.connection import LocalConnection
    from wakeboard.local.picture import Concerns
    from wakeboard.maintenance.sync import SyncReport
    from wakeboard.rules.job_schedule import JobSchedule

RUN_ON_UP: Final = "wakeboard.dev/run-on-up"  # an annotation: "true" has it run once whenever `up` starts


class ManifestSync:
    """One folder, and the source on the board that stands for it. Schedules that vanish from it are removed."""

    def __init__(
        self, folder: Path, source: str, line: LocalConnection, tell: Callable[[OutputLine], None], concerns: Concerns
    ) -> None:
        self._folder, self._source, self._line = folder, source, line
        self._tell, self._concerns = tell, concerns
        self.schedules: tuple[JobSchedule, ...] = ()

    async def load(self, misfire_grace: timedelta) -> bool:
        """Reads the folder and syncs; True when the board has changed. Raises WakeboardError: the board is away."""
        try:
            manifests = load_folder(self._folder)
        except WakeboardError as error:
            self._concerns.now("the folder", [str(error)])
            return False
        self._concerns.now("the folder", [])
        report = await sync(
            await self._line.store(),
            self._source,
            desired_from_files(manifests.schedules),
            prune=manifests.complete,
            misfire_grace=misfire_grace,
            spared=manifests.in_doubt,
        )
        self.schedules = manifests.schedules
        cannot = [f"{name} stands still: {why}" for name, why in report.failed.items()]
        held = [report.pending_removal] if report.pending_removal else []
        self._concerns.now("the schedules", [*manifests.problems, *cannot, *held])
        self._tell(OutputLine(UP, f"{self._folder}: {_summary(report, len(manifests.schedules))}."))
        return report.changed

    def queues(self) -> list[str]:
        """The queues that the schedules name, and the default one."""
        return sorted({"default", *(schedule.spec.queue for schedule in self.schedules)})

    async def run_on_up(self) -> None:
        """Runs what asks to be run whenever `up` starts."""
        wanted = {each.full_name for each in self.schedules if each.metadata.annotations.get(RUN_ON_UP) == "true"}
        known = await (await self._line.reports()).schedule_names()
        for name in [each for each in known if each.source == self._source and each.short in wanted]:
            _, answer = await (await self._line.store()).run_now(name.id)
            if answer.startswith("refused"):
                self._tell(OutputLine(UP, f"{name.short} is not run at the start: {answer.removeprefix('refused: ')}."))


def _summary(report: SyncReport, read: int) -> str:
    """How many schedules are in force, and what the sync did; those whose file cannot be read stay as they were."""
    count = report.live + len(report.created) - len(report.removed)
    kept = f"; of these {count - read} as last read" if count > read else ""
    parts = [("new", report.created), ("changed", report.updated), ("removed", report.removed)]
    done = ", ".join(f"{len(names)} {what}" for what, names in parts if names)
    return f"{counted(count, 'schedule')}, {done or 'as before'}{kept}"


def source_of(folder: Path) -> str:
    """The name on the board of what a folder declares."""
    return f"file:{folder.resolve().name}"
