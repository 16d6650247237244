"""Killed, frozen and terminated workers: nothing is lost or accepted twice, zombies are refused, poison dies alone."""

from __future__ import annotations

import signal
from typing import TYPE_CHECKING

from tests.chaos.processes import Worker, wait_until

if TYPE_CHECKING:
    from pathlib import Path

    from tests.chaos.processes import Watcher


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
    assert watcher.ask("select count(*) from wakeboard.workers") == 0  # it deregistered


def test_a_zombies_completion_and_its_effect_are_refused(database: str, watcher: Watcher, tmp_path: Path) -> None:
    (run,) = watcher.enqueue("charges")
    with Worker(database, tmp_path, "--forever") as zombie:
        watcher.wait("select true from events where pid = %s", zombie.pid)
        zombie.send(signal.SIGSTOP)
        watcher.do("insert into gate values (true)")
        with Worker(database, tmp_path, "--forever") as successor:
            watcher.wait("select true from wakeboard.job_run_history where id = %s", run)
            zombie.send(signal.SIGCONT)
            zombie.send(signal.SIGTERM)
            assert zombie.exit_code() == 0
            assert watcher.rows("select run_id, pid from ledger") == [(run, successor.pid)]
    assert watcher.rows("select status::text from wakeboard.all_runs where id = %s", run) == [("succeeded",)]
    assert not watcher.ask("select true from events where what = 'charged' and pid = %s", zombie.pid)


def test_a_zombie_does_not_trust_its_lease_although_no_worker_claimed_its_run(
    database: str, watcher: Watcher, tmp_path: Path
) -> None:
    (run,) = watcher.enqueue("waits")
    with Worker(database, tmp_path, "--forever") as zombie:
        watcher.wait("select true from events where pid = %s", zombie.pid)
        zombie.send(signal.SIGSTOP)
        watcher.wait("select locked_until < clock_timestamp() from wakeboard.job_runs where id = %s", run)
        watcher.do("insert into gate values (true)")
        zombie.send(signal.SIGCONT)
        watcher.wait("select true from wakeboard.job_run_history where id = %s", run)
    assert watcher.ask("select status::text from wakeboard.all_runs where id = %s", run) == "succeeded"


def test_a_worker_whose_registration_was_deleted_registers_again(
    database: str, watcher: Watcher, tmp_path: Path
) -> None:
    with Worker(database, tmp_path, "--forever"):
        watcher.wait("select true from wakeboard.workers")
        watcher.do("delete from wakeboard.workers")
        watcher.wait("select true from wakeboard.workers")
