"""A PostgreSQL server of our own in a folder: started, stopped, and never left behind.

    FOLDER/lock            names the process that uses the folder
    FOLDER/postgres.log    what the server says, from its last start on
    FOLDER/data            the database; survives a stop and a crash
    FOLDER/socket          where programs reach it, if its path is short and plain enough; otherwise TCP on loopback
    FOLDER/pg_hba.conf     asks everyone for a password, written at each start
    FOLDER/password        the superuser's; readable by whoever started us alone, and never by the server's user

Root runs the server as `nobody`; where `nobody` cannot enter FOLDER, data, socket and pg_hba.conf lie elsewhere
(postgres_user.py). Other processes of `nobody` have no password and none of our environment.
The server is a direct child. On Linux the kernel stops it when this process ends, however it ends; elsewhere a process
that is killed leaves it running, and the next start names its pid. No process is ever signalled but that child.
"""

from __future__ import annotations

import atexit
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from typing import TYPE_CHECKING, Self
from urllib.parse import quote

from wakeboard.errors import WakeboardError
from wakeboard.local.folder_lock import FolderLock
from wakeboard.local.postgres_binaries import find_binaries
from wakeboard.local.postgres_data import DATABASE, LOOK_EVERY_S, SUPERUSER, PostgresData
from wakeboard.local.postgres_user import (
    account_for_server,
    enterable_binaries,
    enterable_home,
    make_private_folder,
)

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

START_WITHIN_S = 60.0  # a long recovery after a crash
STOP_WITHIN_S = 30.0
STILL_IN_USE = "shared memory block"  # the postmaster was killed, and its last children are just about to see it

SOCKET_FOLDER_BYTES = 93 if sys.platform == "linux" else 89  # the rest of sun_path is the socket's own name
SOCKET_PORT = 5432  # only a part of the socket's name; the folder makes it unique

NOT_DURABLE = {"fsync": "off", "synchronous_commit": "off", "full_page_writes": "off"}
"""Settings that lose data when the machine stops: for tests only."""


class EmbeddedPostgres:
    """A server with an empty database `wakeboard`, and its superuser's DSN.

    Use it as a context manager, or call `start` and `stop`; both may be repeated, and a second start of the same object
    gives the same DSN. `fresh` removes the data that earlier processes left, at the first start. `settings` are
    postgresql.conf settings. `binaries` is a folder from `find_binaries`; the embedded ones if not given.
    `tcp` listens on loopback instead of on a socket. `trusting` asks nobody for a password on the socket: for tests,
    which have many roles.
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
        """The superuser's address of the database, once started."""
        return self._dsn

    @property
    def pid(self) -> int | None:
        """The server's pid while it runs."""
        return self._server.pid if self._server and self._server.poll() is None else None

    @property
    def log(self) -> Path:
        """The server's log of this start."""
        return self.folder / "postgres.log"

    def start(self) -> str:
        """Starts the server and returns the DSN once it takes connections.

        Call it in the main thread: Linux stops the server when the thread that started it ends.

        Raises:
            WakeboardError: the extra is not installed, another process uses the folder, or Postgres did not start.
        """
        if self.pid is not None:
            return self._dsn
        if threading.current_thread() is not threading.main_thread():
            raise RuntimeError("EmbeddedPostgres.start must be called in the main thread.")
        self.folder.mkdir(parents=True, exist_ok=True)
        self._lock.take()
        try:
            self._start_locked()
        except BaseException:
            self.stop()
            raise
        return self._dsn

    def stop(self) -> None:
        """Stops the server: clients are disconnected, everything committed is kept. Without effect if none runs."""
        if self._server is not None:
            _stop_child(self._server)
            self._server = None
            atexit.unregister(self.stop)
        self._lock.release()

    def _start_locked(self) -> None:
        account = account_for_server()
        home = enterable_home(self.folder, account)
        binaries = enterable_binaries(self._binaries or find_binaries(), account)
        data = PostgresData(home, binaries, account, self.folder / "password")
        data.wait_for_predecessor()
        if self._fresh:
            data.remove()
            self._fresh = False
        data.make()
        atexit.register(self.stop)
        self._dsn, address = self._choose_address(data)
        access = {"hba_file": str(data.write_access(trusting=self._trusting))}
        self._spawn_until_ready(data, {**self._settings, **access, **address})

    def _choose_address(self, data: PostgresData) -> tuple[str, dict[str, str]]:
        """The DSN, and the settings that make the server listen there."""
        socket_folder = data.home / "socket"
        if not self._tcp and _can_hold_socket(socket_folder):
            make_private_folder(socket_folder, data.account)
            user = SUPERUSER if self._trusting else f"{SUPERUSER}:{data.password()}"
            dsn = f"postgresql://{user}@/{DATABASE}?host={quote(str(socket_folder), safe='')}&port={SOCKET_PORT}"
            place = str(socket_folder).replace('"', '""')
            return dsn, {"listen_addresses": "", "port": str(SOCKET_PORT), "unix_socket_directories": f'"{place}"'}
        self._port = self._port or _free_port()
        dsn = f"postgresql://{SUPERUSER}:{data.password()}@127.0.0.1:{self._port}/{DATABASE}"
        return dsn, {"listen_addresses": "127.0.0.1", "port": str(self._port), "unix_socket_directories": ""}

    def _spawn_until_ready(self, data: PostgresData, settings: dict[str, str]) -> None:
        deadline = time.monotonic() + START_WITHIN_S
        while not self._spawn(data, settings, deadline):
            if STILL_IN_USE not in _said(self.log) or time.monotonic() > deadline:
                raise WakeboardError(f"PostgreSQL did not start: {_last_complaint(self.log)} ({self.log})")
            time.sleep(LOOK_EVERY_S)

    def _spawn(self, data: PostgresData, settings: dict[str, str], deadline: float) -> bool:
        """Whether the server takes connections; otherwise it has ended, and its log says why."""
        with self.log.open("wb") as log:
            server = self._server = data.spawn(settings, log)
        while not data.is_ready(server.pid):
            if server.poll() is not None:
                return False
            if time.monotonic() > deadline:
                raise WakeboardError(f"PostgreSQL did not start within {START_WITHIN_S:.0f} s; see {self.log}")
            time.sleep(LOOK_EVERY_S)
        return True


def _can_hold_socket(folder: Path) -> bool:
    """Whether the path is short enough; clients would take one with a comma for two."""
    return len(os.fsencode(folder)) <= SOCKET_FOLDER_BYTES and "," not in str(folder)


def _stop_child(server: subprocess.Popen[bytes]) -> None:
    """Fast shutdown first, then ever less polite."""
    for how in (signal.SIGINT, signal.SIGQUIT, signal.SIGKILL):
        server.send_signal(how)
        try:
            server.wait(STOP_WITHIN_S)
        except subprocess.TimeoutExpired:
            continue
        return


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def _said(log: Path) -> str:
    return log.read_text(encoding="utf-8", errors="replace")


def _last_complaint(log: Path) -> str:
    """What the server said last, without the time before it."""
    lines = _said(log).splitlines()
    complaints = [line for line in lines if "FATAL:" in line or "PANIC:" in line] or lines or ["it says nothing"]
    return complaints[-1].split("FATAL:", 1)[-1].strip()
