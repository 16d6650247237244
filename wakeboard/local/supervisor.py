"""Supervises what `wakeboard up` runs once its database is ready.

It starts the companion process, syncs the folder, then runs these loops side by side until it is stopped:

    worker spawner       spawns workers at each minute boundary and when runs become due
    maintenance          runs the maintenance tasks: enqueues due ticks, requeues runs of dead workers, deletes history
    file watcher         syncs changed schedules, restarts workers after changes of handlers, settings, alerts
    notifications        wakes the spawner when the store notifies of due runs
    database check       restarts the embedded Postgres if it has exited
    event poller         prints events of runs
    companion watch      reports a companion process that has failed

A failure of one part is reported as a problem and retried. At the end the workers stop first, then the companion
process, then the connections.
"""

from __future__ import annotations

import asyncio
import math
import time
from contextlib import AsyncExitStack, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from wakeboard.actions.admin_api import AdminStore
from wakeboard.alerts.file import AlertFile
from wakeboard.alerts.rules.alert_rules import NO_RULES
from wakeboard.alerts.rules.receivers import secret_names
from wakeboard.engine.maintenance_api import MaintenanceStore
from wakeboard.engine.reaper import reap
from wakeboard.engine.retention import Retention
from wakeboard.errors import InvalidSettings, WakeboardError
from wakeboard.local.child_process import ChildProcess
from wakeboard.local.event_poller import EventPoller
from wakeboard.local.file_watcher import FileWatcher, module_files
from wakeboard.local.manifest_sync import ManifestSync
from wakeboard.local.messages import UP, Printer, Problems, UpLine
from wakeboard.local.worker_settings import COMPANION, FILE_NAME, HANDLER_MODULE, WorkerSettings, redacted
from wakeboard.local.worker_spawner import WorkerSpawner
from wakeboard.maintenance import MaintenanceLoop
from wakeboard.manifests import SUFFIXES
from wakeboard.settings import unknown_settings
from wakeboard.store.notifications import notifications
from wakeboard.store.reconnecting import ReconnectingConnection
from wakeboard.text.humanize import counted
from wakeboard.text.sanitize import one_line
from wakeboard.views.queries.recent_events import EventQueries

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine

    from wakeboard.alerts.rules.alert_rules import AlertSpec
    from wakeboard.board.server import BoardServer
    from wakeboard.engine.reaper import ReapCounts
    from wakeboard.local.messages import Level

MAINTENANCE_INTERVAL_S: Final = 2.0
COUNTS_WITHIN_S: Final = 3.0  # the last line does not delay the end for longer
WATCH_INTERVAL_S: Final = 1.0
RETRY_DELAY_S: Final = 1.0
COMPANION_STOP_TIMEOUT_S: Final = 3.0
RELEASE_TIME_S: Final = 5.0  # after its grace period a worker needs a moment to release its runs
CANCEL_AGAIN_AFTER_S: Final = 0.5
MAX_NAMES: Final = 3
SPARE_PORTS: Final = 20  # after that of the web board, for the case that it is in use
APPLICATION_NAME: Final = "wakeboard up"  # in pg_stat_activity


class Supervisor:
    """Starts, runs and stops the parts.

    `board_port`: the port of the web board, which takes one of the next if it is in use; None: no board.
    `board_token_file`: keeps the token of its address.
    `repair_database` restarts a database that has exited and returns a message; None if there was nothing to do.
    """

    def __init__(
        self,
        folder: Path,
        dsn: str,
        *,
        program: str,
        board_port: int | None,
        board_token_file: Path,
        wake_interval_s: float,
        repair_database: Callable[[], str | None],
    ) -> None:
        self._folder, self._dsn = folder, dsn
        self._board_port, self._board_token_file = board_port, board_token_file
        self._board_secret_file = board_token_file.with_name("board-watch-secret").absolute()
        self._board: BoardServer | None = None
        self._repair_database = repair_database
        self._printer = Printer()
        self._problems = Problems(self._emit)
        self._settings = WorkerSettings(folder, dsn)
        sync_connection = ReconnectingConnection(dsn, APPLICATION_NAME, AdminStore)
        spawn_connection = ReconnectingConnection(dsn, APPLICATION_NAME, EventQueries)
        poll_connection = ReconnectingConnection(dsn, APPLICATION_NAME, EventQueries)
        self._maintenance_connection = ReconnectingConnection(dsn, APPLICATION_NAME, MaintenanceStore)
        self._connections = [sync_connection, spawn_connection, poll_connection, self._maintenance_connection]
        self._sync = ManifestSync(folder, sync_connection, self._problems, emit=self._emit)
        self._spawner = WorkerSpawner(
            self._settings,
            spawn_connection,
            self._problems,
            emit=self._emit,
            on_killed=self._schedule_reap,
            wake_interval_s=wake_interval_s,
        )
        self._poller = EventPoller(poll_connection, self._problems, self._emit, program=program)
        self._companion: ChildProcess | None = None
        self._watcher = FileWatcher(folder, self._handler_files())  # created before the first sync, to miss no change
        self._sync_needed = True
        self._had_handlers = False
        self._reap_at = math.inf

    async def run(self, stop: asyncio.Event, force_stop: asyncio.Event) -> None:
        """Runs until `stop` is set. `force_stop`: do not wait for running runs. Raises WakeboardError at the start."""
        async with AsyncExitStack() as stack:
            for connection in self._connections:
                stack.push_async_callback(connection.close)
            stack.push_async_callback(self._stop_companion)
            stack.push_async_callback(self._stop_board)
            await run_until_stopped(stop, self._start())
            if stop.is_set():
                return
            stack.push_async_callback(self._stop_workers, force_stop)
            stack.push_async_callback(self._log_counts)
            self._log("Ctrl-C stops everything.")
            await run_until_stopped(
                stop,
                self._spawner.run(),
                self._watch_companion(),
                self._run_maintenance(),
                self._watch_files(),
                self._listen(),
                self._check_database(),
                self._poller.run(),
            )

    async def _start(self) -> None:
        self._log_settings()
        self._start_board()
        await self._start_companion()
        await self._sync_folder()
        await self._sync.run_annotated()
        await self._poller.poll()

    # -- output --------------------------------------------------------------------------------------------------------

    def _emit(self, message: UpLine) -> None:
        self._printer.print(message)

    def _log(self, text: str, level: Level = "info") -> None:
        self._emit(UpLine(UP, text, level))

    def _log_settings(self) -> None:
        self._problems.update("settings", unknown_settings(self._settings.from_file))
        for setting in redacted(self._settings.from_file):
            self._log(f"{self._folder / FILE_NAME} sets {setting}")
        self._check_handlers()
        modules = ", ".join(self._settings.modules)
        file = self._folder / f"{HANDLER_MODULE}.py"
        self._log(
            f"Workers load handlers from the module {modules}."
            if modules
            else f"{file} does not exist. Workers run the built-in job type ping. With WAKEBOARD_HTTP_ALLOWED_HOSTS"
            f" they also run http, with WAKEBOARD_COMMANDS also command ({self._folder / FILE_NAME})."
        )

    async def _log_counts(self) -> None:
        try:
            async with asyncio.timeout(COUNTS_WITHIN_S):
                counts = await self._poller.counts()
        except (WakeboardError, TimeoutError):
            self._log("Stopping.")
            return
        parts = [f"{counts[what]} {what}" for what in ("succeeded", "dead", "skipped", "cancelled") if counts.get(what)]
        if failed := counts.get("failed", 0):
            parts.append(counted(failed, "failed attempt"))
        self._log(f"Stopping. Runs since the start: {', '.join(parts) or 'none'}.")

    # -- loops ---------------------------------------------------------------------------------------------------------

    async def _run_maintenance(self) -> None:
        settings = self._settings.settings
        maintenance = MaintenanceLoop(
            misfire_grace=settings.misfire_grace,
            retention=Retention.from_settings(settings),
            decides_retention=True,
            sets_misfire_grace=settings.has_misfire_grace,
            alerts=self._logged_alerts(self._alert_file()),
        )
        while True:
            with suppress(WakeboardError):  # the event poller reports an unavailable database
                store = await self._maintenance_connection.store()
                done = await maintenance.run_due(store, time.monotonic())
                failing = maintenance.failing.items()  # a task that is not due in this pass still fails
                failures = {name: f"Maintenance failed: {name}: {one_line(str(why))}" for name, why in failing}
                self._problems.update_each("maintenance", failures)
                reaped = await self._reap_if_scheduled(store) or done.reaped
                if reaped.crashed:
                    self._spawner.request_check()
            await asyncio.sleep(MAINTENANCE_INTERVAL_S)

    def _alert_file(self) -> AlertFile:
        """The file with the alert rules: that of the setting, or else FOLDER/alerts.yaml if it exists."""
        explicit = self._settings.settings.alerts_file
        return AlertFile(
            Path(explicit or self._settings.local_alerts_file),
            lambda problems: self._problems.update("alerts", list(problems)),
            is_optional=not explicit,
        )

    def _logged_alerts(self, file: AlertFile) -> Callable[[], AlertSpec | None]:
        """Reads the rules, and logs how many there are when the file has changed."""
        logged = NO_RULES

        def alerts() -> AlertSpec | None:
            nonlocal logged
            found = file.alerts()
            if found is not None and found is not logged:
                logged = found
                rules, receivers = counted(len(found.rules), "rule"), counted(len(found.receivers), "receiver")
                beats = f", {counted(len(found.heartbeats), 'heartbeat')}" if found.heartbeats else ""
                self._log(f"Alerts: {rules}, {receivers}{beats}.")
                needed = secret_names([*found.receivers, *found.heartbeats])
                if missing := self._settings.missing_secrets(needed):
                    self._log(f"Receivers cannot be reached without {', '.join(missing)}: set it in {FILE_NAME}.")
            return found

        return alerts

    def _schedule_reap(self) -> None:
        """After a worker was killed: reaps as soon as its leases have expired."""
        self._reap_at = time.monotonic() + self._settings.settings.lease_seconds

    async def _reap_if_scheduled(self, store: MaintenanceStore) -> ReapCounts | None:
        if time.monotonic() < self._reap_at:
            return None
        self._reap_at = math.inf
        return await reap(store, always=True)

    async def _watch_files(self) -> None:
        while True:
            await asyncio.sleep(WATCH_INTERVAL_S)
            if changes := self._watcher.changes():
                self._log(describe_changes(changes, self._folder), "debug")
                self._handle_changes(changes)
                self._watcher.set_files(self._handler_files())
            with suppress(WakeboardError):  # retried; the event poller reports an unavailable database
                if self._sync_needed or await self._sync.is_stopped_by_a_tick():
                    await self._sync_folder()

    def _handler_files(self) -> list[Path]:
        return module_files(self._settings.modules, self._settings.import_paths)

    def _handle_changes(self, changes: list[Path]) -> None:
        if any(path.suffix in SUFFIXES for path in changes):
            self._sync_needed = True
        if any(path.name == FILE_NAME for path in changes):
            self._read_settings()
        if any(path.suffix in {".env", ".py"} or path == self._settings.local_alerts_file for path in changes):
            self._spawner.request_restart()  # a worker delivers alerts only if the file was there at its start
        self._check_handlers()

    def _check_handlers(self) -> None:
        """Reports a handlers.py that was deleted or is not a regular file."""
        file = self._folder / f"{HANDLER_MODULE}.py"
        problem = ""
        if file.exists() and not file.is_file():
            problem = f"{file} is not a regular file, so workers cannot load it. Replace or remove it."
        elif self._had_handlers and not self._settings.modules:
            problem = f"{file} was deleted. Runs of its job types wait until the file exists again."
        self._had_handlers = self._had_handlers or bool(self._settings.modules)
        resolved = f"{file} exists again. The next worker loads it."
        self._problems.update("handlers", [problem] if problem else [], resolved=resolved)

    async def _sync_folder(self) -> None:
        self._sync_needed = not await self._sync.sync(self._settings.settings.misfire_grace)
        self._spawner.queues = self._settings.worker_queues(self._sync.queues())

    def _read_settings(self) -> None:
        try:
            self._settings.read_file()
        except InvalidSettings as error:
            self._problems.update("settings", str(error).splitlines())
        else:
            self._problems.update("settings", unknown_settings(self._settings.from_file))

    async def _listen(self) -> None:
        while self._settings.settings.listen:
            with suppress(WakeboardError):
                async for _ in notifications(self._dsn):
                    self._spawner.request_check()
            await asyncio.sleep(RETRY_DELAY_S)

    async def _check_database(self) -> None:
        while True:
            await asyncio.sleep(RETRY_DELAY_S)
            try:
                repaired = self._repair_database()
            except WakeboardError as error:
                self._problems.update("PostgreSQL", [str(error)])
            else:
                self._problems.update("PostgreSQL", [])
                if repaired:
                    self._log(repaired, "warning")

    # -- the web board -------------------------------------------------------------------------------------------------

    def _start_board(self) -> None:
        if self._board_port is None:
            return
        try:
            from wakeboard.board import BoardOptions
            from wakeboard.board.access.address import AddressAccess, kept_token
            from wakeboard.board.access.run_tokens import RunTokenAccess
            from wakeboard.board.server import BoardServer, listening_socket
        except ModuleNotFoundError as error:
            self._log(f"There is no web board: {error.name} is not installed. Type: pip install 'wakeboard[board]'")
            return
        listener = listening_socket("127.0.0.1", self._board_port, spare_ports=SPARE_PORTS)
        if listener.getsockname()[1] != self._board_port != 0:
            self._log(f"Port {self._board_port} is in use; the web board takes another one.", "warning")
        hint = f"`wakeboard up` printed the address with the token, which is also in {self._board_token_file}."
        access = AddressAccess(kept_token(self._board_token_file), hint)
        kept_token(self._board_secret_file)
        options = BoardOptions(
            dsn=self._dsn,
            listen=self._settings.settings.listen,
            log_link=self._settings.settings.log_link,
            access=access,
            run_tokens=RunTokenAccess(self._board_secret_file, self._settings.watch_origins),
        )
        self._board = BoardServer(options, listener, handles_signals=False)
        self._board.start()
        self._settings.board_url = self._board.address
        self._settings.watch_secrets_file = str(self._board_secret_file)
        self._log(f"The web board is at {self._board.login_address}", "success")

    async def _stop_board(self) -> None:
        if self._board is not None:
            await self._board.stop()

    # -- workers and the companion process -----------------------------------------------------------------------------

    async def _stop_workers(self, force: asyncio.Event) -> None:
        if running := self._spawner.worker_count:
            self._log(f"Waiting for {counted(running, 'worker')} to finish. Press Ctrl-C again to stop at once.")
        await self._spawner.stop(self._settings.settings.grace_seconds + RELEASE_TIME_S, force)

    async def _start_companion(self) -> None:
        command = self._settings.companion_command
        if not command:
            return
        name = Path(command[1] if len(command) > 1 else command[0]).name
        try:
            self._companion = await ChildProcess.start(
                command,
                environment=self._settings.companion_environment(),
                folder=self._folder,
                on_line=lambda line: self._emit(UpLine(name, line, "debug")),
            )
        except OSError as error:
            raise InvalidSettings(f"{COMPANION}={command[0]!r} cannot be run: {error.strerror}.") from error
        self._log(f"The companion process {name} runs (pid {self._companion.pid}).")

    async def _watch_companion(self) -> None:
        """A companion that failed stays a problem: `up` does not start it again, and handlers may need it."""
        if self._companion is not None and (code := await self._companion.wait()):
            how = f"with code {code}" if code > 0 else f"by signal {-code}"
            self._problems.update(
                "companion", [f"The companion process ended {how}. Mend what it said and start `wakeboard up` again."]
            )

    async def _stop_companion(self) -> None:
        if self._companion is not None:
            await self._companion.stop(COMPANION_STOP_TIMEOUT_S)


def describe_changes(changes: list[Path], folder: Path) -> str:
    """`a.yaml, more/b.yaml changed; handlers.py was deleted.`, with paths relative to the folder."""
    deleted = [path for path in changes if not path.exists()]
    changed = [path for path in changes if path not in deleted]
    parts = [f"{_names(changed, folder)} changed"] if changed else []
    parts += [f"{_names(deleted, folder)} {'was' if len(deleted) == 1 else 'were'} deleted"] if deleted else []
    return f"{'; '.join(parts)}."


def _names(paths: list[Path], folder: Path) -> str:
    root = folder.absolute()
    names = [str(path.relative_to(root) if path.is_relative_to(root) else path) for path in paths[:MAX_NAMES]]
    more = len(paths) - len(names)
    return ", ".join(names) + (f" and {counted(more, 'other file')}" if more else "")


async def run_until_stopped(stop: asyncio.Event, *coroutines: Coroutine[Any, Any, object]) -> None:
    """Runs coroutines side by side until all are done, one fails, or `stop` is set. Leaves no task running.

    Raises the first error. A task that does not end is cancelled again, because Python 3.11 may lose a cancellation
    that arrives in the moment in which an awaited future completes.
    """
    tasks = [asyncio.create_task(coroutine) for coroutine in coroutines]
    stopped = asyncio.create_task(stop.wait())
    pending: set[asyncio.Task[Any]] = {stopped, *tasks}
    try:
        while not (stopped.done() or all(task.done() for task in tasks) or _first_error(tasks)):
            _, pending = await asyncio.wait(pending, return_when=asyncio.FIRST_COMPLETED)
    finally:
        while pending := {task for task in (stopped, *tasks) if not task.done()}:
            for task in pending:
                task.cancel()
            await asyncio.wait(pending, timeout=CANCEL_AGAIN_AFTER_S)
    if error := _first_error(tasks):
        raise error


def _first_error(tasks: list[asyncio.Task[object]]) -> BaseException | None:
    errors = (task.exception() for task in tasks if task.done() and not task.cancelled())
    return next((error for error in errors if error is not None), None)
