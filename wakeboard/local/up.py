"""`wakeboard up FOLDER`: a database, a folder of schedules, and workers that wake, on this machine, until Ctrl-C.

    lock .wakeboard/ → Postgres → migrate → up.json → the program beside → load the folder → run what runs at the start
    → wake workers, make rounds, watch the folder, follow the board … until SIGINT, SIGTERM or SIGHUP
    → workers finish or give back → the program beside → up.json → Postgres

Whatever is started here is stopped here, in the opposite order; a second Ctrl-C does not wait for runs. On Linux all of
it ends as well when this process is killed. Everything runs in the main thread: the kernel ties children to the thread
that started them.
"""

from __future__ import annotations

import asyncio
import os
import shutil
import signal
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path

from wakeboard.errors import WakeboardError
from wakeboard.local.folder_lock import FolderLock
from wakeboard.local.plain_lines import PlainLines
from wakeboard.local.postgres import EmbeddedPostgres
from wakeboard.local.telling import UP, OutputLine
from wakeboard.local.up_tasks import UpTasks
from wakeboard.store.connection import describe_dsn

EVERYONE_HEARD_S = 0.05  # Ctrl-C is for everyone in the terminal: initdb may tell its end before we notice ours


@dataclass(frozen=True, slots=True, kw_only=True)
class UpOptions:
    """What `wakeboard up` is asked for. `dsn` "": an embedded Postgres in `home`. `fresh`: emptied first.

    `live` False: lines also on a terminal. `program`: how a person types wakeboard; "" finds it out. `wake_every_s`:
    the minute, for those who cannot wait.
    """

    folder: Path
    dsn: str = ""
    fresh: bool = False
    live: bool = True
    home: Path = field(default_factory=lambda: Path(".wakeboard"))
    program: str = ""
    wake_every_s: float = 60.0


def run_up(options: UpOptions) -> int:
    """Runs until it is told to stop; the exit code, 0. Raises WakeboardError when it cannot begin."""
    if not options.folder.is_dir():
        raise WakeboardError(f"there is no folder {options.folder}; name one with JobSchedules, such as examples/")
    if options.fresh and options.dsn:
        raise WakeboardError("--fresh empties the embedded database; it never touches the one of --dsn.")
    return asyncio.run(_run(options))


async def _run(options: UpOptions) -> int:
    stop = Stop()
    stop.listen()
    database = Database(options.home, options.dsn, fresh=options.fresh)
    try:
        database.open()
        up_tasks = UpTasks(
            options.folder,
            options.home,
            database.dsn,
            program=options.program or program_name(),
            live=options.live,
            wake_every_s=options.wake_every_s,
            keep_database=database.keep,
            insisted=stop.insisted,
        )
        await asyncio.sleep(0)  # hears what came while Postgres started
        await up_tasks.work(stop.asked)
    except WakeboardError:
        await asyncio.sleep(EVERYONE_HEARD_S)
        if not stop.asked.is_set():
            raise
    finally:
        database.close()
    return 0


class Stop:
    """Signals that ask us to stop. The second one insists."""

    def __init__(self) -> None:
        self.asked = asyncio.Event()
        self.insisted = asyncio.Event()

    def listen(self) -> None:
        """Hears Ctrl-C, SIGTERM, and the end of the terminal."""
        loop = asyncio.get_running_loop()
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            loop.add_signal_handler(number, self._on_signal)

    def _on_signal(self) -> None:
        (self.insisted if self.asked.is_set() else self.asked).set()


class Database:
    """The database that was named, or one of our own in `home`; either way this folder is ours while it is open."""

    def __init__(self, home: Path, dsn: str, *, fresh: bool) -> None:
        self.home, self.dsn = home, dsn
        self._lock = FolderLock(home.absolute())
        self._postgres = None if dsn else EmbeddedPostgres(home, fresh=fresh)

    def open(self) -> None:
        """Raises WakeboardError: another `up` uses this folder (its pid is named), or Postgres does not start."""
        self.home.mkdir(parents=True, exist_ok=True)
        if self._postgres is None:
            self._lock.take()
            _say(f"using {describe_dsn(self.dsn)}.")
        else:
            began = time.monotonic()
            self.dsn = self._postgres.start()
            _say(f"PostgreSQL runs in {self.home}/ (ready in {time.monotonic() - began:.1f} s).")

    def close(self) -> None:
        """Stops ours, and lets the next one in."""
        if self._postgres is not None:
            self._postgres.stop()
        self._lock.release()

    def keep(self) -> str | None:
        """Starts ours again if it has ended, and says so; None: it runs, or it is not ours."""
        if self._postgres is None or self._postgres.pid is not None:
            return None
        self._postgres.stop()
        self._postgres.start()
        return f"PostgreSQL had ended, and was started again; {self._postgres.log} may say why."


def _say(text: str) -> None:
    PlainLines().tell(OutputLine(UP, text))


def program_name() -> str:
    """How a person types wakeboard: the bare word if their shell finds it, else its path from here."""
    ours = Path(sys.argv[0]).absolute()
    found = shutil.which("wakeboard")
    if ours.name != "wakeboard" or (found and Path(found).resolve() == ours.resolve()):
        return "wakeboard"
    return min(os.path.relpath(ours), str(ours), key=len)
