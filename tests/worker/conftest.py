"""A database with a table that handlers write to, and real worker processes on it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from tests.chaos.processes import Watcher, Worker
from tests.worker.http_receiver import receiving

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator
    from pathlib import Path

    from tests.worker.http_receiver import Receiver

HANDLERS = "tests.worker.reporting_handlers"


class Store:
    """A database with the schema, and workers on it."""

    def __init__(self, dsn: str, folder: Path, watcher: Watcher) -> None:
        self.dsn, self.folder, self.watcher = dsn, folder, watcher

    def worker(self, *options: str, **settings: object) -> Worker:
        """A worker process with the handlers of these tests."""
        given = {"handlers": HANDLERS, "drain_lookahead_seconds": 0, "lease_seconds": 5} | settings
        return Worker(self.dsn, self.folder, *options, **given)

    def wake(self, *options: str, **settings: object) -> Worker:
        """Run a draining worker to its end. It must exit with 0."""
        with self.worker(*options, **settings) as worker:
            assert worker.exit_code() == 0, worker.log
        return worker

    def enqueue(self, job_type: str, payload: str = "{}", count: int = 1, **columns: object) -> list[int]:
        """Enqueues runs with a JSON payload."""
        return self.watcher.enqueue(job_type, count, payload=payload, **columns)

    def run(self, run_id: int) -> dict[str, Any]:
        """A row of all_runs."""
        (row,) = self.watcher.rows("select to_jsonb(run) from wakeboard.all_runs as run where id = %s", run_id)
        return row[0]


@pytest.fixture
def store(database: str, tmp_path: Path) -> Iterator[Store]:
    with Watcher(database) as watcher:
        watcher.do("create table calls (name text)")
        yield Store(database, tmp_path, watcher)


@pytest.fixture
async def receiver() -> AsyncIterator[Receiver]:
    """A web server on loopback."""
    async with receiving() as receiver:
        yield receiver
