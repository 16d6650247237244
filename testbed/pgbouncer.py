"""A local PgBouncer in front of one database."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final
from urllib.parse import parse_qs, urlsplit

from testbed.processes import wait_for
from wakeboard.local.child_process import ends_with_parent

if TYPE_CHECKING:
    from collections.abc import Generator
    from pathlib import Path

START_TIMEOUT_S: Final = 20.0
STOP_TIMEOUT_S: Final = 5.0


def find_pgbouncer() -> str | None:
    """The path of the program, or None if it is not installed."""
    return shutil.which("pgbouncer") or shutil.which("pgbouncer", path="/usr/sbin")


class PgBouncer:
    """A PgBouncer on a free port of loopback, for the database of `dsn`. It can be ended and started again.

    `mode` is transaction or session. `user` is the server's role for every client; empty: each client's own name.
    `folder` gets its configuration and its log. If we are root, the account `nobody` must be able to enter it.
    Call `start` in a thread that lives as long as PgBouncer: the kernel ends the process with that thread.
    """

    def __init__(self, program: str, dsn: str, folder: Path, mode: str, user: str = "", options: str = "") -> None:
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self.port = int(probe.getsockname()[1])
        parts = urlsplit(dsn)
        server = parse_qs(parts.query)
        self.database = parts.path.lstrip("/")
        self._log = folder / "pgbouncer.log"
        self._process: subprocess.Popen[bytes] | None = None
        ini = folder / "pgbouncer.ini"
        target = f"host={server['host'][0]} port={server['port'][0]} dbname={self.database}"
        ini.write_text(
            f"[databases]\n{self.database} = {target}{f' user={user}' if user else ''}\n"
            f"[pgbouncer]\nlisten_addr = 127.0.0.1\nlisten_port = {self.port}\nunix_socket_dir =\n"
            f"pool_mode = {mode}\nserver_login_retry = 1\n{options or 'auth_type = any'}\n"
        )
        account = ["--user", "nobody"] if os.geteuid() == 0 else []
        self._command = ends_with_parent([program, *account, str(ini)])

    def start(self) -> None:
        """Starts PgBouncer and waits until it listens."""
        with self._log.open("ab") as log:
            self._process = subprocess.Popen(self._command, stdout=log, stderr=log, start_new_session=True)
        wait_for(self._listens, within_s=START_TIMEOUT_S, why=lambda: f"see {self._log}")

    @property
    def ended(self) -> bool:
        """Whether it has ended by itself."""
        return self._process is not None and self._process.poll() is not None

    @property
    def last_line(self) -> str:
        """The last line of its log."""
        return self._log.read_text().rstrip().rpartition("\n")[2]

    def end(self, number: signal.Signals = signal.SIGTERM) -> None:
        """Sends the signal and waits for the end. Kills PgBouncer if it does not end in time."""
        if self._process is None:
            return
        self._process.send_signal(number)
        try:
            self._process.wait(STOP_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._process = None

    def _listens(self) -> bool:
        with socket.socket() as probe:
            return probe.connect_ex(("127.0.0.1", self.port)) == 0


@contextmanager
def running_pgbouncer(program: str, dsn: str, folder: Path, mode: str, user: str = "postgres") -> Generator[str]:
    """The DSN of the same database through a PgBouncer of its own."""
    bouncer = PgBouncer(program, dsn, folder, mode, user)
    bouncer.start()
    try:
        yield f"postgresql://postgres@127.0.0.1:{bouncer.port}/{bouncer.database}"
    finally:
        bouncer.end()
