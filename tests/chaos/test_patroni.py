"""A real Patroni cluster: after a promotion every process goes on within 5 s, and nothing is lost or doubled."""

from __future__ import annotations

import asyncio
import os
import sys
import time
from typing import TYPE_CHECKING, Final

import psycopg
import pytest

from testbed.cluster.shared_control_plane import shared_control_plane
from testbed.patroni import PatroniCluster, PatroniNode, find_patroni
from testbed.processes import wait_for
from tests.chaos.installation import Installation, answers
from tests.conftest import folder_of_the_run, open_folder
from wakeboard.cli import main
from wakeboard.errors import DatabaseUnavailable
from wakeboard.store.migrate import migrate

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = [pytest.mark.timeout(300), pytest.mark.xdist_group("patroni")]
SERVES_WITHIN_S: Final = 5.0
BUSY_MACHINE_S: Final = 5.0  # two cores with the processes of five tests, three servers and ten clients
# Their drivers wait for a server that is frozen, until it ends.
WITH_OWN_CONNECTIONS: Final = frozenset({"psycopg_pool", "SQLAlchemy"})
# PgBouncer (#801) ends if it disconnects a client twice: one that asked to cancel a statement of a server that ended.
CANCELS_TWICE: Final = "in function disconnect_client(): bad client state: "
LATEST_CHANGE: Final = "select kind, lost from wakeboard.server_changes order by id desc limit 1"
AT_RISK: Final = "select * from wakeboard.server_changes where (at_risk or lost) and acknowledged_at is null"
LOST: Final = 20  # commits that no standby gets, at least
MIGRATES: Final = (
    "select from pg_stat_activity where datname = 'migrated' and application_name = 'wakeboard migrate'"
    " and state = 'active'"
)
FOREIGN: Final = """
select id from wakeboard.all_runs where job_type = 'noted' and status = 'succeeded'
   and result is distinct from payload -> 'tag'
"""


@pytest.fixture(scope="module")
def cluster() -> Iterator[PatroniCluster]:
    if find_patroni() is None:
        (pytest.fail if os.environ.get("CI") else pytest.skip)("Patroni is not installed; type: make test-packages")
    with (
        open_folder() as folder,
        PatroniCluster(folder / "cluster", settings={"fsync": "off"}) as cluster,
    ):
        with psycopg.connect(cluster.dsn(database="postgres"), autocommit=True) as conn:
            conn.execute("create database wakeboard")
        asyncio.run(migrate(cluster.dsn()))
        yield cluster


@pytest.fixture(scope="module")
def installation(cluster: PatroniCluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Installation]:
    with (
        shared_control_plane(folder_of_the_run(tmp_path_factory) / "cluster") as kubernetes,
        Installation(cluster, kubernetes, "failover", tmp_path_factory.mktemp("installation")).running() as running,
    ):
        yield running


def serves(what: str, installation: Installation, primary: PatroniNode, but: frozenset[str] = frozenset()) -> None:
    """Serves again soon after this one has been promoted."""
    seconds = installation.serves_after(time.time(), primary, but=but)
    sys.stdout.write(f"{what}: {seconds}\n")
    assert max(seconds.values()) < SERVES_WITHIN_S + BUSY_MACHINE_S, seconds


def loses_nothing(cluster: PatroniCluster, installation: Installation, *, pooler_ends: int = 0) -> None:
    cluster.settle()  # a handler that waits for a frozen server goes on
    assert installation.lost_and_doubled() == (set(), set())
    ends = [installation.pooler_ends.pop() for _ in installation.pooler_ends[:]]
    assert len(ends) <= pooler_ends, ends
    assert all(CANCELS_TWICE in line for line in ends), ends
    with psycopg.connect(cluster.dsn(), autocommit=True) as conn:
        assert conn.execute(AT_RISK).fetchall() == []


def test_a_killed_primary_soon_after_a_switchover_loses_nothing(
    cluster: PatroniCluster, installation: Installation
) -> None:
    cluster.settle()
    primary = cluster.switch_over()
    serves("switchover", installation, primary)
    cluster.wait_for_standby()
    primary.kill()
    promoted = cluster.wait_for_primary(other_than=primary)
    serves("primary killed", installation, promoted)
    loses_nothing(cluster, installation)
    for dsn in (cluster.dsn(), installation.pooled_dsn):
        assert main(["runs", "--dsn", dsn]) == 0


def test_a_frozen_primary_loses_nothing_and_delays_no_other_process(
    cluster: PatroniCluster, installation: Installation
) -> None:
    primary = cluster.settle()
    primary.freeze()
    promoted = cluster.wait_for_primary(other_than=primary)
    serves("primary frozen", installation, promoted, but=WITH_OWN_CONNECTIONS)
    loses_nothing(cluster, installation, pooler_ends=1)


def test_without_etcd_everything_waits_and_then_goes_on(cluster: PatroniCluster, installation: Installation) -> None:
    cluster.settle()
    cluster.etcd.kill()
    wait_for(lambda: cluster.primary() is None)  # it steps down: another one might be promoted
    cluster.etcd.start()
    primary = cluster.wait_for_primary()
    serves("etcd away", installation, primary)
    loses_nothing(cluster, installation)


def test_a_migration_that_a_failover_interrupts_is_repeated(cluster: PatroniCluster) -> None:
    primary = cluster.settle()
    with psycopg.connect(cluster.dsn(database="postgres"), autocommit=True) as conn:
        conn.execute("create database migrated")
    dsn = cluster.dsn(database="migrated")

    async def migrate_until_killed() -> None:
        migrating = asyncio.create_task(migrate(dsn))
        await asyncio.to_thread(wait_for, lambda: answers(primary.dsn("postgres"), MIGRATES))
        primary.kill()
        await migrating

    with pytest.raises(DatabaseUnavailable):
        asyncio.run(migrate_until_killed())
    cluster.wait_for_primary(other_than=primary)
    asyncio.run(migrate(dsn))
    with psycopg.connect(dsn, autocommit=True) as conn:
        assert conn.execute("select count(*) from wakeboard.all_runs").fetchone() == (0,)


def test_an_asynchronous_failover_is_reported_and_makes_no_foreign_outcome(
    cluster: PatroniCluster, installation: Installation
) -> None:
    primary = cluster.settle()
    cluster.set_synchronous(on=False)
    try:
        primary.stop_sending()
        sent = len(installation.acknowledged()) + LOST
        wait_for(lambda: len(installation.acknowledged()) > sent)
        primary.kill()
        cluster.wait_for_primary(other_than=primary)
        lost, doubled = installation.lost_and_doubled()
        sys.stdout.write(f"asynchronous failover: {len(lost)} acknowledged runs lost, {len(doubled)} effects twice\n")
        check = ["check", "--after-restore", "--dsn", cluster.dsn()]
        with psycopg.connect(cluster.dsn(), autocommit=True) as conn:
            assert conn.execute(FOREIGN).fetchall() == []
            assert conn.execute(LATEST_CHANGE).fetchall() == [("promoted", True)]
            wait_for(lambda: installation.is_healthy("DatabaseWentBack"))
            assert main(check) == 1
            assert main([*check, "--yes", "--reason", "tried"]) == 0
            assert main(check) == 0
            wait_for(lambda: installation.is_healthy("NoRuns"))
    finally:
        installation.forget()
        cluster.settle()
        cluster.set_synchronous(on=True)
