"""Runs with a past, made through the SQL functions, for the tests of a run's page."""

from __future__ import annotations

import json
from contextlib import contextmanager
from typing import TYPE_CHECKING

from tests.store.sql_clients import SqlClient

if TYPE_CHECKING:
    from collections.abc import Generator

PAYLOAD = {"customer": 42, "segments": ["active", "new"], "smtp": {"host": "mail.example.com", "password": "hunter2"}}


@contextmanager
def worker_of(dsn: str) -> Generator[SqlClient]:
    """A registered worker."""
    worker = SqlClient(dsn, worker_id=7)
    try:
        worker.register(name="worker-a")
        yield worker
    finally:
        worker.close()


def retried_run(worker: SqlClient) -> int:
    """A run of a schedule that failed once, was given back once, and succeeded with steps, effects and a result."""
    definition = worker.define(
        "close-month", queue="default", generation=3, payload=json.dumps(PAYLOAD), schedule="0 3 * * *", cron_fields="x"
    )
    run_id = worker.value("select id from run_now(%s, reason => 'asked by finance', actor => 'ana')", definition)
    lease = worker.claims(run_id)
    worker.step(lease, "Find customers")
    worker.step(lease, "Find customers", {"found": 9007199254740993, "share": 1.1})
    worker.effect(lease, "mail:42")
    worker.fail(lease, error_type="ConnectionError", error="the bank's server is still starting", delay_s=0)
    worker.release(worker.claims(run_id))
    lease = worker.claims(run_id)
    worker.step(lease, "Post batch")
    worker.step(lease, "Post batch", None)
    worker.effect(lease, "mail:43")
    worker.effect(lease, "mail:43", done=True)
    result = f'{{"{run_id}": {{"sent": 9223372036854775808, "rate": 0.10, "api_key": "s3cr3t"}}}}'
    worker.value("select complete(%s, %s, %s, %s::text::jsonb)", worker.worker_id, [lease.id], [lease.epoch], result)
    return run_id


def dead_run(worker: SqlClient, error: str = "not approved") -> int:
    """A run that failed twice and is dead."""
    run_id = worker.enqueue(payload={"month": "2026-10"}, max_attempts=2)
    for _ in range(2):
        worker.fail(worker.claims(run_id), error_type="PermissionError", error=error, delay_s=0)
    return run_id
