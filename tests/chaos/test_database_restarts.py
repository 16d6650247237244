"""Postgres restarts under load: nothing is lost, nothing is accepted twice."""

from __future__ import annotations

import asyncio
import os
import signal
import time
from typing import TYPE_CHECKING

import pytest

from tests.chaos.processes import EVENT_TABLES, Watcher, Worker, wait_until
from wakeboard.local.postgres import EmbeddedPostgres
from wakeboard.store.migrate import migrate

if TYPE_CHECKING:
    from pathlib import Path

RUNS = 3000
OUTAGE_S = 3.0  # a worker's connections retry a dozen times in it


@pytest.mark.parametrize("how", ["stopped", "killed"])
def test_a_restart_of_postgres_under_load_loses_nothing_and_repeats_no_effect(
    how: str, postgres_folder: Path, tmp_path: Path
) -> None:
    server = EmbeddedPostgres(postgres_folder / "server", settings={"max_connections": "100"})
    dsn = server.start()
    asyncio.run(migrate(dsn))
    try:
        with Watcher(dsn) as watcher:
            watcher.do(EVENT_TABLES)
            watcher.enqueue("counts", RUNS, max_attempts=20)
            with Worker(dsn, tmp_path, "--forever"), Worker(dsn, tmp_path, "--forever"):
                for done in (RUNS // 10, RUNS // 3):
                    watcher.wait(f"select count(*) > {done} from ledger")
                    _end(server, postgres_folder / "server", how)
                    assert server.start() == dsn
                watcher.wait(f"select count(*) = {RUNS} from wakeboard.job_run_history where status = 'succeeded'")
            assert watcher.ask("select count(*) from wakeboard.job_runs") == 0
            assert watcher.rows("select count(*), count(distinct run_id) from ledger") == [(RUNS, RUNS)]
            assert watcher.ask("select count(distinct id) from wakeboard.job_run_history") == RUNS
    finally:
        server.stop()


def test_a_forever_worker_waits_for_a_database_that_is_away_at_its_start(postgres_folder: Path, tmp_path: Path) -> None:
    server = EmbeddedPostgres(postgres_folder / "server")
    dsn = server.start()
    asyncio.run(migrate(dsn))
    server.stop()
    try:
        with Worker(dsn, tmp_path, "--forever") as worker:
            wait_until(lambda: "cannot connect" in worker.log, "it logs that there is no database")
            assert server.start() == dsn
            with Watcher(dsn) as watcher:
                watcher.enqueue("ping")
                watcher.wait("select true from wakeboard.job_run_history where status = 'succeeded'")
    finally:
        server.stop()


def test_outages_longer_than_a_lease_do_not_count_as_crashes_of_running_runs(
    postgres_folder: Path, tmp_path: Path
) -> None:
    server = EmbeddedPostgres(postgres_folder / "server")
    dsn = server.start()
    asyncio.run(migrate(dsn))
    run_again = "select lease_epoch > %s and locked_by <> 0 and crash_count = 0 from wakeboard.job_runs where id = %s"
    try:
        with Watcher(dsn) as watcher:
            (run,) = watcher.enqueue("sleeps")
            with Worker(dsn, tmp_path, "--forever") as worker:
                watcher.wait("select true from wakeboard.job_runs where started_epoch = lease_epoch")
                for outage in range(1, 4):
                    epoch = watcher.ask("select lease_epoch from wakeboard.job_runs where id = %s", run)
                    expires_at = time.monotonic() + 2.0  # a lease
                    _end(server, postgres_folder / "server", "killed")
                    wait_until(
                        lambda n=outage: worker.log.count("three quarters of a lease") >= n, "it gives its lease up"
                    )
                    wait_until(lambda at=expires_at: time.monotonic() > at, "the lease has expired")
                    assert server.start() == dsn
                    watcher.wait(run_again, epoch, run)
    finally:
        server.stop()


def test_a_worker_logs_the_start_and_the_end_of_an_outage_once(postgres_folder: Path, tmp_path: Path) -> None:
    server = EmbeddedPostgres(postgres_folder / "server")
    dsn = server.start()
    asyncio.run(migrate(dsn))
    try:
        with Worker(dsn, tmp_path, "--forever", lease_seconds=10, poll_seconds=0.2) as worker:
            with Watcher(dsn) as watcher:
                watcher.enqueue("ping")
                watcher.wait("select true from wakeboard.job_run_history where status = 'succeeded'")
            server.stop()
            wait_until(lambda: "waiting for the database" in worker.log, "it logs that the database is away")
            time.sleep(OUTAGE_S)
            assert server.start() == dsn
            wait_until(lambda: "the database answers again" in worker.log, "it logs that the database is back")
            logged = [
                line for line in worker.log.splitlines() if '"level": "warning"' in line or "answers again" in line
            ]
            assert len(logged) == 2, worker.log
    finally:
        server.stop()


def _end(server: EmbeddedPostgres, folder: Path, how: str) -> None:
    if how == "killed":
        os.kill(server_pid(folder), signal.SIGKILL)
    server.stop()


def server_pid(folder: Path) -> int:
    return int(next(folder.rglob("postmaster.pid")).read_text().splitlines()[0])
