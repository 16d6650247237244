"""Timeouts, cancellation, and when a worker stays or goes."""

from __future__ import annotations

import signal
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from tests.worker.conftest import Board


@pytest.mark.parametrize(("job_type", "outcome"), [("sleeps", "failed"), ("swallows", "succeeded")])
def test_a_handler_that_waits_too_long_is_cancelled_and_success_still_wins(
    board: Board, job_type: str, outcome: str
) -> None:
    (run,) = board.enqueue(job_type, timeout_s=1)
    board.wake()
    seen = board.run(run)
    assert seen["status"] == outcome
    if outcome == "failed":
        assert (seen["error_type"], seen["attempts"]) == ("Timeout", 1)
        assert board.watcher.ask("select outcome from wakeboard.job_attempts") == "timed_out"


def test_a_worker_whose_threads_are_lost_finishes_the_rest_and_ends_with_an_error(board: Board) -> None:
    (run,) = board.enqueue("stuck", timeout_s=1)
    with board.worker(threads=2) as worker:
        assert worker.exit_code() == 1
    assert "cannot be stopped" in worker.log
    assert board.run(run)["error_type"] == "Timeout"


def test_a_cancelled_run_is_stopped_at_the_next_heartbeat(board: Board) -> None:
    (run,) = board.enqueue("sleeps")
    with board.worker(lease_seconds=2):
        board.watcher.wait("select true from wakeboard.job_runs where locked_by <> 0")
        assert board.watcher.rows("select answer from wakeboard.cancel(%s)", [run]) == [("requested",)]
        board.watcher.wait("select true from wakeboard.job_run_history where status = 'cancelled'")


def test_a_draining_worker_stays_for_what_is_due_soon(board: Board) -> None:
    board.watcher.do("insert into wakeboard.job_runs (job_type, run_at) values ('answers', now() + interval '2 s')")
    board.wake(drain_lookahead_seconds=10)
    assert board.watcher.ask("select status::text from wakeboard.all_runs") == "succeeded"


def test_a_worker_that_stays_wakes_on_notify(board: Board) -> None:
    with board.worker("--forever", poll_seconds=60) as worker:
        board.watcher.wait("select true from pg_stat_activity where application_name = 'wakeboard listen'")
        (run,) = board.enqueue("answers")
        board.watcher.wait("select true from wakeboard.job_run_history where id = %s", run)
        worker.send(signal.SIGTERM)
        assert worker.exit_code() == 0


def test_a_lingering_worker_takes_what_comes_and_then_goes(board: Board) -> None:
    with board.worker("--linger", "3") as worker:
        board.watcher.wait("select true from wakeboard.workers")
        (run,) = board.enqueue("answers")
        board.watcher.wait("select true from wakeboard.job_run_history where id = %s", run)
        assert worker.exit_code() == 0


def test_runs_with_a_longer_timeout_than_the_pool_takes_stay_queued(board: Board) -> None:
    (run,) = board.enqueue("answers", timeout_s=100)
    board.wake(max_timeout_seconds=99)
    assert board.run(run)["status"] == "queued"
