"""A standby of a primary: a synchronous one that can be frozen, or an asynchronous one that falls behind."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Final

import psycopg

from testbed.processes import descendants, wait_for
from wakeboard.local.postgres import EmbeddedPostgres, find_binaries
from wakeboard.local.postgres_user import make_private_folder, server_account

if TYPE_CHECKING:
    from collections.abc import Generator, Iterator
    from pathlib import Path

UNCONFIRMED: Final = "&options=-c%20synchronous_commit%3Doff"  # the commits of a session that waits for no standby

SETTINGS: Final = {
    "wal_retrieve_retry_interval": "100ms"
}  # or a promotion may wait for 5 s after the end of the primary


class Standby:
    """The standby of `primary`, a running server that trusts its socket. `nobody` must be able to enter its folder.

    `version`: that of both (`find_binaries`).
    """

    def __init__(self, primary: EmbeddedPostgres, folder: Path, version: str = "embedded") -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.folder, self._primary, self._dsn = folder, primary, primary.dsn + UNCONFIRMED
        self._binaries = find_binaries(version)
        self._copy_primary(folder)
        self._server = EmbeddedPostgres(folder, settings=SETTINGS, trusting=True, binaries=self._binaries)

    @contextmanager
    def streaming(self) -> Generator[None]:
        """Runs the standby. No commit waits for it."""
        with self._server:
            wait_for(lambda: self._ask("select exists (select from pg_stat_replication where state = 'streaming')"))
            yield

    @contextmanager
    def confirming(self) -> Generator[None]:
        """Runs the standby, and makes the primary's commits wait for it."""
        with self.streaming():
            self._require("walreceiver")
            wait_for(lambda: self._ask("select exists (select from pg_stat_replication where sync_state = 'sync')"))
            try:
                yield
            finally:
                self.thaw()
                with suppress(psycopg.OperationalError):  # the primary may be gone
                    self._require("")

    def freeze(self) -> None:
        """Stops all processes of the standby as they are. Its connection stays open."""
        for pid in self._processes():
            os.kill(pid, signal.SIGSTOP)

    def thaw(self) -> None:
        """Lets the processes go on."""
        for pid in self._processes():
            with suppress(ProcessLookupError):  # one that ends with the primary
                os.kill(pid, signal.SIGCONT)

    def fall_behind(self) -> None:
        """Ends the replication: all commits so far have arrived, and no later one will."""
        wait_for(lambda: self._ask("select pg_current_wal_lsn() <= max(replay_lsn) from pg_stat_replication"))
        with psycopg.connect(self._server.dsn, autocommit=True) as conn:
            conn.execute("alter system set primary_conninfo = ''")
            conn.execute("select pg_reload_conf()")
        wait_for(lambda: self._ask("select not exists (select from pg_stat_replication)"))

    def promote(self) -> None:
        """Makes it a primary."""
        with psycopg.connect(self._server.dsn, autocommit=True) as conn:
            conn.execute("select pg_promote()")

    @property
    def dsn(self) -> str:
        """The superuser's DSN."""
        return self._server.dsn

    def _copy_primary(self, folder: Path) -> None:
        account = server_account()
        data = folder / "data"
        make_private_folder(data, account)
        options = ["-R", "-c", "fast", "--no-sync"]
        command = [self._binaries / "pg_basebackup", "-D", data, "-d", self._primary.dsn, *options]
        user, group = (account.uid, account.gid) if account else (None, None)
        subprocess.run(command, check=True, capture_output=True, cwd=folder, user=user, group=group)
        shutil.copy2(self._primary.folder / "password", folder / "password")  # the password is that of the copied roles

    def _require(self, names: str) -> None:
        with psycopg.connect(self._dsn, autocommit=True) as conn:
            conn.execute(f"alter system set synchronous_standby_names = '{names}'".encode())
            conn.execute("select pg_reload_conf()")

    def _ask(self, query: str) -> bool:
        with psycopg.connect(self._dsn, autocommit=True) as conn:
            row = conn.execute(query.encode()).fetchone()
            return bool(row and row[0])

    def _processes(self) -> Iterator[int]:
        """The postmaster first: its children are listed when it is frozen, and starts no other then."""
        if (server := self._server.pid) is not None:
            yield server
            yield from descendants(server)
