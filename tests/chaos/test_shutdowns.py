"""SIGTERM: runs that can finish in the grace period do, others are released with their attempt."""

from __future__ import annotations

import signal
from typing import TYPE_CHECKING

from tests.chaos.processes import Worker

if TYPE_CHECKING:
    from pathlib import Path

    from tests.chaos.processes import Watcher


def test_a_run_that_outlasts_the_grace_period_is_released_with_its_attempt(
    database: str, watcher: Watcher, tmp_path: Path
) -> None:
    (run,) = watcher.enqueue("waits")
    with Worker(database, tmp_path, "--forever") as worker:
        watcher.wait("select true from events")
        worker.send(signal.SIGTERM)
        assert worker.exit_code() == 0
    row = watcher.rows(
        "select status::text, attempts, release_count, crash_count from wakeboard.job_runs where id = %s", run
    )
    assert row == [("queued", 0, 1, 0)]
    assert watcher.ask("select count(*) from wakeboard.workers") == 0  # it deregistered


def test_a_run_that_finishes_within_the_grace_period_is_completed(
    database: str, watcher: Watcher, tmp_path: Path
) -> None:
    (run,) = watcher.enqueue("waits")
    with Worker(database, tmp_path, "--forever", grace_seconds=30) as worker:
        watcher.wait("select true from events")
        worker.send(signal.SIGTERM)
        watcher.do("insert into gate values (true)")
        assert worker.exit_code() == 0
    assert watcher.status(run) == "succeeded"


def test_nothing_new_is_claimed_after_sigterm(database: str, watcher: Watcher, tmp_path: Path) -> None:
    watcher.enqueue("waits")
    with Worker(database, tmp_path, "--forever") as worker:
        watcher.wait("select true from events")
        worker.send(signal.SIGTERM)
        (late,) = watcher.enqueue("quick", run_at="2020-01-01")
        assert worker.exit_code() == 0
    assert watcher.status(late) in {"queued", "succeeded"}  # claimed before the signal arrived, or not at all
    assert watcher.ask("select count(*) from wakeboard.job_runs where locked_by <> 0") == 0
