"""A run that another transaction has locked, or another row, delays no other run and keeps no worker from exiting."""

from __future__ import annotations

import signal
import time
from typing import TYPE_CHECKING

import psycopg
import pytest

from tests.chaos.processes import wait_until

if TYPE_CHECKING:
    from tests.worker.conftest import Store

HANDLERS = {"handlers": "tests.worker.locking_handlers", "lease_seconds": 10}
COMPLETED = "select count(*) = %s from wakeboard.job_run_history where job_type = 'count' and status = 'succeeded'"


def executed_once(store: Store) -> bool:
    """Whether no other run started twice or crashed."""
    once = "attempts = 1 and crash_count = 0 and release_count = 0"
    return store.watcher.ask(f"select bool_and({once}) from wakeboard.all_runs where job_type = 'count'")


def begins(store: Store, run: int) -> None:
    store.watcher.wait("select exists (select from calls where name like %s)", f"began {run} %")


def test_a_handler_that_hangs_behind_once_delays_no_other_run(store: Store) -> None:
    with store.worker("--forever", **HANDLERS | {"lease_seconds": 60}):
        (hung,) = store.enqueue("hang_behind_once", timeout_s=2, max_attempts=1)
        begins(store, hung)
        began = time.monotonic()
        store.enqueue("count", count=1000)
        store.watcher.wait(COMPLETED, 1000)
        store.watcher.wait("select exists (select from wakeboard.job_runs where id = %s and status = 'dead')", hung)
        assert time.monotonic() - began < 40  # seconds are for the timeouts and the next try after the cut; not a lease
        store.enqueue("count", count=100)
        store.watcher.wait(COMPLETED, 1100)
    assert executed_once(store)
    assert store.run(hung)["error_type"] == "Timeout"


def test_the_timeout_ends_a_plain_handler_that_waits_in_once(store: Store) -> None:
    """The backend waits for a lock, so it does not notice that its client has gone."""
    (waits,) = store.enqueue("wait_in_once", timeout_s=2, max_attempts=1, run_at="2900-01-01Z")
    settings = HANDLERS | {"lease_seconds": 60}
    with store.worker("--forever", **settings), psycopg.connect(store.dsn) as other:
        other.execute(
            "insert into wakeboard.job_effects (run_uuid, key, run_id, lease_epoch)"
            " select uuid, 'charge', id, 0 from wakeboard.job_runs where id = %s",
            (waits,),
        )
        store.watcher.do("update wakeboard.job_runs set run_at = now()")
        store.watcher.wait("select exists (select from wakeboard.job_runs where id = %s and status = 'dead')", waits)
    assert store.run(waits)["error_type"] == "Timeout"


def test_a_worker_exits_if_its_handler_locks_a_run_too_long(store: Store) -> None:
    settings = HANDLERS | {"lease_seconds": 3, "grace_seconds": 1}
    with store.worker("--forever", **settings) as worker:
        (hung,) = store.enqueue("hang_behind_its_own_lock", timeout_s=2, max_attempts=1)
        begins(store, hung)
        store.enqueue("count", count=100)
        store.watcher.wait(COMPLETED, 100)
        assert worker.exit_code() == 1, worker.log
    assert f"kept the outcome of run {hung} from being stored for 3 s" in worker.log
    store.enqueue("count", count=100)
    store.wake(**settings)
    store.watcher.wait(COMPLETED, 200)
    assert executed_once(store)


def test_a_foreign_lock_that_allows_renewals_ends_no_worker(store: Store) -> None:
    """As a foreign key to the run takes it."""
    with store.worker("--forever", **HANDLERS | {"lease_seconds": 3}) as worker, psycopg.connect(store.dsn) as other:
        (locked,) = store.enqueue("linger")
        begins(store, locked)
        other.execute("select from wakeboard.job_runs where id = %s for key share", (locked,))
        store.watcher.wait("select started_at < now() - interval '12 s' from wakeboard.job_runs where id = %s", locked)
        other.rollback()
        store.watcher.wait("select exists (select from wakeboard.job_run_history where id = %s)", locked)
        worker.send(signal.SIGTERM)
        assert worker.exit_code() == 0, worker.log
    assert (store.run(locked)["attempts"], store.run(locked)["crash_count"]) == (1, 0)


@pytest.mark.parametrize(
    ("job_type", "warning"),
    [
        ("once_behind_a_lock", "lost: another transaction had locked the row of run {} until its lease ended"),
        ("linger", "lost: another transaction kept the outcome of run {} from being stored for a lease"),
    ],
)
def test_a_worker_names_a_run_that_stayed_locked_for_a_lease(store: Store, job_type: str, warning: str) -> None:
    with store.worker("--forever", **HANDLERS | {"lease_seconds": 3}) as worker, psycopg.connect(store.dsn) as other:
        (locked,) = store.enqueue(job_type)
        begins(store, locked)
        other.execute("select from wakeboard.job_runs where id = %s for update", (locked,))
        store.watcher.do("insert into calls values ('open')")
        wait_until(lambda: warning.format(locked) in worker.log, "the warning")


# -- locks of other rows and of tables ---------------------------------------------------------------------------------

DEAD = "select count(*) = %s from wakeboard.job_runs where id = any (%s) and status = 'dead'"


# -- locked limit keys -------------------------------------------------------------------------------------------------


def begin_limited(store: Store, job_type: str, count: int) -> None:
    """Waits until so many runs of the key `api` have begun."""
    store.watcher.do("select wakeboard.set_limit('api', 100)")
    store.watcher.do("select wakeboard.set_rate_limit('api', 1000, 1, 1000)")
    store.enqueue(job_type, count=count, limit_key="api")
    store.watcher.wait("select count(*) = %s from calls where name like 'began %%'", count)


def test_retry_after_pauses_a_locked_key_once_it_is_free(store: Store) -> None:
    settings = HANDLERS | {"lease_seconds": 60}
    with store.worker("--forever", **settings), psycopg.connect(store.dsn) as administrator:
        begin_limited(store, "limited", 5)
        administrator.execute("select from wakeboard.job_limits for update")
        store.watcher.do("insert into calls values ('open')")
        store.watcher.wait("select count(*) = 5 from calls where name like 'raises %'")
        dead = store.enqueue("fail", count=5, max_attempts=1)
        store.watcher.wait(DEAD, 5, dead)
        assert store.watcher.ask("select count(*) from wakeboard.job_runs where status = 'running'") == 5
        administrator.rollback()
        store.watcher.wait("select count(*) = 5 from wakeboard.job_runs where status = 'failed'")
    assert store.watcher.ask("select paused_until > now() + interval '1000 s' from wakeboard.job_limits")


def test_retry_after_waits_for_a_locked_limit_key_with_a_bound(store: Store) -> None:
    with store.worker("--forever", **HANDLERS) as worker, psycopg.connect(store.dsn) as administrator:
        begin_limited(store, "limited", 1)
        administrator.execute("select from wakeboard.job_limits for update")
        store.watcher.do("insert into calls values ('open')")
        store.watcher.wait("select exists (select from wakeboard.job_runs where status = 'failed')")
    assert "its failure is reported without the pause" in worker.log
