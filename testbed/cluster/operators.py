"""Operator processes for tests, and an environment (a namespace and a database) to act on and to wait for."""

from __future__ import annotations

import re
import urllib.request
import weakref
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.error import URLError

import psycopg

from testbed.cluster.cluster import Refused
from testbed.cluster.job_schedules import path
from testbed.processes import ModuleProcess, as_variables, wait_for

if TYPE_CHECKING:
    from testbed.cluster.cluster import Cluster


class Operator(ModuleProcess):
    """An operator process. The setting `pod_namespace` is the namespace of its pod; without it, it runs in none."""

    def __init__(self, dsn: str, kubeconfig: Path, folder: Path, **settings: object) -> None:
        pod_namespace = str(settings.pop("pod_namespace", ""))
        given = {"dsn": dsn, "operator_port": 0, "log_format": "console", **settings}
        variables = {"KUBECONFIG": str(kubeconfig), "POD_NAMESPACE": pod_namespace, **as_variables(given)}
        super().__init__(["wakeboard_operator"], folder, variables)

    def ended(self) -> int:
        """Waits until it has ended, and returns its exit code."""
        return self.exit_code()

    def memory_mb(self) -> float:
        """Resident memory."""
        status = Path(f"/proc/{self.pid}/status").read_text()
        found = re.search(r"VmRSS:\s+(\d+) kB", status)
        return int(found[1]) / 1024 if found else 0.0

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
        self._conn: psycopg.Connection | None = None

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
        """Uses one connection until it is lost: a wait polls, and a new session costs more than its query."""
        if self._conn is not None:
            try:
                return _rows(self._conn, query, values)
            except psycopg.OperationalError:
                if not self._conn.closed:
                    raise
        self._conn = psycopg.connect(self.dsn, autocommit=True, options="-c search_path=wakeboard")
        weakref.finalize(self, self._conn.close)
        return _rows(self._conn, query, values)

    def row(self, name: str, columns: str) -> tuple[Any, ...] | None:
        """Columns of the stored schedule. None if it does not exist or was removed."""
        query = f"select {columns} from job_definitions where namespace = %s and name = %s and removed_at is null"
        rows = self.sql(query, self.namespace, name)
        return rows[0] if rows else None


def _rows(conn: psycopg.Connection, query: str, values: tuple[object, ...]) -> list[tuple[Any, ...]]:
    cursor = conn.execute(query.encode(), values or None)
    return cursor.fetchall() if cursor.description else []
