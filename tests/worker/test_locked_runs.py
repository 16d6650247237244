"""A run that another transaction has locked delays no other run and does not keep a worker from exiting."""

from __future__ import annotations

import signal
import time
from typing import TYPE_CHECKING

import psycopg

if TYPE_CHECKING:
    from tests.worker.conftest import Board

HANDLERS = {"handlers": "tests.worker.locking_handlers", "lease_seconds": 10}
COMPLETED = "select count(*) = %s from wakeboard.job_run_history where job_type = 'count' and status = 'succeeded'"


def executed_once(board: Board) -> bool:
    """Whether no run of the neighbours was begun twice or crashed."""
    query = "select bool_and(lease_epoch = 1 and crash_count = 0) from wakeboard.all_runs where job_type = 'count'"
    return board.watcher.ask(query)


def begins(board: Board, run: int) -> None:
    board.watcher.wait("select exists (select from calls where name like %s)", f"began {run} %")


def test_a_handler_that_hangs_behind_once_delays_no_other_run_and_times_out(board: Board) -> None:
    with board.worker("--forever", **HANDLERS):
        (hung,) = board.enqueue("hang_behind_once", timeout_s=2, max_attempts=1)
        begins(board, hung)
        began = time.monotonic()
        board.enqueue("count", count=1000)
        board.watcher.wait(COMPLETED, 1000)
        board.watcher.wait("select exists (select from wakeboard.job_runs where id = %s and status = 'dead')", hung)
        assert time.monotonic() - began < 10  # timeout, patience, and the next try after the cut; not a lease
        board.enqueue("count", count=100)
        board.watcher.wait(COMPLETED, 1100)
    assert executed_once(board)
    assert board.run(hung)["error_type"] == "Timeout"


def test_a_worker_whose_handler_keeps_its_run_locked_for_a_lease_ends_and_others_go_on(board: Board) -> None:
    settings = HANDLERS | {"lease_seconds": 3, "grace_seconds": 1}
    with board.worker("--forever", **settings) as worker:
        (hung,) = board.enqueue("hang_behind_its_own_lock", timeout_s=2, max_attempts=1)
        begins(board, hung)
        board.enqueue("count", count=100)
        board.watcher.wait(COMPLETED, 100)
        assert worker.exit_code() == 1, worker.log
    assert "kept run" in worker.log
    board.enqueue("count", count=100)
    board.wake(**settings)
    board.watcher.wait(COMPLETED, 200)
    assert executed_once(board)


def test_sigterm_ends_a_worker_whose_outcome_is_blocked(board: Board) -> None:
    with board.worker("--forever", **HANDLERS, grace_seconds=2) as worker:
        (hung,) = board.enqueue("hang_behind_its_own_lock", timeout_s=1, max_attempts=1)
        begins(board, hung)
        board.enqueue("count")
        board.watcher.wait(COMPLETED, 1)
        worker.send(signal.SIGTERM)
        asked = time.monotonic()
        assert worker.exit_code() == 0, worker.log
        assert time.monotonic() - asked < 2 + 2 + 2 + 2  # grace, unwinding, what is blocked, and leaving


def test_a_run_that_an_administrator_keeps_locked_ends_as_it_did_and_delays_no_other(board: Board) -> None:
    with board.worker("--forever", **HANDLERS), psycopg.connect(board.dsn) as administrator:
        (locked,) = board.enqueue("linger")
        begins(board, locked)
        administrator.execute("select from wakeboard.job_runs where id = %s for update", (locked,))
        board.enqueue("count", count=500)
        board.watcher.wait(COMPLETED, 500)
        assert board.watcher.status(locked) == "running"
        administrator.rollback()
        board.watcher.wait("select exists (select from wakeboard.job_run_history where id = %s)", locked)
    assert executed_once(board)
    assert (board.run(locked)["lease_epoch"], board.run(locked)["result"]) == (1, "lingered")


def test_a_run_with_an_open_effect_can_be_cancelled_at_once(board: Board) -> None:
    with board.worker("--forever", **HANDLERS):
        (busy,) = board.enqueue("until_cancelled_behind_once")
        begins(board, busy)
        with psycopg.connect(board.dsn, autocommit=True) as administrator:
            administrator.execute("set statement_timeout = '1s'")
            answers = administrator.execute("select answer from wakeboard.cancel(%s)", ([busy],)).fetchall()
        assert answers == [("requested",)]
        board.watcher.wait("select exists (select from wakeboard.job_run_history where id = %s)", busy)
    assert board.run(busy)["status"] == "cancelled"
