"""The Patroni cluster of a campaign, in place of its one server. Start and end it in the main thread."""

from __future__ import annotations

from typing import TYPE_CHECKING

import psycopg

from chaos.postgres_server import SETTINGS
from testbed.patroni import PatroniCluster
from wakeboard.local.postgres_data import DATABASE

if TYPE_CHECKING:
    from pathlib import Path

    from testbed.patroni import PatroniNode


class PatroniServers:
    """Three servers with a synchronous standby, in `folder`. Their logs are there; `log` gets the ends of them."""

    def __init__(self, folder: Path, log: Path) -> None:
        self.cluster = PatroniCluster(folder, settings=SETTINGS)
        self._log = log
        self.starts, self.failovers = 0, 0

    def start(self) -> str:
        """Starts what does not run. Returns the superuser's DSN, which leads to the primary."""
        if self.starts:
            self.cluster.settle()
            return self.cluster.dsn()
        self.starts = len(self.cluster.nodes)
        self.cluster.start()
        with psycopg.connect(self.cluster.dsn(database="postgres"), autocommit=True) as conn:
            conn.execute(f"create database {DATABASE}".encode())
        return self.cluster.dsn()

    def end(self, how: str) -> None:
        """Ends all of it."""
        self._log.write_text(self.cluster.logs())
        self.cluster.stop()

    @property
    def pid(self) -> int | None:
        """The primary's, or None while there is none."""
        primary = self.cluster.primary()
        return primary.postmaster if primary is not None else None

    @property
    def targets(self) -> list[str | int]:
        """The ports of the servers."""
        return [node.port for node in self.cluster.nodes]

    def promoted(self, former: PatroniNode) -> PatroniNode:
        """Waits for another primary than this one."""
        primary = self.cluster.wait_for_primary(other_than=former)
        self.failovers += 1
        return primary
