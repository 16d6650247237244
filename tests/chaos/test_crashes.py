"""Killed workers: nothing is lost, nothing is accepted twice, and a poison pill dies alone."""

from __future__ import annotations

import signal
from typing import TYPE_CHECKING

from tests.chaos.processes import Worker, wait_until

if TYPE_CHECKING:
    from pathlib import Path

    from tests.chaos.processes import Watcher


def test_a_killed_workers_run_is_claimed_by_another_and_succeeds_once(
    database: str, watcher: Watcher, tmp_path: Path
) -> None:
    (run,) = watcher.enqueue("waits")
    with Worker(database, tmp_path, "--forever") as victim:
        watcher.wait("select pid from events where pid = %s", victim.pid)
        victim.send(signal.SIGKILL)
        assert victim.exit_code() == -signal.SIGKILL
    watcher.do("insert into gate values (true)")
    with Worker(database, tmp_path, "--forever"):
        watcher.wait("select true from wakeboard.job_run_history where id = %s", run)
    (row,) = watcher.rows("select status::text, attempts, crash_count from wakeboard.all_runs where id = %s", run)
    assert row == ("succeeded", 1, 1)  # the crash gave its attempt back
    assert watcher.rows("select outcome from wakeboard.job_attempts where run_id = %s", run) == [("crashed",)]


def test_a_poison_run_dies_alone_after_three_crashes_and_its_neighbours_succeed(
    database: str, watcher: Watcher, tmp_path: Path
) -> None:
    (poison,) = watcher.enqueue("poison")
    neighbours = watcher.enqueue("quick", 50)
    deaths = 0
    while watcher.status(poison) != "dead":
        with Worker(database, tmp_path, "--forever") as worker:
            wait_until(
                lambda w=worker: not w.running() or watcher.status(poison) == "dead", "killed, or the run is dead"
            )
            deaths += not worker.running()
            assert deaths <= 3
    with Worker(database, tmp_path):
        watcher.wait("select count(*) = 50 from wakeboard.job_run_history where status = 'succeeded'")
    assert deaths == 3
    error = watcher.rows("select error_type, crash_count, attempts from wakeboard.job_runs where id = %s", poison)
    assert error == [("WorkerCrashed", 3, 0)]
    crashed = watcher.ask("select max(crash_count) from wakeboard.job_run_history where id = any(%s)", neighbours)
    assert (
        crashed <= 2
    )  # runs that shared its worker at its first two crashes; a quarantined run has a worker of its own


def test_a_sigkill_in_the_middle_of_a_backlog_loses_nothing_and_repeats_no_effect(
    database: str, watcher: Watcher, tmp_path: Path
) -> None:
    watcher.enqueue("counts", 2000)
    with Worker(database, tmp_path, "--forever") as victim:
        watcher.wait("select count(*) > 300 from ledger")
        victim.send(signal.SIGKILL)
        victim.exit_code()
    with Worker(database, tmp_path, "--forever"), Worker(database, tmp_path, "--forever"):
        watcher.wait("select count(*) = 2000 from wakeboard.job_run_history where status = 'succeeded'")
    assert watcher.ask("select count(*) from wakeboard.job_runs") == 0
    assert watcher.rows("select count(*), count(distinct run_id) from ledger") == [(2000, 2000)]
