"""What handlers return and raise, and what becomes of their runs."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from tests.worker.conftest import Board


@pytest.mark.parametrize("job_type", ["answers", "answers-plainly"])
def test_what_a_handler_returns_is_the_runs_result(board: Board, job_type: str) -> None:
    (run,) = board.enqueue(job_type, '{"a": [1, "ü"]}')
    board.wake()
    assert (board.run(run)["status"], board.run(run)["result"]) == ("succeeded", {"a": [1, "ü"]})


def test_a_handler_knows_its_run(board: Board) -> None:
    (run,) = board.enqueue("facts")
    log = board.wake().log
    seen = board.run(run)
    assert seen["result"] == {
        "uuid": seen["uuid"],
        "attempt": 1,
        "max": 5,
        "for": seen["result"]["for"],
        "queue": "default",
        "schedule": None,
        "cancelled": False,
    }
    assert f'"message": "here", "run": {run}, "job_type": "facts", "attempt": 1' in log


def test_an_error_is_tried_again_and_people_see_it(board: Board) -> None:
    (run,) = board.enqueue("raises", '{"what": "error"}')
    board.wake()
    seen = board.run(run)
    assert (seen["status"], seen["attempts"], seen["error_type"]) == ("failed", 1, "ValueError")
    assert seen["last_error"] == "no such customer"
    assert "telling_handlers.py" in board.watcher.ask("select stack from wakeboard.job_attempts")


def test_the_last_attempt_leaves_a_dead_run(board: Board) -> None:
    (run,) = board.enqueue("raises", '{"what": "error"}', max_attempts=1)
    board.wake()
    assert board.run(run)["status"] == "dead"


def test_discard_is_dead_at_once(board: Board) -> None:
    (run,) = board.enqueue("raises", '{"what": "discard"}')
    board.wake()
    seen = board.run(run)
    assert (seen["status"], seen["attempts"], seen["last_error"]) == ("dead", 1, "it makes no sense")


def test_retry_after_chooses_the_moment_of_the_next_attempt(board: Board) -> None:
    (run,) = board.enqueue("raises", '{"what": "retry"}')
    board.wake()
    assert board.run(run)["status"] == "failed"
    assert board.watcher.ask("select run_at > now() + interval '50 minutes' from wakeboard.job_runs")


def test_snooze_gives_the_attempt_back(board: Board) -> None:
    (run,) = board.enqueue("raises", '{"what": "snooze"}')
    board.wake()
    seen = board.run(run)
    assert (seen["status"], seen["attempts"], seen["release_count"]) == ("queued", 0, 0)
    assert board.watcher.ask("select run_at > now() + interval '50 minutes' from wakeboard.job_runs")


@pytest.mark.parametrize(
    ("what", "status"),
    [
        ("long", "failed"),
        ("binary", "failed"),
        ("cancelled", "failed"),
        ("exit", "failed"),
        ("object", "succeeded"),
        ("nul", "succeeded"),
        ("nan", "succeeded"),
    ],
)
def test_garbage_is_bounded_and_kept_as_text_and_the_worker_goes_on(board: Board, what: str, status: str) -> None:
    (run,) = board.enqueue("raises", f'{{"what": "{what}"}}')
    (neighbour,) = board.enqueue("answers")
    board.wake()
    seen = board.run(run)
    assert seen["status"] == status
    assert len(seen["last_error"] or "") <= 2000
    assert board.run(neighbour)["status"] == "succeeded"


def test_a_type_that_nobody_knows_stays_queued(board: Board) -> None:
    (run,) = board.enqueue("unheard-of")
    board.wake()
    assert board.run(run)["status"] == "queued"


def test_a_thousand_runs_of_both_kinds_are_isolated_and_all_succeed(board: Board) -> None:
    board.enqueue("isolated", count=500)
    board.enqueue("answers-plainly", count=500)
    board.wake()
    assert board.watcher.ask("select count(*) from wakeboard.job_run_history where status = 'succeeded'") == 1000
    found = board.watcher.rows("select distinct result from wakeboard.job_run_history where job_type = 'isolated'")
    assert found == [([0, True, True],)]
