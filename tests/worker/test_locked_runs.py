"""A run that another transaction has locked delays no other run and does not keep a worker from exiting."""

from __future__ import annotations

import signal
import time
from typing import TYPE_CHECKING

import psycopg

if TYPE_CHECKING:
    from tests.worker.conftest import Store

HANDLERS = {"handlers": "tests.worker.locking_handlers", "lease_seconds": 10}
COMPLETED = "select count(*) = %s from wakeboard.job_run_history where job_type = 'count' and status = 'succeeded'"


def executed_once(store: Store) -> bool:
    """Whether no other run started twice or crashed."""
    query = "select bool_and(lease_epoch = 1 and crash_count = 0) from wakeboard.all_runs where job_type = 'count'"
    return store.watcher.ask(query)


def begins(store: Store, run: int) -> None:
    store.watcher.wait("select exists (select from calls where name like %s)", f"began {run} %")


def test_a_handler_that_hangs_behind_once_delays_no_other_run_and_times_out(store: Store) -> None:
    with store.worker("--forever", **HANDLERS):
        (hung,) = store.enqueue("hang_behind_once", timeout_s=2, max_attempts=1)
        begins(store, hung)
        began = time.monotonic()
        store.enqueue("count", count=1000)
        store.watcher.wait(COMPLETED, 1000)
        store.watcher.wait("select exists (select from wakeboard.job_runs where id = %s and status = 'dead')", hung)
        assert time.monotonic() - began < 10  # timeout, timeout_s, and the next try after the cut; not a lease
        store.enqueue("count", count=100)
        store.watcher.wait(COMPLETED, 1100)
    assert executed_once(store)
    assert store.run(hung)["error_type"] == "Timeout"


def test_a_worker_exits_if_its_handler_keeps_a_run_locked_for_a_lease(store: Store) -> None:
    settings = HANDLERS | {"lease_seconds": 3, "grace_seconds": 1}
    with store.worker("--forever", **settings) as worker:
        (hung,) = store.enqueue("hang_behind_its_own_lock", timeout_s=2, max_attempts=1)
        begins(store, hung)
        store.enqueue("count", count=100)
        store.watcher.wait(COMPLETED, 100)
        assert worker.exit_code() == 1, worker.log
    assert "kept run" in worker.log
    store.enqueue("count", count=100)
    store.wake(**settings)
    store.watcher.wait(COMPLETED, 200)
    assert executed_once(store)


def test_sigterm_ends_a_worker_whose_outcome_is_blocked(store: Store) -> None:
    with store.worker("--forever", **HANDLERS, grace_seconds=2) as worker:
        (hung,) = store.enqueue("hang_behind_its_own_lock", timeout_s=1, max_attempts=1)
        begins(store, hung)
        store.enqueue("count")
        store.watcher.wait(COMPLETED, 1)
        worker.send(signal.SIGTERM)
        asked = time.monotonic()
        assert worker.exit_code() == 0, worker.log
        assert time.monotonic() - asked < 2 + 2 + 2 + 2  # grace, unwinding, what is blocked, and leaving


def test_the_outcome_of_a_run_that_an_administrator_has_locked_is_kept_and_delays_no_other(store: Store) -> None:
    with store.worker("--forever", **HANDLERS), psycopg.connect(store.dsn) as administrator:
        (locked,) = store.enqueue("linger")
        begins(store, locked)
        administrator.execute("select from wakeboard.job_runs where id = %s for update", (locked,))
        store.enqueue("count", count=500)
        store.watcher.wait(COMPLETED, 500)
        assert store.watcher.status(locked) == "running"
        administrator.rollback()
        store.watcher.wait("select exists (select from wakeboard.job_run_history where id = %s)", locked)
    assert executed_once(store)
    assert (store.run(locked)["lease_epoch"], store.run(locked)["result"]) == (1, "lingered")
