"""A real Patroni cluster: after a promotion every process goes on within 5 s, and nothing is lost or doubled."""

from __future__ import annotations

import asyncio
import itertools
import os
import subprocess
import sys
import threading
import time
from collections import Counter
from contextlib import ExitStack, contextmanager, suppress
from functools import partial
from typing import TYPE_CHECKING, Final, Self
from urllib.request import urlopen

import psycopg
import pytest

import wakeboard
from testbed.board_server import serving
from testbed.clients import go_worker, typescript_command, typescript_worker
from testbed.patroni import PatroniCluster, PatroniNode, find_patroni
from testbed.processes import ModuleProcess, as_variables, inherited_environment, wait_for
from tests.chaos.processes import Worker
from tests.conftest import open_folder
from wakeboard.board import BoardOptions
from wakeboard.cli import main
from wakeboard.errors import DatabaseUnavailable
from wakeboard.store.connection import connect_blocking
from wakeboard.store.migrate import migrate
from wakeboard.store.reply_limit import ReplyLimit

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterator
    from pathlib import Path

pytestmark = [pytest.mark.timeout(300), pytest.mark.xdist_group("patroni")]
SERVES_WITHIN_S: Final = 5.0
BUSY_MACHINE_S: Final = 5.0  # two cores with the processes of five tests, three servers and seven clients
PAUSE_S: Final = 0.02  # between two enqueues
HANDLERS: Final = "tests.chaos.ledger_handlers"
BALANCED: Final = "balanced"  # the queue of the worker behind the load balancer
CLIENTS: Final = ("go", "typescript")  # the queues of workers in other languages
ENDED: Final = """
select queue, extract(epoch from min(finished_at))::float8 from wakeboard.job_run_history
 where job_type = 'conformance.echo' and status = 'succeeded' and created_at >= to_timestamp(%s) group by 1
"""
LATEST_CHANGE: Final = "select kind, lost from wakeboard.server_changes order by id desc limit 1"
LOST: Final = 20  # commits that no standby gets, at least
MAINTAINS: Final = "select from pg_stat_activity where application_name = 'wakeboard operator maintenance'"
MIGRATES: Final = (
    "select from pg_stat_activity where datname = 'migrated' and application_name = 'wakeboard migrate'"
    " and state = 'active'"
)
FOREIGN: Final = """
select id from wakeboard.all_runs where job_type = 'noted' and status = 'succeeded'
   and result is distinct from payload -> 'tag'
"""


class Repeated:
    """Calls `do` again and again in a thread. `answers`: when each successful call began and ended, by its number."""

    def __init__(self, do: Callable[[int], None], pause_s: float) -> None:
        self._do, self._pause_s, self._over, self._rests = do, pause_s, threading.Event(), threading.Event()
        self.answers: dict[int, tuple[float, float]] = {}
        self._thread = threading.Thread(target=self._run, daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join(20)

    def rest(self, *, on: bool) -> None:
        (self._rests.set if on else self._rests.clear)()

    def _run(self) -> None:
        for number in itertools.count():
            if self._over.wait(self._pause_s):
                return
            began = time.time()
            with suppress(OSError, psycopg.Error, wakeboard.WakeboardError):
                if not self._rests.is_set():
                    self._do(number)
                    self.answers[number] = began, time.time()

    def first_since(self, moment: float) -> float | None:
        """When the first call that began after this moment was answered."""
        return next((ended for began, ended in list(self.answers.values()) if began >= moment), None)


class Installation:
    """A worker, the operator's maintenance, a board, and an application, with a DSN of all servers."""

    def __init__(self, cluster: PatroniCluster, folder: Path) -> None:
        self._dsn, self._ledger = cluster.dsn(), folder / "ledger"
        self._conn: psycopg.Connection | None = None
        self.application = Repeated(self._enqueue, PAUSE_S)
        self._settings = {"handlers": HANDLERS, "lease_seconds": 10, "log_level": "info"}
        self._cluster, self._folder = cluster, folder

    @contextmanager
    def running(self) -> Generator[Self]:
        """Runs all of it. One worker reaches the primary through a load balancer."""
        balanced = f"postgresql://postgres@127.0.0.1:{self._cluster.start_load_balancer().port}/wakeboard"
        with ExitStack() as stack:
            stack.enter_context(pytest.MonkeyPatch.context()).setenv("LEDGER", str(self._ledger))
            worker, words = partial(Worker, **self._settings), ["chaos.maintenance_process"]
            self.worker = stack.enter_context(worker(self._dsn, self._folder, "--forever"))
            stack.enter_context(worker(balanced, self._folder, "--forever", queues=BALANCED))
            stack.enter_context(ModuleProcess(words, self._folder, as_variables({"dsn": self._dsn})))
            commands = [str(go_worker())], typescript_command(typescript_worker())
            for queue, command in zip(CLIENTS, commands, strict=True):
                stack.enter_context(_client(command, self._dsn, queue, self._folder))
            address = stack.enter_context(serving(BoardOptions(dsn=self._dsn)))
            self.board = stack.enter_context(Repeated(lambda _: urlopen(f"{address}/runs", timeout=30).close(), 0.1))
            stack.callback(self._disconnect)
            stack.enter_context(self.application)
            yield self

    def ledger(self) -> list[tuple[str, str, float]]:
        """What the handlers have noted: the tag, what happened, and when."""
        lines = self._ledger.read_text().splitlines() if self._ledger.exists() else []
        return [(tag, what, float(at)) for tag, what, at in map(str.split, lines)]

    def serves_after(self, promoted: float, primary: PatroniNode) -> dict[str, float]:
        """Seconds from the promotion until each part worked again."""
        dsn = primary.dsn()
        with psycopg.connect(dsn, autocommit=True) as conn, Repeated(lambda _: _maintains(dsn), 0.05) as maintained:
            for queue in CLIENTS:
                conn.execute("select wakeboard.enqueue('conformance.echo', '{}', queue => %s)", (queue,))

            def parts() -> dict[str, float | None]:
                new = [number for number, (at, _) in list(self.application.answers.items()) if at >= promoted]
                direct, balanced = ({str(number) for number in new if number % 2 == rest} for rest in (0, 1))
                ended = conn.execute(ENDED, (promoted,)).fetchall()
                return {
                    "application": self.application.first_since(promoted),
                    "worker": next((at for tag, _, at in self.ledger() if tag in direct), None),
                    "balanced worker": next((at for tag, _, at in self.ledger() if tag in balanced), None),
                    "board": self.board.first_since(promoted),
                    "maintenance": maintained.first_since(promoted),
                    **dict.fromkeys(CLIENTS),
                    **dict(ended),
                }

            wait_for(lambda: all(parts().values()), why=lambda: (parts(), self.worker.log[-2000:]))
            return {name: round((at or 0) - promoted, 2) for name, at in parts().items()}

    def lost_and_doubled(self) -> tuple[set[str], set[str]]:
        """Acknowledged runs that no worker executed, and effects that happened twice, when all is done."""
        self.application.rest(on=True)
        with psycopg.connect(self._dsn, autocommit=True) as conn:
            left = "select id, job_type, status, attempts, last_error from wakeboard.job_runs limit 3"
            wait_for(lambda: not conn.execute(left).fetchall(), why=lambda: conn.execute(left).fetchall())
        paid = Counter(tag for tag, what, _ in self.ledger() if what == "paid")
        known = {tag for tag, what, _ in self.ledger() if what != "began"}
        lost = {str(number) for number in self.application.answers} - known
        self.application.rest(on=False)
        return lost, {tag for tag, count in paid.items() if count > 1}

    def forget(self) -> None:
        """Drops what was acknowledged and noted so far."""
        self.application.answers.clear()
        os.truncate(self._ledger, 0)

    def outage_lines(self) -> list[str]:
        """The lines that the worker has logged about the database."""
        return [line for line in self.worker.log.splitlines() if "the database" in line]

    def _enqueue(self, number: int) -> None:
        try:
            if self._conn is None:
                self._conn = connect_blocking(self._dsn, name="application", reply_limit=ReplyLimit(10))
            retries = {"max_attempts": 100, "backoff": "fixed", "backoff_base_s": 1}
            queue = BALANCED if number % 2 else "default"
            wakeboard.enqueue(self._conn, "noted", {"tag": str(number)}, queue=queue, **retries)  # type: ignore[arg-type]
        except Exception:
            self._disconnect()
            raise

    def _disconnect(self) -> None:
        if self._conn is not None:
            self._conn.close()
        self._conn = None


def _maintains(dsn: str) -> None:
    """Raises OSError unless the operator's maintenance has a session on this server."""
    if not _answers(dsn, MAINTAINS):
        raise OSError("not yet")


def _answers(dsn: str, query: str) -> bool:
    with psycopg.connect(dsn, autocommit=True) as conn:
        return conn.execute(query.encode()).fetchone() is not None


@contextmanager
def _client(command: list[str], dsn: str, queue: str, folder: Path) -> Generator[None]:
    """A worker in another language."""
    settings = {"dsn": dsn, "queues": queue, "lease_seconds": 10}
    environment = {**inherited_environment(), **as_variables(settings), "CONFORMANCE_DSN": dsn}
    with (
        (folder / f"{queue}.log").open("wb") as log,
        subprocess.Popen(command, env=environment, stdout=log, stderr=log) as process,
    ):
        try:
            yield
        finally:
            process.kill()


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
    with Installation(cluster, tmp_path_factory.mktemp("installation")).running() as installation:
        wait_for(lambda: installation.ledger() and installation.board.answers)
        wait_for(partial(_answers, cluster.dsn(), MAINTAINS))
        yield installation


def serves_and_loses_nothing(
    what: str, cluster: PatroniCluster, installation: Installation, primary: PatroniNode
) -> None:
    seconds = installation.serves_after(time.time(), primary)
    sys.stdout.write(f"{what}: {seconds}\n")
    assert max(seconds.values()) < SERVES_WITHIN_S + BUSY_MACHINE_S, seconds
    cluster.settle()  # a handler that waits for a frozen server goes on
    assert installation.lost_and_doubled() == (set(), set())


def test_a_switchover_and_a_killed_primary_lose_nothing(cluster: PatroniCluster, installation: Installation) -> None:
    cluster.settle()
    primary = cluster.switch_over()
    serves_and_loses_nothing("switchover", cluster, installation, primary)
    primary.kill()
    promoted = cluster.wait_for_primary(other_than=primary)
    serves_and_loses_nothing("primary killed", cluster, installation, promoted)
    assert main(["runs", "--dsn", cluster.dsn()]) == 0


def test_a_frozen_primary_loses_nothing_and_delays_no_other_process(
    cluster: PatroniCluster, installation: Installation
) -> None:
    primary = cluster.settle()
    primary.freeze()
    promoted = cluster.wait_for_primary(other_than=primary)
    serves_and_loses_nothing("primary frozen", cluster, installation, promoted)


def test_without_etcd_everything_waits_and_then_goes_on(cluster: PatroniCluster, installation: Installation) -> None:
    cluster.settle()
    cluster.etcd.kill()
    wait_for(lambda: cluster.primary() is None)  # it steps down: another one might be promoted
    cluster.etcd.start()
    primary = cluster.wait_for_primary()
    serves_and_loses_nothing("etcd away", cluster, installation, primary)


def test_a_migration_that_a_failover_interrupts_is_repeated(cluster: PatroniCluster) -> None:
    primary = cluster.settle()
    with psycopg.connect(cluster.dsn(database="postgres"), autocommit=True) as conn:
        conn.execute("create database migrated")
    dsn = cluster.dsn(database="migrated")

    async def migrate_until_killed() -> None:
        migrating = asyncio.create_task(migrate(dsn))
        await asyncio.to_thread(wait_for, partial(_answers, primary.dsn("postgres"), MIGRATES))
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
        sent = len(installation.application.answers) + LOST
        wait_for(lambda: len(installation.application.answers) > sent)
        primary.kill()
        cluster.wait_for_primary(other_than=primary)
        lost, doubled = installation.lost_and_doubled()
        sys.stdout.write(f"asynchronous failover: {len(lost)} acknowledged runs lost, {len(doubled)} effects twice\n")
        check = ["check", "--after-restore", "--dsn", cluster.dsn()]
        with psycopg.connect(cluster.dsn(), autocommit=True) as conn:
            assert conn.execute(FOREIGN).fetchall() == []
            assert conn.execute(LATEST_CHANGE).fetchall() == [("promoted", True)]
            assert main(check) == 1
            assert main([*check, "--yes", "--reason", "tried"]) == 0
            assert main(check) == 0
    finally:
        installation.forget()
        cluster.settle()
        cluster.set_synchronous(on=True)
