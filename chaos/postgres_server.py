"""The PostgreSQL server of a campaign, and its roles. Start and end it in the main thread, which owns the process."""

from __future__ import annotations

import os
import shutil
import signal
from contextlib import suppress
from typing import TYPE_CHECKING, Final
from urllib.parse import parse_qs, urlsplit

from wakeboard.local.postgres import SOCKET_PORT, EmbeddedPostgres, find_binaries
from wakeboard.store.roles import Roles

if TYPE_CHECKING:
    from pathlib import Path

    from chaos.wal_archive import WalArchive

ROLES: Final = Roles(  # least rights for each
    operator="chaos_operator", worker="chaos_worker", client="chaos_app", scheduler="chaos_app"
)
# Durable, as in production. Small, so that it fits on a small disk and notices soon that the disk is full.
SETTINGS: Final = {
    "max_connections": "150",
    "shared_buffers": "64MB",
    "min_wal_size": "32MB",
    "max_wal_size": "96MB",
    "restart_after_crash": "on",
    "superuser_reserved_connections": "10",
    "log_line_prefix": "%m [%p] %a: ",
    "deadlock_timeout": "200ms",
}
SIGNALS: Final = {"fast": signal.SIGINT, "immediate": signal.SIGQUIT, "kill": signal.SIGKILL}


class ChaosServer:
    """PostgreSQL in `folder`. The log of all its starts is appended to `log`."""

    def __init__(self, folder: Path, log: Path, archive: WalArchive) -> None:
        self.binaries = find_binaries()
        self._engine = EmbeddedPostgres(folder, settings={**SETTINGS, **archive.settings}, trusting=True)
        self._log = log
        self.starts, self.failovers = 0, 0

    def start(self) -> str:
        """Starts it. Returns the superuser's DSN."""
        dsn = self._engine.start()
        self.starts += 1
        return dsn

    def end(self, how: str) -> None:
        """Ends it: fast, immediate or kill."""
        if self._engine.pid is not None:
            with suppress(ProcessLookupError):
                os.kill(self._engine.pid, SIGNALS[how])
        self._engine.stop()
        with suppress(OSError), self._engine.log.open("rb") as written, self._log.open("ab") as kept:
            shutil.copyfileobj(written, kept)

    @property
    def pid(self) -> int | None:
        """The postmaster's, or None while it does not run."""
        return self._engine.pid

    @property
    def targets(self) -> list[str]:
        """The path of its socket."""
        options = parse_qs(urlsplit(self._engine.dsn).query)
        return [f"{options['host'][0]}/.s.PGSQL.{SOCKET_PORT}"]
