"""The server that faults happen to: started, ended in every way, started again. In the main thread, which owns it."""

from __future__ import annotations

import os
import shutil
import signal
from contextlib import suppress
from typing import TYPE_CHECKING, Final
from urllib.parse import parse_qs, urlsplit

from wakeboard.local.postgres import SOCKET_PORT, EmbeddedPostgres

if TYPE_CHECKING:
    from pathlib import Path

# Durable, as everybody's. Small, so that a small disk holds it, and that a full one is noticed soon.
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
    """PostgreSQL in `folder`; what it said in all its lives is kept in `log`."""

    def __init__(self, folder: Path, log: Path) -> None:
        self._engine = EmbeddedPostgres(folder, settings=SETTINGS, trusting=True)
        self._log = log
        self.starts = 0

    def start(self) -> str:
        """Starts it; the superuser's DSN."""
        dsn = self._engine.start()
        self.starts += 1
        return dsn

    def end(self, how: str) -> None:
        """Ends it: fast, immediate or kill."""
        if self._engine.pid is not None:
            with suppress(ProcessLookupError):
                os.kill(self._engine.pid, SIGNALS[how])
        self._engine.stop()
        self._keep_log()

    @property
    def pid(self) -> int | None:
        """The postmaster's, while it runs."""
        return self._engine.pid

    @property
    def socket(self) -> str:
        """The path of its socket."""
        place = parse_qs(urlsplit(self._engine.dsn).query)
        return f"{place['host'][0]}/.s.PGSQL.{SOCKET_PORT}"

    def _keep_log(self) -> None:
        with suppress(OSError), self._engine.log.open("rb") as said, self._log.open("ab") as kept:
            shutil.copyfileobj(said, kept)
