"""The file that a readiness probe looks for exists while the worker can work."""

from __future__ import annotations

import signal
from typing import TYPE_CHECKING

from testbed.processes import wait_for

if TYPE_CHECKING:
    from pathlib import Path

    from tests.worker.conftest import Store


def test_a_worker_is_ready_from_its_registration_until_it_stops(store: Store, tmp_path: Path) -> None:
    ready = tmp_path / "ready"
    with store.worker("--forever", ready_file=ready, grace_seconds=30) as worker:
        wait_for(ready.exists, why=lambda: worker.log)
        assert store.watcher.rows("select count(*) from wakeboard.workers") == [(1,)]
        store.enqueue("naps", '{"s": 60}')
        store.watcher.wait("select true from wakeboard.job_runs where locked_by <> 0")
        worker.send(signal.SIGTERM)
        wait_for(lambda: not ready.exists(), why=lambda: worker.log)
        assert worker.running  # its run has the grace period


def test_a_worker_that_claims_no_more_runs_is_not_ready(store: Store, tmp_path: Path) -> None:
    """Handlers that do not stop occupy half of its slots, and it waits for the other run."""
    ready = tmp_path / "ready"
    with store.worker(
        "--forever", ready_file=ready, handlers="tests.worker.misbehaving_handlers", concurrency=4
    ) as worker:
        wait_for(ready.exists, why=lambda: worker.log)
        store.enqueue("naps", '{"seconds": 60}')
        store.enqueue("never-stops", count=2, timeout_s=1, max_attempts=1)
        wait_for(lambda: not ready.exists(), why=lambda: worker.log)
        leased = "select count(*) from wakeboard.job_runs where locked_by <> 0"
        wait_for(lambda: store.watcher.ask(leased) == 1, why=lambda: worker.log)
        assert worker.running


def test_a_worker_whose_handlers_cannot_be_imported_is_never_ready(store: Store, tmp_path: Path) -> None:
    ready = tmp_path / "ready"
    ready.touch()  # by a process of this container that was killed
    with store.worker("--forever", ready_file=ready, handlers="shop.no_such_module") as worker:
        assert worker.exit_code() == 1
    assert not ready.exists()
