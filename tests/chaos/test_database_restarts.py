"""Postgres restarts or cancels statements under load: nothing is lost, nothing is accepted twice."""

from __future__ import annotations

import asyncio
import os
import signal
import time
from typing import TYPE_CHECKING

import psycopg
import pytest

from tests.chaos.processes import EFFECTS, Watcher, Worker, wait_until
from tests.postgres_servers import running_pooler
from wakeboard.local.postgres import EmbeddedPostgres
from wakeboard.store.migrate import migrate

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

RUNS = 300
OUTAGE_S = 3.0  # a worker's connections retry a dozen times in it
WAITING = "from pg_stat_activity where starts_with(application_name, 'wakeboard claims') and wait_event_type = 'Lock'"


@pytest.fixture
def server(postgres_folder: Path) -> Iterator[EmbeddedPostgres]:
    """A running, migrated server of the test's own."""
    with EmbeddedPostgres(postgres_folder / "server", settings={"max_connections": "100"}, trusting=True) as server:
        asyncio.run(migrate(server.dsn))
        yield server


def test_stops_and_crashes_of_postgres_lose_nothing_and_repeat_no_effect(
    server: EmbeddedPostgres, tmp_path: Path
) -> None:
    with Watcher(server.dsn) as watcher:
        watcher.do(EFFECTS)
        watcher.enqueue("counts", RUNS, max_attempts=20)
        with Worker(server.dsn, tmp_path, "--forever"), Worker(server.dsn, tmp_path, "--forever"):
            for how, done in (("stopped", RUNS // 10), ("killed", RUNS // 3)):
                watcher.wait(f"select count(*) > {done} from effects")
                _end(server, how)
                server.start()
            watcher.wait(f"select count(*) = {RUNS} from wakeboard.job_run_history where status = 'succeeded'")
        assert watcher.ask("select count(*) from wakeboard.job_runs") == 0
        assert watcher.rows("select count(*), count(distinct run_id) from effects") == [(RUNS, RUNS)]
        assert watcher.ask("select count(distinct id) from wakeboard.job_run_history") == RUNS


def test_a_forever_worker_waits_for_an_absent_database_at_its_start(server: EmbeddedPostgres, tmp_path: Path) -> None:
    server.stop()
    with Worker(server.dsn, tmp_path, "--forever") as worker:
        wait_until(lambda: "cannot connect" in worker.log, "it logs that there is no database")
        server.start()
        with Watcher(server.dsn) as watcher:
            watcher.enqueue("ping")
            watcher.wait("select true from wakeboard.job_run_history where status = 'succeeded'")


def test_a_worker_logs_the_start_and_the_end_of_an_outage_once(
    server: EmbeddedPostgres, postgres_folder: Path, tmp_path: Path
) -> None:
    """PgBouncer accepts connections in the outage, and lets their statements fail."""
    with (
        running_pooler(server.dsn, postgres_folder, "transaction") as dsn,
        Worker(dsn, tmp_path, "--forever", lease_seconds=10, poll_seconds=0.2) as worker,
    ):
        with Watcher(server.dsn) as watcher:
            watcher.enqueue("ping")
            watcher.wait("select true from wakeboard.job_run_history where status = 'succeeded'")
        server.stop()
        wait_until(lambda: "waiting for the database" in worker.log, "it logs that the database is away")
        time.sleep(OUTAGE_S)
        server.start()
        wait_until(lambda: "the database answers again" in worker.log, "it logs that the database is back")
        logged = [line for line in worker.log.splitlines() if '"level": "warning"' in line or "answers again" in line]
        assert len(logged) == 2, worker.log


def _end(server: EmbeddedPostgres, how: str) -> None:
    if how == "killed":
        assert server.pid
        os.kill(server.pid, signal.SIGKILL)
    server.stop()


def test_a_worker_whose_claim_is_cancelled_claims_again(database: str, watcher: Watcher, tmp_path: Path) -> None:
    with Worker(database, tmp_path, "--forever"):
        with psycopg.connect(database) as other:
            other.execute("lock table wakeboard.job_runs")
            waits_since = watcher.wait(f"select query_start {WAITING}")
            watcher.do(f"select pg_cancel_backend(pid) {WAITING}")
            watcher.wait(f"select not exists (select {WAITING} and query_start = %s)", waits_since)
        watcher.enqueue("quick")
        watcher.wait("select true from wakeboard.job_run_history where status = 'succeeded'")
