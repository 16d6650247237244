"""Operator processes for tests, and an environment (a namespace and a database) to act on and to wait for."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
import urllib.request
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self
from urllib.error import URLError

import psycopg

from testbed.cluster.cluster import Refused
from testbed.cluster.job_schedules import path

if TYPE_CHECKING:
    from collections.abc import Callable

    from testbed.cluster.cluster import Cluster

ROOT = Path(__file__).parents[2]
TIMEOUT_S = 60.0  # it only bounds failures; an overloaded machine needs more than 30
POLL_INTERVAL_S = 0.05


def wait_for(what: Callable[[], Any], *, within_s: float = TIMEOUT_S, why: Callable[[], object] = str) -> Any:
    """Polls `what` and returns its first true result. Fails after `within_s` with the text of `why`."""
    deadline = time.monotonic() + within_s
    while not (found := what()):
        assert time.monotonic() < deadline, f"it did not come within {within_s} s: {why()}"
        time.sleep(POLL_INTERVAL_S)
    return found


class Operator:
    """An operator process. `log` is its output so far."""

    def __init__(self, dsn: str, kubeconfig: Path, folder: Path, **settings: object) -> None:
        self._log = folder / f"operator-{time.monotonic_ns()}.log"
        environment = {
            **os.environ,
            "PYTHONPATH": os.pathsep.join([str(ROOT), str(ROOT / "operator")]),
            "KUBECONFIG": str(kubeconfig),
            "WAKEBOARD_DSN": dsn,
            "WAKEBOARD_OPERATOR_PORT": "0",
            "WAKEBOARD_LOG_FORMAT": "console",
            **{f"WAKEBOARD_{name.upper()}": str(value) for name, value in settings.items()},
        }
        with self._log.open("wb") as log:
            command = [sys.executable, "-m", "wakeboard_operator"]
            self._process = subprocess.Popen(command, env=environment, stdout=log, stderr=log)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self._process.poll() is None:
            self.send(signal.SIGCONT)
            self._process.kill()
        self._process.wait(TIMEOUT_S)

    @property
    def log(self) -> str:
        return self._log.read_text(errors="replace")

    @property
    def running(self) -> bool:
        return self._process.poll() is None

    def send(self, number: int) -> None:
        self._process.send_signal(number)

    def memory_mb(self) -> float:
        """Resident memory."""
        status = Path(f"/proc/{self._process.pid}/status").read_text()
        found = re.search(r"VmRSS:\s+(\d+) kB", status)
        return int(found[1]) / 1024 if found else 0.0

    def cpu_s(self) -> float:
        """CPU seconds that it has used so far."""
        fields = Path(f"/proc/{self._process.pid}/stat").read_text().rpartition(") ")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def ended(self) -> int:
        """Waits until it has ended, and returns its exit code."""
        return self._process.wait(TIMEOUT_S)

    def ask(self, page: str) -> tuple[int, str]:
        """The status and the text of one of its pages; 0 while it answers nothing."""
        port = re.search(r"listening on port (\d+)", self.log)
        if port is None:
            return 0, ""
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{port[1]}{page}", timeout=5) as answer:
                return answer.status, answer.read().decode()
        except urllib.request.HTTPError as error:
            return error.code, error.read().decode()
        except (URLError, OSError):
            return 0, ""

    def wait_until_ready(self) -> None:
        wait_for(lambda: self.ask("/readyz")[0] == 200, why=lambda: self.log)

    def wait_until_leading(self) -> None:
        wait_for(lambda: '"isLeader": true' in self.ask("/readyz")[1], why=lambda: self.log)
        self.wait_until_ready()


class Environment:
    """One namespace of a cluster and one database, accessed as an administrator."""

    def __init__(self, cluster: Cluster, namespace: str, dsn: str) -> None:
        self.cluster, self.namespace, self.dsn = cluster, namespace, dsn

    def create(self, document: dict[str, Any]) -> dict[str, Any]:
        return self.cluster.call("POST", path(self.namespace), document)

    def edit(self, name: str, **spec: Any) -> dict[str, Any]:
        return self.merge(name, {"spec": spec})

    def annotate(self, name: str, **annotations: str | None) -> dict[str, Any]:
        ours = {f"wakeboard.dev/{key.replace('_', '-')}": value for key, value in annotations.items()}
        return self.merge(name, {"metadata": {"annotations": ours}})

    def merge(self, name: str, document: dict[str, Any]) -> dict[str, Any]:
        return self.cluster.call("PATCH", path(self.namespace, name), document, "application/merge-patch+json")

    def delete(self, name: str) -> None:
        self.cluster.call("DELETE", path(self.namespace, name))

    def get(self, name: str) -> dict[str, Any]:
        return self.cluster.call("GET", path(self.namespace, name))

    def status(self, name: str) -> dict[str, Any]:
        return self.get(name).get("status") or {}

    def condition(self, name: str, kind: str) -> tuple[str, str, str]:
        """Status, reason and message; three empty texts when it has no such condition."""
        for each in self.status(name).get("conditions", []):
            if each["type"] == kind:
                return each["status"], each["reason"], each["message"]
        return "", "", ""

    def events(self, name: str) -> set[str]:
        """The reasons of the events about it."""
        try:
            found = self.cluster.call("GET", f"/api/v1/namespaces/{self.namespace}/events")
        except Refused:
            return set()
        return {each["reason"] for each in found["items"] if each["involvedObject"]["name"] == name}

    def sql(self, query: str, *values: object) -> list[tuple[Any, ...]]:
        with psycopg.connect(self.dsn, autocommit=True, options="-c search_path=wakeboard") as conn:
            cursor = conn.execute(query.encode(), values or None)
            return cursor.fetchall() if cursor.description else []

    def row(self, name: str, columns: str) -> tuple[Any, ...] | None:
        """Columns of the stored schedule. None if it does not exist or was removed."""
        query = f"select {columns} from job_definitions where namespace = %s and name = %s and removed_at is null"
        rows = self.sql(query, self.namespace, name)
        return rows[0] if rows else None
