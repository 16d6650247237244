"""Timeouts, cancellation, what a worker that stays does and logs, and when it exits."""

from __future__ import annotations

import json
import re
import signal
from typing import TYPE_CHECKING

import pytest

from wakeboard.ticks.cron_parser import parse_cron
from wakeboard_worker.logs import MAX_RUN_LINES

if TYPE_CHECKING:
    from tests.worker.conftest import Store


def test_a_success_after_the_timeout_wins(store: Store) -> None:
    (run,) = store.enqueue("swallows", timeout_s=1)
    store.wake()
    assert store.run(run)["status"] == "succeeded"


@pytest.mark.parametrize(("job_type", "seconds"), [("stuck", 0), ("measures-plainly", 5)])
def test_a_worker_whose_threads_are_lost_finishes_the_rest(store: Store, job_type: str, seconds: int) -> None:
    """Also if a handler that was abandoned ends meanwhile."""
    (run,) = store.enqueue(job_type, json.dumps({"seconds": seconds}), timeout_s=1)
    store.enqueue("naps", json.dumps({"s": seconds + 2}))
    with store.worker(threads=2) as worker:
        assert worker.exit_code() == 1
    assert "handlers that do not stop occupy half of the slots" in worker.log
    assert store.run(run)["error_type"] == "Timeout"


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


def test_a_worker_that_stays_remains_registered_with_its_job_types(store: Store) -> None:
    """Otherwise `wakeboard check` would report after ten minutes that no worker serves the queue."""
    with store.worker("--forever", poll_seconds=1, lease_seconds=5):
        store.watcher.wait("select true from wakeboard.worker_types where job_type = 'ping'")
        store.watcher.do("update wakeboard.worker_types set last_known_at = now() - interval '11 minutes'")
        store.watcher.wait(
            "select true from wakeboard.worker_types"
            " where job_type = 'ping' and last_known_at > now() - interval '1 minute'"
        )


def test_ticks_are_enqueued_and_leases_reaped_although_idle_connections_are_closed(store: Store) -> None:
    name = store.watcher.ask("select current_database()")
    store.watcher.do(f"alter database {name} set idle_session_timeout = '400ms'")
    with store.worker("--forever", poll_seconds=1, listen="false") as worker:
        store.watcher.wait("select true from wakeboard.workers")
        store.enqueue("answers")
        store.watcher.wait("select true from wakeboard.job_run_history")
        store.watcher.do(
            "insert into wakeboard.job_definitions"
            " (source, namespace, name, spec_hash, job_type, schedule, cron_fields, next_run_at)"
            " values ('file:test', 'default', 'due', '', 'answers', '* * * * *', %s, now())",
            parse_cron("* * * * *", name="default/due").to_text(),
        )
        (run,) = store.enqueue("unknown")
        store.watcher.do(
            "update wakeboard.job_runs set status = 'running', locked_by = 7, locked_until = now() where id = %s", run
        )
        store.watcher.do("update wakeboard.installation set reap_started_at = 'epoch', reap_completed_at = 'epoch'")
        store.watcher.wait("select true from wakeboard.all_runs where trigger = 'tick'")
        store.watcher.wait("select crash_count = 1 from wakeboard.job_runs where id = %s", run)
    assert "a heartbeat failed" not in worker.log


def test_a_worker_that_stays_logs_a_bounded_number_of_runs(store: Store) -> None:
    runs = store.enqueue("answers", count=500)
    with store.worker("--forever", log_format="json", log_level="info") as worker:
        store.watcher.wait("select count(*) = 500 from wakeboard.job_run_history")
        worker.send(signal.SIGTERM)
        assert worker.exit_code() == 0
        records = [json.loads(line) for line in worker.log.splitlines() if line.startswith("{")]
    logged = [record for record in records if record.get("outcome") == "succeeded"]
    omitted = [record["message"] for record in records if record.get("outcome") == "omitted"]
    counted = sum(int(re.sub("[^0-9]", "", message)) for message in omitted)
    assert {(record["level"], record["job_type"]) for record in logged} == {("info", "answers")}
    assert {record["run"] for record in logged} <= set(runs)
    assert MAX_RUN_LINES <= len(logged) < 500
    assert len(logged) + counted == 500


@pytest.mark.parametrize("job_type", ["measures", "measures-plainly"])
def test_a_run_took_as_long_as_its_handler(store: Store, job_type: str) -> None:
    """By the handler's own clock, although many outcomes share a statement and some wait for their turn."""
    store.enqueue(job_type, '{"seconds": 0.02}', count=200)
    store.enqueue(job_type, '{"seconds": 0.3}', count=20)
    store.wake(threads=20)
    extra = store.watcher.rows(
        "select extract(epoch from finished_at - started_at)::float - result::float, finished_at <= now()"
        " from wakeboard.job_run_history where status = 'succeeded' order by 1"
    )
    assert len(extra) == 220
    assert all(is_past for _, is_past in extra)
    assert extra[0][0] > -0.001
    assert extra[110][0] < 0.01
