"""Whatever a handler does, its worker goes on, keeps its leases, and ends."""

from __future__ import annotations

import signal
import time
from typing import TYPE_CHECKING

from tests.chaos.processes import LOOK_EVERY

if TYPE_CHECKING:
    from tests.worker.conftest import Board

ASYNC, PLAIN = "tests.worker.misbehaving_handlers", "tests.worker.misbehaving_functions"


def test_a_handler_that_blocks_in_its_first_step_keeps_its_lease(board: Board) -> None:
    (run,) = board.enqueue("blocks-at-once")
    with board.worker(handlers=ASYNC, lease_seconds=2):
        board.watcher.wait("select true from calls where name = 'began'")
        least = 2.0
        while not board.watcher.ask("select true from calls where name = 'ended'"):
            left = board.watcher.ask(
                "select extract(epoch from locked_until - clock_timestamp())::float8"
                " from wakeboard.job_runs where id = %s and locked_by <> 0",
                run,
            )
            least = min(least, 2.0 if left is None else left)
            time.sleep(LOOK_EVERY)
    assert least > 0


def test_outcomes_are_told_while_handlers_that_never_wait_go_on(board: Board) -> None:
    board.enqueue("grinds", count=200)
    with board.worker(handlers=ASYNC):
        board.watcher.wait("select count(*) > 0 from wakeboard.job_run_history")
        assert board.watcher.ask("select count(*) from wakeboard.job_runs") > 100


def test_a_handler_that_never_stops_does_not_keep_the_wake(board: Board) -> None:
    (run,) = board.enqueue("never-stops", timeout_s=1, max_attempts=1)
    board.wake(handlers=ASYNC)
    seen = board.run(run)
    assert (seen["status"], seen["error_type"]) == ("dead", "Timeout")


def test_a_handler_that_blocks_for_ever_ends_its_worker_and_its_neighbours_run_elsewhere(board: Board) -> None:
    (stuck,) = board.enqueue("never-comes-back", timeout_s=1, max_attempts=1)
    (neighbour,) = board.enqueue("naps", '{"seconds": 1}')
    with board.worker("--forever", handlers=PLAIN):  # it makes duties, and knows neither of the two
        with board.worker("--forever", handlers=ASYNC, lease_seconds=2) as blocked:
            assert blocked.exit_code() == 1
            assert "blocked the event loop" in blocked.log
        board.watcher.do("select wakeboard.cancel(array[%s]::bigint[])", stuck)
        with board.worker("--forever", handlers=ASYNC):
            board.watcher.wait("select true from wakeboard.job_run_history where id = %s", neighbour)


def test_slots_lost_to_handlers_that_never_stop_end_the_worker_with_an_error(board: Board) -> None:
    board.enqueue("never-stops", count=2, timeout_s=1, max_attempts=1)
    with board.worker("--forever", handlers=ASYNC, concurrency=4) as worker:
        assert worker.exit_code() == 1


def test_a_thread_that_ends_late_is_no_longer_counted_as_lost(board: Board) -> None:
    with board.worker("--forever", handlers=PLAIN, threads=3) as worker:
        for _ in range(2):  # both at once would be half of the threads
            (run,) = board.enqueue("sits", '{"seconds": 4}', timeout_s=1, max_attempts=1)
            board.watcher.wait("select true from wakeboard.job_runs where id = %s and status = 'dead'", run)
            (after,) = board.enqueue("sits", '{"seconds": 2}')  # longer than what is left of the first
            board.watcher.wait("select true from wakeboard.job_run_history where id = %s", after)
        worker.send(signal.SIGTERM)
        assert worker.exit_code() == 0


def test_a_handler_that_cancels_itself_fails_alone(board: Board) -> None:
    runs = board.enqueue("cancels-itself", count=3, max_attempts=1)
    (after,) = board.enqueue("does-nothing", priority=1)
    board.wake(handlers=ASYNC, concurrency=1)
    assert {board.run(run)["status"] for run in runs} == {"dead"}
    assert board.run(after)["status"] == "succeeded"


def test_a_plain_handler_that_complains_when_the_worker_leaves_is_given_back(board: Board) -> None:
    (run,) = board.enqueue("complains")
    with board.worker("--forever", handlers=PLAIN, grace_seconds=0) as worker:
        board.watcher.wait("select true from wakeboard.job_runs where status = 'running'")
        worker.send(signal.SIGTERM)
        assert worker.exit_code() == 0
    seen = board.run(run)
    assert (seen["status"], seen["attempts"], seen["release_count"]) == ("queued", 0, 1)


def test_context_variables_do_not_pass_from_one_run_in_a_thread_to_the_next(board: Board) -> None:
    board.enqueue("leaves-something", count=20)
    board.wake(handlers=PLAIN, threads=1)
    assert board.watcher.rows("select distinct result from wakeboard.job_run_history") == [(0,)]


def test_lines_that_a_handlers_code_logs_carry_the_run(board: Board) -> None:
    (run,) = board.enqueue("logs")
    worker = board.wake(handlers=ASYNC, log_level="info")
    (line,) = [line for line in worker.log.splitlines() if "a line of mine" in line]
    assert f'"run": {run}' in line


def test_a_step_outlives_the_connection_that_it_began_on(board: Board) -> None:
    (run,) = board.enqueue("loses-its-connection", max_attempts=1)
    board.wake(handlers=ASYNC)
    assert board.run(run)["result"] == 2


def test_what_threads_have_in_reserve_is_given_back_uncounted_when_the_worker_leaves(board: Board) -> None:
    board.enqueue("sits", '{"seconds": 0}', count=1_000, priority=5)
    board.enqueue("complains", count=400)
    with board.worker("--forever", handlers=PLAIN, threads=2, grace_seconds=0) as worker:
        board.watcher.wait(
            "select count(*) > 0 from wakeboard.job_runs where status = 'running'"
            " having (select count(*) from wakeboard.job_run_history) = 1000"
        )
        worker.send(signal.SIGTERM)
        assert worker.exit_code() == 0
    assert board.watcher.ask("select count(*) from wakeboard.job_runs where locked_by <> 0") == 0
    assert board.watcher.ask("select count(*) from wakeboard.job_runs where release_count > 0") <= 2
