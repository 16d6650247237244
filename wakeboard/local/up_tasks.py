"""Upkeep: all that goes on while `wakeboard up` runs, between the start of its database and the end of it."""

from __future__ import annotations

import asyncio
import math
import time
from contextlib import AsyncExitStack, suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Final

from wakeboard.errors import InvalidSettings, WakeboardError
from wakeboard.local.connection import LocalConnection
from wakeboard.local.event_poller import EventPoller
from wakeboard.local.file_watcher import FileWatcher, module_files
from wakeboard.local.folder_settings import FILE_NAME, shown
from wakeboard.local.live_view import LiveView, can_show_live
from wakeboard.local.manifest_sync import ManifestSync, source_of
from wakeboard.local.manifests import SUFFIXES
from wakeboard.local.picture import Concerns
from wakeboard.local.plain_lines import PlainLines
from wakeboard.local.side_by_side import side_by_side
from wakeboard.local.telling import COULD_NOT_WORK, UP, OutputLine, worker_line
from wakeboard.local.up_file import up_file
from wakeboard.local.worker_spawner import WorkerSpawner
from wakeboard.local.workers import FOLDER_MODULE, WorkerSettings, start_beside, start_worker
from wakeboard.maintenance.loop import MaintenanceLoop
from wakeboard.maintenance.reaper import reap
from wakeboard.maintenance.retention import Retention
from wakeboard.rules.humanize import counted
from wakeboard.rules.sanitize import one_line
from wakeboard.settings import unknown_settings
from wakeboard.store.migrate import migrate
from wakeboard.store.notifications import notifications

if TYPE_CHECKING:
    from collections.abc import Callable

    from wakeboard.local.child_process import ChildProcess
    from wakeboard.local.plain_lines import Screen
    from wakeboard.maintenance.reaper import ReapCounts
    from wakeboard.store.maintenance_api import Store

ROUND_EVERY_S: Final = 2.0
WATCH_EVERY_S: Final = 1.0
AGAIN_AFTER_S: Final = 1.0  # what broke is tried again
BESIDE_MAY_TAKE_S: Final = 3.0
GIVING_BACK_S: Final = 5.0  # a worker needs a moment after its own grace to give its runs back
MOST_NAMES: Final = 3


class UpTasks:
    """The parts, and the order in which they start and stop.

    `keep_database` is called every second; it mends the database and says so, or answers None. `insisted`: do not wait
    for runs at the end.
    """

    def __init__(
        self,
        folder: Path,
        home: Path,
        dsn: str,
        *,
        program: str,
        live: bool,
        wake_every_s: float,
        keep_database: Callable[[], str | None],
        insisted: asyncio.Event,
    ) -> None:
        self._folder, self._home, self._dsn, self._program = folder, home, dsn, program
        self._keep_database, self._insisted, self._live = keep_database, insisted, live
        self._screen: Screen = PlainLines()
        self._concerns = Concerns(self._tell)
        self._line, self._waker_line, self._rounds_line, self._view_line = (LocalConnection(dsn) for _ in range(4))
        self._settings = WorkerSettings(folder, dsn)
        self._loading = ManifestSync(folder, source_of(folder), self._line, self._tell, self._concerns)
        self._waker = WorkerSpawner(
            self._start_worker,
            self._waker_line,
            troubled=self._worker_troubled,
            killed=self._worker_killed,
            tell=self._tell,
            every_s=wake_every_s,
            lifetime_s=self._settings.settings.max_lifetime_seconds,
        )
        self._following = EventPoller(
            self._view_line, self._screen, self._concerns, lambda: self._waker.waking, program=program
        )
        self._beside: ChildProcess | None = None
        self._watch = FileWatcher(folder, self._handler_files())  # before the first load: nothing goes unnoticed
        self._to_load = True
        self._had_handlers = False
        self._reap_at = math.inf

    async def work(self, asked: asyncio.Event) -> None:
        """Works until it is asked to stop, and cleans up behind itself. Raises WakeboardError when it cannot begin."""
        async with AsyncExitStack() as stack:
            for line in (self._line, self._waker_line, self._rounds_line, self._view_line):
                stack.push_async_callback(line.close)
            stack.push_async_callback(self._stop_beside)
            await side_by_side(asked, self._begin(stack))
            if asked.is_set():
                return
            stack.push_async_callback(self._stop_workers)
            stack.callback(self._close_view)
            self._open_view()
            await side_by_side(
                asked,
                self._waker.keep_waking(),
                self._keep_rounds(),
                self._keep_watching(),
                self._keep_listening(),
                self._keep_database_running(),
                self._following.keep_looking(),
            )

    async def _begin(self, stack: AsyncExitStack) -> None:
        await migrate(self._dsn)
        stack.enter_context(up_file(self._home, self._dsn, datetime.now(UTC)))
        self._tell_settings()
        await self._start_beside()
        await self._load()
        await self._loading.run_on_up()
        await self._following.look()

    # -- what is told --------------------------------------------------------------------------------------------------

    def _tell(self, line: OutputLine) -> None:
        self._screen.tell(line)

    def _say(self, text: str, mood: str = "plain") -> None:
        self._tell(OutputLine(UP, text, mood))

    def _tell_settings(self) -> None:
        self._concerns.now("settings", unknown_settings(self._settings.from_file))
        for setting in shown(self._settings.from_file):
            self._say(f"{self._folder / FILE_NAME} says {setting}")
        self._look_for_handlers()
        modules = ", ".join(self._settings.modules)
        self._say(
            f"handlers: {modules}."
            if modules
            else f"no {self._folder / 'handlers.py'}: ping, http and command are known."
        )

    def _open_view(self) -> None:
        if self._live and can_show_live():
            view = LiveView(f"wakeboard up {self._folder}", self._program)
            self._screen = self._following.screen = view
        else:
            self._say("Ctrl-C stops everything.")

    def _close_view(self) -> None:
        self._screen.close()
        self._screen = self._following.screen = PlainLines()
        counts = self._following.counts
        told = [f"{counts[what]} {what}" for what in ("succeeded", "dead", "skipped", "cancelled") if what in counts]
        if failed := counts.get("failed", 0) + counts.get("timed_out", 0):
            told.append(counted(failed, "failed attempt"))
        self._say(f"stopping. Runs since the start: {', '.join(told) or 'none'}.")

    # -- what goes on --------------------------------------------------------------------------------------------------

    async def _keep_rounds(self) -> None:
        settings = self._settings.settings
        maintenance = MaintenanceLoop(
            misfire_grace=settings.misfire_grace, retention=Retention.from_settings(settings), sets_retention=True
        )
        while True:
            with suppress(WakeboardError):  # a board that is away is told about elsewhere
                store = await self._rounds_line.store()
                done = await maintenance.run_due(store, time.monotonic())
                self._concerns.now("duties", [f"{name}: {one_line(str(why))}" for name, why in done.failures.items()])
                taken_back = await self._reap_after_a_kill(store) or done.reaped
                if taken_back.crashed:
                    self._waker.nudge()
            await asyncio.sleep(ROUND_EVERY_S)

    async def _reap_after_a_kill(self, store: Store) -> ReapCounts | None:
        """A worker was killed before our eyes: its runs come back as soon as its leases have lapsed."""
        if time.monotonic() < self._reap_at:
            return None
        self._reap_at = math.inf
        return await reap(store, always=True)

    def _worker_killed(self) -> None:
        self._reap_at = time.monotonic() + self._settings.settings.lease_seconds

    async def _keep_watching(self) -> None:
        while True:
            await asyncio.sleep(WATCH_EVERY_S)
            if changes := self._watch.changes():
                self._say(told_changes(changes, self._folder), "quiet")
                self._take_changes(changes)
                self._watch.also(self._handler_files())
            if self._to_load:
                with suppress(WakeboardError):  # a board that is away is told about elsewhere; it is tried again
                    await self._load()

    def _handler_files(self) -> list[Path]:
        return module_files(self._settings.modules, self._settings.places)

    def _take_changes(self, changes: list[Path]) -> None:
        if any(path.suffix in SUFFIXES for path in changes):
            self._to_load = True
        if any(path.name == FILE_NAME for path in changes):
            self._read_settings()
        if any(path.suffix in {".env", ".py"} for path in changes):
            self._waker.renew()
        self._look_for_handlers()

    def _look_for_handlers(self) -> None:
        """Reports a handlers.py that has disappeared or is not a regular file."""
        file = self._folder / f"{FOLDER_MODULE}.py"
        trouble = ""
        if file.exists() and not file.is_file():
            trouble = f"{file} is not a regular file, so no worker reads it; put a file there, or remove it."
        elif self._had_handlers and not self._settings.modules:
            trouble = f"{file} is gone: no worker knows its job types, and their runs wait until it is back."
        self._had_handlers = self._had_handlers or bool(self._settings.modules)
        self._concerns.now("handlers", [trouble] if trouble else [], over=f"{file} is there; the next worker reads it.")

    async def _load(self) -> None:
        await self._loading.load(self._settings.settings.misfire_grace)
        self._to_load = False
        self._waker_line.queues = self._settings.served(self._loading.queues())

    def _read_settings(self) -> None:
        try:
            self._settings.read()
            _ = self._settings.settings
        except InvalidSettings as error:
            self._concerns.now("settings", str(error).splitlines())
        else:
            self._concerns.now("settings", unknown_settings(self._settings.from_file))

    async def _keep_listening(self) -> None:
        while self._settings.settings.listen:
            with suppress(WakeboardError):
                async for _ in notifications(self._dsn):
                    self._waker.nudge()
            await asyncio.sleep(AGAIN_AFTER_S)

    async def _keep_database_running(self) -> None:
        while True:
            await asyncio.sleep(AGAIN_AFTER_S)
            try:
                if said := self._keep_database():
                    self._say(said, "warn")
            except WakeboardError as error:
                self._concerns.now("PostgreSQL", [str(error)])

    # -- workers, and the program beside them ----------------------------------------------------------------------

    async def _start_worker(self) -> ChildProcess:
        return await start_worker(self._settings, self._waker_line.queues, self._hear_worker)

    def _hear_worker(self, said: str) -> None:
        if said.startswith(COULD_NOT_WORK):
            self._waker.last_words = said.removeprefix(COULD_NOT_WORK)
        elif line := worker_line(said):
            self._tell(line)

    def _worker_troubled(self, sentence: str) -> None:
        self._concerns.now("workers", [sentence] if sentence else [])

    async def _stop_workers(self) -> None:
        working = self._waker.waking.workers
        if working:
            self._say(f"waiting for {counted(working, 'worker')} to finish (Ctrl-C again: do not wait).")
        await self._waker.stop(self._settings.settings.grace_seconds + GIVING_BACK_S, self._insisted)

    async def _start_beside(self) -> None:
        command = self._settings.beside
        if not command:
            return
        name = Path(command[1] if len(command) > 1 else command[0]).name
        try:
            self._beside = await start_beside(
                command,
                self._folder,
                self._settings.from_file,
                lambda said: self._tell(OutputLine(name, said, "quiet")),
            )
        except OSError as error:
            raise InvalidSettings(f"WAKEBOARD_UP_COMPANION={command[0]!r} cannot be run: {error.strerror}.") from error
        self._say(f"{name} runs beside the workers (pid {self._beside.pid}).")

    async def _stop_beside(self) -> None:
        if self._beside is not None:
            await self._beside.stop(BESIDE_MAY_TAKE_S)


def told_changes(changes: list[Path], folder: Path) -> str:
    """`a.yaml, more/b.yaml changed; handlers.py is gone.`, by their places in the folder."""
    gone = [path for path in changes if not path.exists()]
    changed = [path for path in changes if path not in gone]
    parts = [f"{_named(changed, folder)} changed"] if changed else []
    parts += [f"{_named(gone, folder)} {'is' if len(gone) == 1 else 'are'} gone"] if gone else []
    return f"{'; '.join(parts)}."


def _named(paths: list[Path], folder: Path) -> str:
    place = folder.absolute()
    names = [str(path.relative_to(place) if path.is_relative_to(place) else path) for path in paths[:MOST_NAMES]]
    more = len(paths) - len(names)
    return ", ".join(names) + (f" and {counted(more, 'other file')}" if more else "")
