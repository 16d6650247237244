"""Steps, effects and limits, through real attempts."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from tests.worker.conftest import Board

pytestmark = pytest.mark.every_postgres

SOON = {"drain_lookahead_seconds": 10}


def test_a_connection_lost_in_the_transaction_of_an_effect_costs_no_attempt(board: Board) -> None:
    (run,) = board.enqueue("loses-its-connection", max_attempts=1)
    with board.worker("--forever"):
        board.watcher.wait("select release_count = 1 and attempts = 0 from wakeboard.job_runs where id = %s", run)
        board.watcher.do("update wakeboard.job_runs set run_at = now()")
        board.watcher.wait("select result = 'true' from wakeboard.job_run_history where id = %s", run)


@pytest.mark.parametrize("job_type", ["same-step-twice", "same-step-twice-plainly"])
def test_two_steps_of_one_name_in_one_attempt_are_refused(board: Board, job_type: str) -> None:
    (run,) = board.enqueue(job_type, max_attempts=1)
    board.wake()
    assert board.run(run)["error_type"] == "StepRepeated"
    assert board.watcher.ask("select count(*) from calls") == 1


@pytest.mark.parametrize("job_type", ["steps", "steps-plainly"])
def test_a_step_that_completed_is_not_run_again_and_its_result_comes_back(board: Board, job_type: str) -> None:
    (run,) = board.enqueue(job_type)
    log = board.wake(**SOON).log
    assert board.run(run)["result"] == [{"name": "first"}, {"name": "second"}], log
    assert board.run(run)["attempts"] == 2
    assert board.watcher.rows("select name, count(*) from calls group by 1 order by 1") == [("first", 1), ("second", 2)]


@pytest.mark.parametrize("job_type", ["charges", "charges-plainly"])
def test_an_effect_happens_once_however_many_attempts_there_are(board: Board, job_type: str) -> None:
    (run,) = board.enqueue(job_type)
    log = board.wake(**SOON).log
    assert board.run(run)["result"][:3] == [False, True, False], log  # the second attempt finds both done
    assert board.watcher.rows("select name, count(*) from calls group by 1") == [("charge", 1)]


def test_an_effect_may_take_longer_than_a_lease(board: Board) -> None:
    """Its transaction holds the run against others, and not against the heartbeat."""
    (run,) = board.enqueue("charges-slowly")
    log = board.wake(lease_seconds=2).log
    assert board.run(run)["status"] == "succeeded", log
    assert (board.run(run)["result"], board.run(run)["lease_epoch"]) == (1, 1)


def test_an_outside_effect_that_never_said_done_is_in_doubt(board: Board) -> None:
    (run,) = board.enqueue("charges", '{"dies": true}')
    log = board.wake(**SOON).log
    assert board.run(run)["result"], log
    first, done, in_doubt, provider_key = board.run(run)["result"]
    assert (first, done, in_doubt) == (False, False, True)
    assert len(provider_key) == 36


def test_a_limit_key_bounds_what_runs_at_once(board: Board) -> None:
    board.watcher.do("select wakeboard.set_limit('printer', 2)")
    board.enqueue("counts-neighbours", count=20, limit_key="printer")
    with board.worker("--linger", "2"), board.worker("--linger", "2"):
        board.watcher.wait("select count(*) = 20 from wakeboard.job_run_history where status = 'succeeded'")
    assert board.watcher.ask("select max(result::int) from wakeboard.job_run_history") <= 2


@pytest.mark.parametrize("what", ["step", "effect"])
def test_a_name_that_postgres_cannot_store_fails_at_once_with_a_sentence(board: Board, what: str) -> None:
    (run,) = board.enqueue("says-NUL", f'{{"what": "{what}"}}', max_attempts=1, timeout_s=60)
    log = board.wake().log
    assert board.run(run)["status"] == "dead", log
    assert "the character NUL" in board.run(run)["last_error"]
