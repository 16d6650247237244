"""A worker whose registration another transaction has locked claims and maintains as before."""

from __future__ import annotations

from typing import TYPE_CHECKING

import psycopg
import pytest

from wakeboard.conformance.claim_scenarios import REFUSE_REGISTRATIONS

if TYPE_CHECKING:
    from tests.worker.conftest import Store

SETTINGS = {"handlers": "tests.worker.locking_handlers", "lease_seconds": 3}
SUCCEEDED = "select count(*) = %s from wakeboard.job_run_history where job_type = 'count' and status = 'succeeded'"


def claims_for_two_leases(store: Store) -> None:
    """The worker registers again after each lease. It claims before, meanwhile and after."""
    store.watcher.do("create table until as select clock_timestamp() + interval '7 s' as at")
    runs = 1
    while store.watcher.ask("select clock_timestamp() < at from until"):
        runs += 1
        store.enqueue("count")
        store.watcher.wait(SUCCEEDED, runs)


@pytest.mark.parametrize("lock", ["select from wakeboard.workers for update", "delete from wakeboard.workers"])
def test_a_worker_whose_row_is_locked_goes_on_claiming(store: Store, lock: str) -> None:
    with store.worker("--forever", **SETTINGS) as worker, psycopg.connect(store.dsn) as holder:
        store.enqueue("count")
        store.watcher.wait(SUCCEEDED, 1)
        holder.execute(lock.encode())
        claims_for_two_leases(store)
        assert "waiting for the database" not in worker.log
        holder.rollback()
        store.watcher.wait("select last_seen > now() - interval '3 s' from wakeboard.workers")


def test_a_worker_that_cannot_register_again_says_so_once(store: Store) -> None:
    with store.worker("--forever", **SETTINGS) as worker:
        store.enqueue("count")
        store.watcher.wait(SUCCEEDED, 1)
        store.watcher.do("create sequence wakeboard.refusals")
        store.watcher.do(REFUSE_REGISTRATIONS.decode())
        store.watcher.wait("select last_value >= 2 from wakeboard.refusals")
        store.enqueue("count")
        store.watcher.wait(SUCCEEDED, 2)
        assert worker.log.count("the task registration fails") == 1, worker.log
