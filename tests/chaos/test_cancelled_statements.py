"""A worker survives a statement that is cancelled by statement_timeout or an administrator."""

from __future__ import annotations

from typing import TYPE_CHECKING

import psycopg

from tests.chaos.processes import Worker

if TYPE_CHECKING:
    from pathlib import Path

    from tests.chaos.processes import Watcher

WAITING = "from pg_stat_activity where starts_with(application_name, 'wakeboard claims') and wait_event_type = 'Lock'"


def test_a_worker_whose_claim_is_cancelled_claims_again(database: str, watcher: Watcher, tmp_path: Path) -> None:
    with Worker(database, tmp_path, "--forever"):
        with psycopg.connect(database) as other:
            other.execute("lock table wakeboard.job_runs")
            waits_since = watcher.wait(f"select query_start {WAITING}")
            watcher.do(f"select pg_cancel_backend(pid) {WAITING}")
            watcher.wait(f"select not exists (select {WAITING} and query_start = %s)", waits_since)
        watcher.enqueue("quick")
        watcher.wait("select true from wakeboard.job_run_history where status = 'succeeded'")
