"""How often a worker that stays asks the database."""

from __future__ import annotations

import signal
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tests.worker.conftest import Store

RUNS = 40
EXECUTORS = 2  # the handlers are coroutines and plain functions
ENDED = "select count(*) = %s from wakeboard.job_run_history where status = 'succeeded'"
CALLS = "select coalesce(sum(calls), 0)::bigint from pg_stat_user_functions where funcname = any (%s)"


def test_a_run_that_comes_alone_costs_one_fetch(store: Store) -> None:
    name = store.watcher.ask("select current_database()")
    store.watcher.do(f"alter database \"{name}\" set track_functions = 'all'")
    with store.worker("--forever", poll_seconds=60, lease_seconds=60) as worker:
        for number in range(1, RUNS + 1):
            store.enqueue("answers")
            store.watcher.wait(ENDED, number)
        worker.send(signal.SIGTERM)
        assert worker.exit_code() == 0, worker.log
    store.watcher.do("select pg_stat_clear_snapshot()")
    assert store.watcher.ask(CALLS, ["fetch_runs"]) <= EXECUTORS * (RUNS * 1.2 + 5), (
        "the ends of runs let the worker ask again"
    )
    # On a busy machine, a look may come before the run and find nothing: it then looks for others.
    assert store.watcher.ask(CALLS, ["claim_limited", "claim_quarantined"]) <= RUNS * 0.2
