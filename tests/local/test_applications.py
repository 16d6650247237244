"""The applications of examples/ run as they stand, against a real Postgres, with a real worker."""

from __future__ import annotations

import json
import socket
from datetime import UTC, datetime
from http.client import HTTPConnection
from typing import TYPE_CHECKING, Any

import pytest

from testbed.processes import OUR_PACKAGES, ROOT, ModuleProcess, as_variables, wait_for
from tests.chaos.processes import Watcher

if TYPE_CHECKING:
    from pathlib import Path


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as probe:
        return probe.getsockname()[1]


def answers(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


def request(port: int, method: str, path: str, **fields: str) -> tuple[int, Any]:
    connection = HTTPConnection("127.0.0.1", port, timeout=10)
    body = json.dumps(fields) if fields else None
    connection.request(method, path, body, {"Content-Type": "application/json"} if fields else {})
    answer = connection.getresponse()
    text = answer.read()
    connection.close()
    return answer.status, json.loads(text) if text else None


@pytest.mark.parametrize("name", ["fastapi", "django"])
def test_an_application_creates_lists_runs_and_cancels_schedules(name: str, database: str, tmp_path: Path) -> None:
    port = free_port()
    environment = as_variables({"dsn": database, "handlers": "handlers", "poll_seconds": 0.05})
    environment |= {"PYTHONPATH": f"{OUR_PACKAGES}:{ROOT / 'examples' / name}", "PORT": str(port)}
    with Watcher(database) as watcher, ModuleProcess(["app"], tmp_path, environment) as app:
        wait_for(lambda: answers(port), why=lambda: app.log)
        refused, why = request(port, "POST", "/customers", email="eve@example.com", time_zone="Moon/Sea")
        assert (refused, watcher.ask("select count(*) from customers")) == (422, 0), why
        assert "this is not a known time zone" in why["detail"]
        created, made = request(port, "POST", "/customers", email="ada@example.com", time_zone="Asia/Tokyo")
        assert created == 201, made
        path = f"/customers/{made['customer']}/schedules"
        schedule = watcher.ask("select id from wakeboard.job_definitions")
        for _ in range(2):
            watcher.do("select wakeboard.run_now(%s)", schedule)
        with ModuleProcess(["wakeboard_worker"], tmp_path, environment) as worker:
            assert worker.exit_code() == 0, worker.log
        results = watcher.rows("select result ->> 'stored by this run' from wakeboard.job_run_history order by 1")
        assert results == [("false",), ("true",)]
        assert watcher.ask("select count(*) from reports") == 1
        ((name, following),) = [(each["name"], each["next"]) for each in request(port, "GET", path)[1]]
        assert name == f"customers/{made['customer']}-report"
        assert datetime.fromisoformat(following).astimezone(UTC).hour == 23
        assert request(port, "DELETE", f"{path}/report")[0] == 204
        assert request(port, "GET", path) == (200, [])
        assert request(port, "DELETE", f"{path}/report") == (404, {"detail": "there is no such schedule"})
