"""Killed, suspended and terminated workers: no run is lost or accepted twice, and zombies are refused."""

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
            assert watcher.rows("select run_id, pid from effects") == [(run, successor.pid)]
    assert watcher.rows("select status::text from wakeboard.all_runs where id = %s", run) == [("succeeded",)]
    assert not watcher.ask("select true from events where what = 'charged' and pid = %s", zombie.pid)


def test_a_worker_whose_registration_was_deleted_registers_again(
    database: str, watcher: Watcher, tmp_path: Path
) -> None:
    with Worker(database, tmp_path, "--forever"):
        watcher.wait("select true from wakeboard.workers")
        watcher.do("delete from wakeboard.workers")
        watcher.wait("select true from wakeboard.workers")
