"""The outcomes of runs, by what their handlers return and raise."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from tests.worker.conftest import Store


@pytest.mark.parametrize("job_type", ["answers", "answers-plainly"])
def test_the_value_that_a_handler_returns_is_stored_as_the_result(store: Store, job_type: str) -> None:
    (run,) = store.enqueue(job_type, '{"a": [1, "ü"]}')
    store.wake()
    assert (store.run(run)["status"], store.run(run)["result"]) == ("succeeded", {"a": [1, "ü"]})


def test_a_handler_can_read_all_fields_of_its_run(store: Store) -> None:
    (run,) = store.enqueue("facts")
    log = store.wake().log
    seen = store.run(run)
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


def test_a_failed_run_is_retried_and_its_error_is_stored(store: Store) -> None:
    (run,) = store.enqueue("raises", '{"what": "error"}')
    store.wake()
    seen = store.run(run)
    assert (seen["status"], seen["attempts"], seen["error_type"]) == ("failed", 1, "ValueError")
    assert seen["last_error"] == "no such customer"
    assert "reporting_handlers.py" in store.watcher.ask("select stack from wakeboard.job_attempts")


def test_the_last_attempt_leaves_a_dead_run(store: Store) -> None:
    (run,) = store.enqueue("raises", '{"what": "error"}', max_attempts=1)
    store.wake()
    assert store.run(run)["status"] == "dead"


def test_discard_is_dead_at_once(store: Store) -> None:
    (run,) = store.enqueue("raises", '{"what": "discard"}')
    store.wake()
    seen = store.run(run)
    assert (seen["status"], seen["attempts"], seen["last_error"]) == ("dead", 1, "it makes no sense")


def test_retry_after_chooses_the_moment_of_the_next_attempt(store: Store) -> None:
    (run,) = store.enqueue("raises", '{"what": "retry"}')
    store.wake()
    assert store.run(run)["status"] == "failed"
    assert store.watcher.ask("select run_at > now() + interval '50 minutes' from wakeboard.job_runs")


def test_snooze_does_not_count_as_an_attempt(store: Store) -> None:
    (run,) = store.enqueue("raises", '{"what": "snooze"}')
    store.wake()
    seen = store.run(run)
    assert (seen["status"], seen["attempts"], seen["release_count"]) == ("queued", 0, 0)
    assert store.watcher.ask("select run_at > now() + interval '50 minutes' from wakeboard.job_runs")


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
def test_huge_and_invalid_results_and_errors_are_stored_as_cut_text(store: Store, what: str, status: str) -> None:
    (run,) = store.enqueue("raises", f'{{"what": "{what}"}}')
    (neighbour,) = store.enqueue("answers")
    store.wake()
    seen = store.run(run)
    assert seen["status"] == status
    assert len(seen["last_error"] or "") <= 2000
    assert store.run(neighbour)["status"] == "succeeded"


def test_a_run_of_an_unknown_job_type_stays_queued(store: Store) -> None:
    (run,) = store.enqueue("unknown")
    store.wake()
    assert store.run(run)["status"] == "queued"


def test_a_thousand_runs_of_both_kinds_are_isolated_and_all_succeed(store: Store) -> None:
    store.enqueue("isolated", count=500)
    store.enqueue("answers-plainly", count=500)
    store.wake()
    assert store.watcher.ask("select count(*) from wakeboard.job_run_history where status = 'succeeded'") == 1000
    found = store.watcher.rows("select distinct result from wakeboard.job_run_history where job_type = 'isolated'")
    assert found == [([0, True, True],)]
