"""The Patroni cluster of a campaign, in place of its one server. Start and end it in the main thread.

In namespaces of the campaign's own, each server has a small disk and a network from which it can be cut off.
"""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Final

import psycopg

from chaos.disk import SmallDisk
from chaos.postgres_server import SETTINGS
from testbed.patroni import NAMES, POSTGRES, PatroniCluster
from testbed.server_network import ServerNetwork
from wakeboard.local.postgres import find_binaries
from wakeboard.local.postgres_data import DATABASE

if TYPE_CHECKING:
    from pathlib import Path

    from chaos.wal_archive import WalArchive
    from testbed.patroni import PatroniNode

PROMOTED_WITHIN_S: Final = 30.0
DISK_MB: Final = 1000  # for the data, the WAL that is kept for standbys, and what a rewind copies


class PatroniServers:
    """Three servers in `folder`. Their logs are there; `log` gets the ends of them.

    `synchronous`: commits wait for a standby. `disks`: of each server, by its name; empty if the namespaces are not
    our own.
    """

    def __init__(
        self, folder: Path, log: Path, archive: WalArchive, *, synchronous: bool, in_own_namespaces: bool
    ) -> None:
        folder.mkdir()
        self.synchronous = synchronous
        self.binaries = find_binaries(POSTGRES)
        self.disks = {name: SmallDisk(folder / name, DISK_MB) for name in NAMES} if in_own_namespaces else {}
        network = ServerNetwork(NAMES) if in_own_namespaces else None
        if network is not None:
            network.start()
        self.cluster = PatroniCluster(
            folder,
            synchronous=synchronous,
            settings={**SETTINGS, **archive.settings},
            restore_command=None if synchronous else archive.restore_command,
            network=network,
        )
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

    def wait_for_promotion(self, former: PatroniNode) -> None:
        """Waits for another primary. While no standby has all commits, Patroni waits for the former one."""
        with suppress(AssertionError):
            self.cluster.wait_for_primary(other_than=former, within_s=PROMOTED_WITHIN_S)

    @property
    def targets(self) -> list[tuple[str, int]]:
        """The addresses of the servers."""
        return [(node.host, node.port) for node in self.cluster.nodes]
