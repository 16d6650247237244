"""A worker behind PgBouncer in transaction mode: nothing depends on the session."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.chaos.processes import Worker
from tests.postgres_servers import running_pooler

if TYPE_CHECKING:
    from pathlib import Path

    from tests.worker.conftest import Store

HANDLERS = "tests.worker.reporting_handlers"


def test_a_worker_drains_through_a_transaction_pooler(
    store: Store, database: str, postgres_folder: Path, tmp_path: Path
) -> None:
    store.enqueue("answers", count=300)
    store.enqueue("answers-plainly", count=300)
    store.enqueue("steps", count=20)
    with running_pooler(database, postgres_folder, "transaction") as pooled:
        given = {"handlers": HANDLERS, "drain_lookahead_seconds": 10, "listen": "false"}
        with Worker(pooled, tmp_path, **given) as worker:
            assert worker.exit_code() == 0, worker.log
    assert store.watcher.ask("select count(*) from wakeboard.job_run_history where status = 'succeeded'") == 620
