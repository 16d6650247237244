"""Zombies: the store refuses a worker that was frozen past its lease."""

from __future__ import annotations

import signal
from typing import TYPE_CHECKING

from tests.chaos.processes import Worker

if TYPE_CHECKING:
    from pathlib import Path

    from tests.chaos.processes import Watcher


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


def test_a_worker_that_was_reaped_registers_again(database: str, watcher: Watcher, tmp_path: Path) -> None:
    known = "select true from wakeboard.workers where name = 'sleeper'"
    with (
        Worker(database, tmp_path, "--forever", worker_name="sleeper") as sleeper,
        Worker(database, tmp_path, "--forever"),
    ):
        watcher.wait(known)
        sleeper.send(signal.SIGSTOP)
        watcher.wait(f"select not exists ({known})")
        sleeper.send(signal.SIGCONT)
        watcher.wait(known)


def test_a_worker_whose_registration_was_deleted_registers_again(
    database: str, watcher: Watcher, tmp_path: Path
) -> None:
    with Worker(database, tmp_path, "--forever"):
        watcher.wait("select true from wakeboard.workers")
        watcher.do("delete from wakeboard.workers")
        watcher.wait("select true from wakeboard.workers")


def test_a_handler_that_blocks_the_event_loop_keeps_its_lease(database: str, watcher: Watcher, tmp_path: Path) -> None:
    (run,) = watcher.enqueue("blocks")
    with Worker(database, tmp_path, "--forever"), Worker(database, tmp_path, "--forever"):
        watcher.wait("select true from wakeboard.job_run_history where id = %s", run)
    (row,) = watcher.rows("select status::text, crash_count, lease_epoch from wakeboard.all_runs where id = %s", run)
    assert row == ("succeeded", 0, 1)
