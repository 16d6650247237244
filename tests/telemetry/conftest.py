"""A collector, workers that send to it, and a web application."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any
from urllib.request import Request, urlopen

import pytest

from testbed.processes import ModuleProcess, as_variables, wait_for
from tests.chaos.processes import Watcher
from tests.telemetry.collector import Collector, collecting

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


class System:
    """A database, a collector, and processes that use both."""

    def __init__(self, dsn: str, folder: Path, collector: Collector, watcher: Watcher) -> None:
        self.dsn, self.folder, self.collector, self.watcher = dsn, folder, collector, watcher

    def worker(self, *options: str, variables: dict[str, str] | None = None, **settings: object) -> ModuleProcess:
        given: dict[str, object] = {
            "handlers": "tests.telemetry.traced_handlers",
            "drain_lookahead_seconds": 5,
            "lease_seconds": 2,
            "log_format": "json",
        }
        given |= {"dsn": self.dsn, **settings}
        environment = self.collector.variables if variables is None else variables
        return ModuleProcess(["wakeboard_worker", *options], self.folder, {**as_variables(given), **environment})

    def wake(self, *options: str, variables: dict[str, str] | None = None, **settings: object) -> ModuleProcess:
        """Run a draining worker to its end."""
        with self.worker(*options, variables=variables, **settings) as worker:
            assert worker.exit_code() == 0, worker.log
        return worker

    def shop(self) -> ModuleProcess:
        variables = {**self.collector.variables, "OTEL_SERVICE_NAME": "shop"}
        return ModuleProcess(["tests.telemetry.shop"], self.folder, {**as_variables({"dsn": self.dsn}), **variables})

    def order(self, shop: ModuleProcess, job_type: str, payload: object = None, **headers: str) -> int:
        """Let the web application enqueue a run. Returns its id."""
        port = wait_for(lambda: re.search(r"port (\d+)", shop.log), why=lambda: shop.log)[1]
        body = json.dumps({} if payload is None else payload).encode()
        request = Request(f"http://127.0.0.1:{port}/{job_type}", body, headers)
        with urlopen(request) as answer:
            return int(answer.read())

    def enqueue(self, job_type: str, arguments: str = "") -> int:
        return self.watcher.ask(f"select id from wakeboard.enqueue('{job_type}', backoff_base_s => 1{arguments})")

    def records(self, process: ModuleProcess) -> list[dict[str, Any]]:
        """The JSON log of a process."""
        return [json.loads(line) for line in process.log.splitlines() if line.startswith("{")]


@pytest.fixture
def collector() -> Iterator[Collector]:
    with collecting() as collector:
        yield collector


@pytest.fixture
def system(database: str, tmp_path: Path, collector: Collector) -> Iterator[System]:
    with Watcher(database) as watcher:
        yield System(database, tmp_path, collector, watcher)
