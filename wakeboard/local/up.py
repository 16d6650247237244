"""`wakeboard up FOLDER`: runs a database, a folder of schedules and their workers on this machine until Ctrl-C.

Start order: lock FOLDER/.wakeboard/, Postgres, migrations, up.json, then the supervisor (companion process, schedules,
workers). SIGINT, SIGTERM and SIGHUP stop everything in reverse order. A second signal does not wait for running runs.
On Linux, everything also ends when this process is killed. All child processes are started in the main thread, because
the kernel ends them with the thread that started them.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import time
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

from wakeboard.errors import WakeboardError
from wakeboard.local.messages import UP, Printer, UpLine
from wakeboard.local.postgres import EmbeddedPostgres, FolderLock
from wakeboard.local.supervisor import Supervisor, run_until_stopped
from wakeboard.local.worker_settings import WorkerSettings
from wakeboard.process.program_name import program_name
from wakeboard.process.running_up import UP_FILE, running_up
from wakeboard.store.connection import describe_dsn
from wakeboard.store.migrate import migrate

if TYPE_CHECKING:
    from collections.abc import Callable, Generator

HOME = ".wakeboard"
SIGNAL_DELAY_S = 0.05  # Ctrl-C reaches all processes of the terminal: initdb may fail before our handler runs


@dataclass(frozen=True, slots=True, kw_only=True)
class UpOptions:
    """The options of `wakeboard up`.

    `dsn`: the database; "" for an embedded Postgres in `home`. `fresh`: empty the embedded database first.
    `board_port`: the port of the web board; None: no board. `program`: the command to type for wakeboard; "" detects
    it. `wake_interval_s`: seconds between two wakes; tests shorten it.
    """

    folder: Path
    dsn: str = ""
    fresh: bool = False
    board_port: int | None = None
    program: str = ""
    wake_interval_s: float = 60.0


def run_up(options: UpOptions) -> int:
    """Runs until a signal stops it and returns the exit code 0. Raises WakeboardError if it cannot start."""
    if not options.folder.is_dir():
        raise WakeboardError(f"there is no folder {options.folder}; name one with JobSchedules, such as examples/shop/")
    if options.fresh and options.dsn:
        raise WakeboardError("--fresh empties only the embedded database; omit it when --dsn names a database.")
    WorkerSettings(options.folder, options.dsn)  # mistakes in wakeboard.env are said before Postgres starts
    return asyncio.run(_run(options))


async def _run(options: UpOptions) -> int:
    signals = StopSignals()
    signals.install()
    home = home_of(options.folder)
    say = Printer().print
    database = Database(home, options.dsn, fresh=options.fresh)
    try:
        database.open()
        supervisor = Supervisor(
            options.folder,
            database.dsn,
            program=options.program or program_name(),
            board_port=options.board_port,
            board_token_file=home / "board-token",
            wake_interval_s=options.wake_interval_s,
            repair_database=database.repair,
        )
        await asyncio.sleep(0)  # handles signals that arrived while Postgres started
        migrating = migrate(database.dsn, say=lambda text: say(UpLine(UP, text, "warning")))
        await run_until_stopped(signals.stop, migrating)
        if not signals.stop.is_set():
            with up_file(home, database.dsn, datetime.now(UTC), say):
                await supervisor.run(signals.stop, signals.force_stop)
    except WakeboardError:
        await asyncio.sleep(SIGNAL_DELAY_S)
        if not signals.stop.is_set():
            raise
    finally:
        database.close()
    return 0


def home_of(folder: Path) -> Path:
    """Creates and returns .wakeboard/ in the folder or, if that cannot be written, in the current folder."""
    home = folder / HOME
    try:
        home.mkdir(exist_ok=True)
        if os.access(home, os.W_OK):
            return home
    except FileExistsError:  # a file has its name
        raise
    except OSError:
        pass
    Printer().print(UpLine(UP, f"{folder} cannot be written: the database is in {HOME}/ of this folder.", "warning"))
    Path(HOME).mkdir(exist_ok=True)
    return Path(HOME)


class StopSignals:
    """Sets `stop` at the first signal to stop, and `force_stop` at the second."""

    def __init__(self) -> None:
        self.stop = asyncio.Event()
        self.force_stop = asyncio.Event()

    def install(self) -> None:
        """Handles Ctrl-C, SIGTERM, and the end of the terminal."""
        loop = asyncio.get_running_loop()
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            loop.add_signal_handler(number, self._on_signal)

    def _on_signal(self) -> None:
        (self.force_stop if self.stop.is_set() else self.stop).set()


class Database:
    """The database of --dsn, or an embedded Postgres in `home`. Locks `home` in both cases."""

    def __init__(self, home: Path, dsn: str, *, fresh: bool) -> None:
        self.home, self.dsn = home, dsn
        self._lock = FolderLock(home.absolute())
        self._postgres = None if dsn else EmbeddedPostgres(home, fresh=fresh)

    def open(self) -> None:
        """Raises WakeboardError if another `up` uses the folder (with its pid), or if Postgres does not start."""
        if self._postgres is None:
            self._lock.acquire()
            text = f"Using {describe_dsn(self.dsn)}."
        else:
            started_at = time.monotonic()
            self.dsn = self._postgres.start()
            text = f"PostgreSQL runs in {self.home}/ (started in {time.monotonic() - started_at:.1f} s)."
        Printer().print(UpLine(UP, text))

    def close(self) -> None:
        """Stops the embedded Postgres and releases the lock."""
        if self._postgres is not None:
            self._postgres.stop()
        self._lock.release()

    def repair(self) -> str | None:
        """Restarts the embedded Postgres if it has exited. Returns a message, or None if there was nothing to do."""
        if self._postgres is None or self._postgres.pid is not None:
            return None
        self._postgres.stop()
        self._postgres.start()
        return f"PostgreSQL exited and was restarted. See {self._postgres.log}."


@contextmanager
def up_file(home: Path, dsn: str, started_at: datetime, say: Callable[[UpLine], None]) -> Generator[None]:
    """Writes up.json inside the block, readable by its owner only. Other commands find the database through it.

    It is in `home`, and in .wakeboard/ of the current folder. There it is not written if the folder cannot be, or if
    commands find the database of another `up` there.
    """
    text = json.dumps({"pid": os.getpid(), "dsn": dsn, "started_at": started_at.isoformat(timespec="seconds")})
    _write_privately(home / "up.json", text)
    is_elsewhere = home.absolute() != UP_FILE.parent.absolute()
    if is_elsewhere and (pid := running_up().get("pid", os.getpid())) != os.getpid():
        is_elsewhere = False
        found = f"Commands in this folder use the database of another `up` (process {pid})"
        say(UpLine(UP, f"{found}; those in {home.parent}/ use that of this one.", "warning"))
    if is_elsewhere:
        with suppress(OSError):
            UP_FILE.parent.mkdir(exist_ok=True)
            _write_privately(UP_FILE, text)
    try:
        yield
    finally:
        (home / "up.json").unlink(missing_ok=True)
        if is_elsewhere:
            with suppress(OSError):
                if UP_FILE.read_text("utf-8") == text:
                    UP_FILE.unlink()
                UP_FILE.parent.rmdir()  # only if it is empty


def _write_privately(path: Path, text: str) -> None:
    draft = path.with_suffix(".new")
    draft.unlink(missing_ok=True)
    with os.fdopen(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w", encoding="utf-8") as file:
        file.write(text)
    draft.replace(path)
