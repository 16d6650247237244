"""The lines that a worker logs about runs."""

from __future__ import annotations

import json
import re
import signal
from typing import TYPE_CHECKING

from wakeboard_worker.logs import MAX_RUN_LINES

if TYPE_CHECKING:
    from tests.worker.conftest import Store


def test_a_worker_that_stays_logs_what_it_serves_and_each_run(store: Store) -> None:
    with store.worker("--forever", log_format="console", log_level="info", queues="default,mail") as worker:
        (run,) = store.enqueue("answers")
        store.watcher.wait("select true from wakeboard.job_run_history")
        worker.send(signal.SIGTERM)
        assert worker.exit_code() == 0
        log = worker.log
    assert f"run {run} answers attempt 1: succeeded" in log
    assert "ready: database test_" in log
    assert "; pool default, queues default, mail, up to 100 runs at once; job types " in log


def test_the_json_log_of_a_worker_that_stays_has_a_record_for_each_run(store: Store) -> None:
    with store.worker("--forever", log_format="json", log_level="info") as worker:
        (run,) = store.enqueue("answers")
        store.watcher.wait("select true from wakeboard.job_run_history")
        worker.send(signal.SIGTERM)
        assert worker.exit_code() == 0
        records = [json.loads(line) for line in worker.log.splitlines() if line.startswith("{")]
    (record,) = [record for record in records if record.get("outcome")]
    assert (record["level"], record["run"], record["job_type"], record["outcome"]) == (
        "info", run, "answers", "succeeded",
    )  # fmt: skip


def test_a_worker_that_stays_logs_a_bounded_number_of_runs_and_counts_the_others(store: Store) -> None:
    store.enqueue("answers", count=500)
    with store.worker("--forever", log_format="json", log_level="info") as worker:
        store.watcher.wait("select count(*) = 500 from wakeboard.job_run_history")
        worker.send(signal.SIGTERM)
        assert worker.exit_code() == 0
        records = [json.loads(line) for line in worker.log.splitlines() if line.startswith("{")]
    logged = [record for record in records if record.get("outcome") == "succeeded"]
    omitted = [record["message"] for record in records if record.get("outcome") == "omitted"]
    counted = sum(int(re.sub("[^0-9]", "", message)) for message in omitted)
    assert MAX_RUN_LINES <= len(logged) < 500
    assert len(logged) + counted == 500


def test_the_json_log_of_a_drain_has_no_record_for_a_run_that_succeeded(store: Store) -> None:
    store.enqueue("answers")
    assert '"outcome"' not in store.wake(log_format="json", log_level="info").log
