"""The console lines of a worker that stays."""

from __future__ import annotations

import signal
from typing import TYPE_CHECKING

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


def test_json_logs_have_no_record_for_a_run_that_succeeded(store: Store) -> None:
    store.enqueue("answers")
    assert '"outcome"' not in store.wake(log_format="json", log_level="info").log
