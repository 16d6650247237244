"""A worker keeps its leases, runs other handlers, and exits, whatever a handler does."""

from __future__ import annotations

import signal
import time
from typing import TYPE_CHECKING

from testbed.processes import POLL_INTERVAL_S
from wakeboard_worker.error_texts import MAX_ERROR

if TYPE_CHECKING:
    from tests.worker.conftest import Store

ASYNC, PLAIN = "tests.worker.misbehaving_handlers", "tests.worker.misbehaving_functions"


def test_a_handler_that_blocks_in_its_first_step_keeps_its_lease(store: Store) -> None:
    (run,) = store.enqueue("blocks-at-once")
    with store.worker(handlers=ASYNC, lease_seconds=2):
        store.watcher.wait("select true from calls where name = 'began'")
        least = 2.0
        while not store.watcher.ask("select true from calls where name = 'ended'"):
            left = store.watcher.ask(
                "select extract(epoch from locked_until - clock_timestamp())::float8"
                " from wakeboard.job_runs where id = %s and locked_by <> 0",
                run,
            )
            least = min(least, 2.0 if left is None else left)
            time.sleep(POLL_INTERVAL_S)
    assert least > 0


def test_runs_behind_a_handler_that_blocks_start_on_an_idle_worker(store: Store) -> None:
    store.enqueue("blocks-at-once", '{"seconds": 20}', priority=5)
    neighbours = store.enqueue("naps", '{"seconds": 0}', count=3)
    with store.worker("--forever", handlers=ASYNC, lease_seconds=4) as blocked:
        store.watcher.wait("select true from calls where name = 'began'")
        held = "select count(*) = 3 from wakeboard.job_runs where id = any(%s) and locked_by <> 0"
        assert store.watcher.ask(held, neighbours)
        with store.worker("--forever", handlers=ASYNC, lease_seconds=4):
            ended = "select count(*) = 3 from wakeboard.job_run_history where id = any(%s) and crash_count = 0"
            store.watcher.wait(ended, neighbours)
        assert not store.watcher.ask("select true from calls where name = 'ended'")
        store.watcher.wait("select true from calls where name = 'ended'")
        blocked.send(signal.SIGTERM)
        assert blocked.exit_code() == 0, blocked.log
    assert "3 runs released that had not started" in blocked.log


def test_a_hostile_text_in_the_log_costs_no_lease(store: Store) -> None:
    neighbours = store.enqueue("naps", '{"seconds": 1}', count=3)
    (run,) = store.enqueue("logs-hostile-text")
    store.wake(handlers=ASYNC, lease_seconds=2)
    seen = [store.run(each) for each in (run, *neighbours)]
    assert [each["status"] for each in seen] == ["dead", *["succeeded"] * 3]
    assert {(each["attempts"], each["crash_count"]) for each in seen} == {(1, 0)}
    assert len(seen[0]["last_error"]) <= MAX_ERROR


def test_outcomes_are_reported_while_handlers_that_never_wait_run(store: Store) -> None:
    store.enqueue("grinds", count=200)
    with store.worker(handlers=ASYNC):
        store.watcher.wait("select count(*) > 0 from wakeboard.job_run_history")
        assert store.watcher.ask("select count(*) from wakeboard.job_runs") > 100


def test_a_handler_that_never_stops_does_not_keep_a_draining_worker(store: Store) -> None:
    (run,) = store.enqueue("never-stops", timeout_s=1, max_attempts=1)
    store.wake(handlers=ASYNC)
    seen = store.run(run)
    assert (seen["status"], seen["error_type"]) == ("dead", "Timeout")


def test_a_cancelled_handler_that_never_stops_counts_as_cancelled(store: Store) -> None:
    (run,) = store.enqueue("never-stops", timeout_s=5, max_attempts=1)
    with store.worker(handlers=ASYNC) as worker:
        store.watcher.wait("select true from wakeboard.job_runs where locked_by <> 0")
        store.watcher.do("select wakeboard.cancel(array[%s]::bigint[])", run)
        assert worker.exit_code() == 0, worker.log
    assert store.run(run)["status"] == "cancelled"
    assert "1 claimed, 1 cancelled" in worker.log


def test_a_handler_that_blocks_for_ever_ends_its_worker(store: Store) -> None:
    (stuck,) = store.enqueue("never-comes-back", timeout_s=1, max_attempts=1)
    (neighbour,) = store.enqueue("naps", '{"seconds": 1}')
    with store.worker("--forever", handlers=PLAIN):  # it runs the maintenance, and knows neither job type
        with store.worker("--forever", handlers=ASYNC, lease_seconds=2) as blocked:
            assert blocked.exit_code() == 1
            assert "blocked the event loop" in blocked.log
        store.watcher.do("select wakeboard.cancel(array[%s]::bigint[])", stuck)
        with store.worker("--forever", handlers=ASYNC):
            store.watcher.wait("select true from wakeboard.job_run_history where id = %s", neighbour)


def test_a_thread_that_ends_late_is_no_longer_counted_as_lost(store: Store) -> None:
    with store.worker("--forever", handlers=PLAIN, threads=3) as worker:
        for _ in range(2):  # both at once would be half of the threads
            (run,) = store.enqueue("sits", '{"seconds": 4}', timeout_s=1, max_attempts=1)
            store.watcher.wait("select true from wakeboard.job_runs where id = %s and status = 'dead'", run)
            (after,) = store.enqueue("sits", '{"seconds": 2}')  # longer than what is left of the first
            store.watcher.wait("select true from wakeboard.job_run_history where id = %s", after)
        worker.send(signal.SIGTERM)
        assert worker.exit_code() == 0


def test_a_handler_that_cancels_itself_fails_alone(store: Store) -> None:
    runs = store.enqueue("cancels-itself", count=3, max_attempts=1)
    (after,) = store.enqueue("does-nothing", priority=1)
    store.wake(handlers=ASYNC, concurrency=1)
    assert {store.run(run)["status"] for run in runs} == {"dead"}
    assert store.run(after)["status"] == "succeeded"


def test_a_plain_handler_that_raises_during_shutdown_is_released(store: Store) -> None:
    (run,) = store.enqueue("complains")
    with store.worker("--forever", handlers=PLAIN, grace_seconds=0) as worker:
        store.watcher.wait("select true from wakeboard.job_runs where status = 'running'")
        worker.send(signal.SIGTERM)
        assert worker.exit_code() == 0
    seen = store.run(run)
    assert (seen["status"], seen["attempts"], seen["release_count"]) == ("queued", 0, 1)


def test_context_variables_do_not_pass_between_runs_in_a_thread(store: Store) -> None:
    store.enqueue("leaves-something", count=20)
    store.wake(handlers=PLAIN, threads=1)
    assert store.watcher.rows("select distinct result from wakeboard.job_run_history") == [(0,)]


def test_log_records_of_a_handlers_code_carry_the_run(store: Store) -> None:
    (run,) = store.enqueue("logs")
    worker = store.wake(handlers=ASYNC, log_level="info")
    (line,) = [line for line in worker.log.splitlines() if "a line of mine" in line]
    assert f'"run": {run}' in line


def test_a_step_outlives_the_connection_that_it_began_on(store: Store) -> None:
    (run,) = store.enqueue("loses-its-connection", max_attempts=1)
    store.wake(handlers=ASYNC)
    assert store.run(run)["result"] == 2


def test_the_prefetch_of_threads_is_released_uncounted_during_shutdown(store: Store) -> None:
    store.enqueue("sits", '{"seconds": 0}', count=1_000, priority=5)
    store.enqueue("complains", count=400)
    with store.worker("--forever", handlers=PLAIN, threads=2, grace_seconds=0) as worker:
        store.watcher.wait(
            "select count(*) > 0 from wakeboard.job_runs where status = 'running'"
            " having (select count(*) from wakeboard.job_run_history) = 1000"
        )
        worker.send(signal.SIGTERM)
        assert worker.exit_code() == 0
    assert store.watcher.ask("select count(*) from wakeboard.job_runs where locked_by <> 0") == 0
    assert store.watcher.ask("select count(*) from wakeboard.job_runs where release_count > 0") <= 2
