"""Commits hang while a synchronous standby is away: sessions do not pile up, and healthy runs do not crash."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

import psycopg
import pytest
from psycopg.conninfo import make_conninfo

from testbed.standby import UNCONFIRMED, Standby
from tests.chaos.processes import Watcher, Worker, wait_until
from wakeboard.health.queries.commits import CommitFacts, probe_commits
from wakeboard.local.postgres import EmbeddedPostgres
from wakeboard.store.migrate import migrate

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

LEASE_S = 4
STALL_S = 6.0  # longer than a lease; without a bound, a heartbeat opens several sessions in it
CHECK_S = 30.0
SESSIONS = """
select application_name, count(*) from pg_stat_activity
 where starts_with(application_name, 'wakeboard ') group by 1 order by 2 desc limit 1
"""
HANGING = "from pg_stat_activity where wait_event = 'SyncRep'"
RUNNING = "select count(*) = 10 from wakeboard.job_runs where locked_until > now() and started_epoch = lease_epoch"


def check(dsn: str) -> dict[str, str]:
    """What `wakeboard check` says about commits."""
    command = [sys.executable, "-c", "from wakeboard.cli import main; main()", "check", "--json", "--dsn", dsn]
    found = subprocess.run(command, capture_output=True, text=True, check=False).stdout
    return next(each for each in json.loads(found) if each["check"] == "commits")


@pytest.fixture
def standby(postgres_folder: Path) -> Iterator[tuple[str, Standby]]:
    """The DSN of a migrated primary, and its standby."""
    settings = {"max_connections": "100", "fsync": "off"}
    with EmbeddedPostgres(postgres_folder / "primary", settings=settings, trusting=True) as primary:
        asyncio.run(migrate(primary.dsn))
        standby = Standby(primary, postgres_folder / "standby")
        with standby.confirming():
            yield primary.dsn, standby


def test_a_role_that_may_send_no_messages_sees_no_hanging_commits(postgres_folder: Path) -> None:
    settings = {"synchronous_standby_names": "away", "synchronous_commit": "local", "fsync": "off"}
    with (
        EmbeddedPostgres(postgres_folder / "alone", settings=settings, trusting=True) as server,
        psycopg.connect(server.dsn, autocommit=True) as conn,
    ):
        functions = "select oid::regprocedure::text from pg_proc where proname = 'pg_logical_emit_message'"
        for (function,) in conn.execute(functions).fetchall():
            conn.execute(f"revoke execute on function {function} from public".encode())
        conn.execute("create role silent login; alter role silent set synchronous_commit = on")
        assert asyncio.run(probe_commits(make_conninfo(server.dsn, user="silent"))) == CommitFacts()


@pytest.mark.parametrize("identity", ["idempotency_key => 'order-7'", "unique_for => 3600"])
def test_a_repeated_enqueue_is_confirmed_no_sooner_than_the_first(standby: tuple[str, Standby], identity: str) -> None:
    dsn, server = standby
    enqueue = f"select id, created from wakeboard.enqueue('quick', '{{}}', {identity})".encode()
    server.freeze()
    with Watcher(dsn + UNCONFIRMED) as watcher, ThreadPoolExecutor() as pool:

        def call() -> tuple[int, bool]:
            with psycopg.connect(dsn, autocommit=True) as conn:
                return conn.execute(enqueue).fetchone() or (0, False)

        first = pool.submit(call)
        watcher.wait(f"select count(pg_terminate_backend(pid)) = 1 {HANGING}")  # its run is visible now
        assert isinstance(first.exception(), psycopg.OperationalError)
        repeated = pool.submit(call)
        watcher.wait(f"select count(*) = 1 {HANGING}")
        server.thaw()
        assert repeated.result() == (watcher.ask("select id from wakeboard.job_runs"), False)


def test_a_command_says_that_its_commit_hangs(standby: tuple[str, Standby]) -> None:
    dsn, server = standby
    server.freeze()
    words = "from wakeboard.cli import main; main()", "enqueue", "ping", "--dsn", dsn
    with subprocess.Popen([sys.executable, "-c", *words], stderr=subprocess.PIPE, text=True) as command:
        assert command.stderr
        assert "`wakeboard check` says whether commits hang" in command.stderr.readline()
        server.thaw()
        command.communicate(timeout=60)
    assert command.returncode == 0


def test_while_commits_hang_no_session_piles_up_and_no_run_crashes(
    standby: tuple[str, Standby], tmp_path: Path
) -> None:
    dsn, server = standby
    with (
        Watcher(dsn + UNCONFIRMED) as watcher,
        Worker(dsn, tmp_path, "--forever", lease_seconds=LEASE_S),
        Worker(dsn, tmp_path, "--forever", lease_seconds=LEASE_S),
    ):
        watcher.enqueue("sleeps", 10)
        most = ("", 0)
        for _ in range(2):
            watcher.wait(RUNNING)
            server.freeze()
            until = time.monotonic() + STALL_S
            while time.monotonic() < until:
                most = max(most, *watcher.rows(SESSIONS), key=lambda row: row[1])
                time.sleep(0.1)
            server.thaw()
        server.freeze()
        began = time.monotonic()
        found = check(dsn)
        assert time.monotonic() - began < CHECK_S
        server.thaw()
        assert (found["level"], "the standby does not answer" in found["message"]) == ("fail", True), found
        wait_until(lambda: check(dsn)["level"] == "ok", "commits are confirmed")
        watcher.enqueue("quick")
        watcher.wait("select true from wakeboard.job_run_history where status = 'succeeded'")
        watcher.wait(RUNNING)
        assert most[1] <= 2, most  # the session of a connection, and the former one, while it ends
        assert watcher.rows("select sum(crash_count), sum(attempts) from wakeboard.job_runs") == [(0, 10)]
