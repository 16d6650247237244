"""PgBouncer in transaction mode, in front of the server's socket."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Final

from chaos.roles import ROLES
from wakeboard.local import pdeathsig

if TYPE_CHECKING:
    import signal

START_WITHIN_S: Final = 10.0


def find_pgbouncer() -> str | None:
    """The program, if it is installed."""
    return shutil.which("pgbouncer") or shutil.which("pgbouncer", path="/usr/sbin")


class Pooler:
    """One PgBouncer on one port, started again and again, in the main thread."""

    def __init__(self, program: str, server_socket: str, folder: Path) -> None:
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self.port = int(probe.getsockname()[1])
        place = Path(server_socket)
        self._ini = folder / "pgbouncer.ini"
        users = folder / "users.txt"
        users.write_text("".join(f'"{name}" ""\n' for name in ROLES.named().values()))
        self._ini.write_text(
            "[databases]\n"
            f"wakeboard = host={place.parent} port={place.name.rsplit('.', 1)[1]} dbname=wakeboard\n"
            "[pgbouncer]\n"
            f"listen_addr = 127.0.0.1\nlisten_port = {self.port}\nunix_socket_dir =\n"
            f"auth_type = trust\nauth_file = {users}\n"
            "pool_mode = transaction\nmax_client_conn = 500\ndefault_pool_size = 30\n"
            "server_login_retry = 0.2\nserver_connect_timeout = 3\nlogfile =\n"
        )
        self._program = program
        self._log = folder / "pgbouncer.log"
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Starts it, and waits until it listens. It ends when this process does."""
        user = ["--user", "nobody"] if os.geteuid() == 0 else []
        launcher = [sys.executable, "-I", "-S", pdeathsig.__file__, str(os.getpid()), "-1", "-1"]
        with self._log.open("ab") as log:
            self._process = subprocess.Popen(
                [*launcher, self._program, *user, str(self._ini)], stdout=log, stderr=log, start_new_session=True
            )
        deadline = time.monotonic() + START_WITHIN_S
        while not self._listens():
            if time.monotonic() > deadline or self._process.poll() is not None:
                raise RuntimeError(f"PgBouncer did not start; see {self._log}")
            time.sleep(0.01)

    def end(self, number: signal.Signals) -> None:
        """Ends it by this signal, and waits."""
        if self._process is None:
            return
        self._process.send_signal(number)
        try:
            self._process.wait(5)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._process = None

    def _listens(self) -> bool:
        with socket.socket() as probe:
            return probe.connect_ex(("127.0.0.1", self.port)) == 0
