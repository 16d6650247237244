"""Timeouts, cancellation, and when a worker exits."""

from __future__ import annotations

import signal
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from tests.worker.conftest import Store


@pytest.mark.parametrize(("job_type", "outcome"), [("sleeps", "failed"), ("swallows", "succeeded")])
def test_a_handler_that_waits_too_long_is_cancelled_and_success_still_wins(
    store: Store, job_type: str, outcome: str
) -> None:
    (run,) = store.enqueue(job_type, timeout_s=1)
    store.wake()
    seen = store.run(run)
    assert seen["status"] == outcome
    if outcome == "failed":
        assert (seen["error_type"], seen["attempts"]) == ("Timeout", 1)
        assert store.watcher.ask("select outcome from wakeboard.job_attempts") == "timed_out"


def test_a_worker_whose_threads_are_lost_finishes_the_rest_and_ends_with_an_error(store: Store) -> None:
    (run,) = store.enqueue("stuck", timeout_s=1)
    with store.worker(threads=2) as worker:
        assert worker.exit_code() == 1
    assert "handlers that do not stop occupy half of the slots" in worker.log
    assert store.run(run)["error_type"] == "Timeout"


def test_a_cancelled_run_is_stopped_at_the_next_heartbeat(store: Store) -> None:
    (run,) = store.enqueue("sleeps")
    with store.worker(lease_seconds=2):
        store.watcher.wait("select true from wakeboard.job_runs where locked_by <> 0")
        assert store.watcher.rows("select answer from wakeboard.cancel(%s)", [run]) == [("requested",)]
        store.watcher.wait("select true from wakeboard.job_run_history where status = 'cancelled'")


def test_a_draining_worker_waits_for_runs_that_are_due_soon(store: Store) -> None:
    store.watcher.do("insert into wakeboard.job_runs (job_type, run_at) values ('answers', now() + interval '2 s')")
    store.wake(drain_lookahead_seconds=10)
    assert store.watcher.ask("select status::text from wakeboard.all_runs") == "succeeded"


def test_a_worker_that_stays_claims_a_run_on_notify(store: Store) -> None:
    with store.worker("--forever", poll_seconds=60) as worker:
        store.watcher.wait("select true from pg_stat_activity where application_name = 'wakeboard listen'")
        (run,) = store.enqueue("answers")
        store.watcher.wait("select true from wakeboard.job_run_history where id = %s", run)
        worker.send(signal.SIGTERM)
        assert worker.exit_code() == 0


def test_a_lingering_worker_claims_new_runs_and_then_exits(store: Store) -> None:
    with store.worker("--linger", "3") as worker:
        store.watcher.wait("select true from wakeboard.workers")
        (run,) = store.enqueue("answers")
        store.watcher.wait("select true from wakeboard.job_run_history where id = %s", run)
        assert worker.exit_code() == 0


def test_runs_whose_timeout_exceeds_that_of_the_pool_stay_queued(store: Store) -> None:
    (run,) = store.enqueue("answers", timeout_s=100)
    store.wake(max_timeout_seconds=99)
    assert store.run(run)["status"] == "queued"
