"""A release of the chart on a node, used like an administrator: helm, kubectl, the command line in an operator pod."""

from __future__ import annotations

import base64
import json
import re
import subprocess
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import quote, urlsplit

import psycopg

from testbed.cluster.binaries import find_program
from testbed.cluster.cluster import Refused
from testbed.cluster.images import build_missing, find_image
from testbed.cluster.job_schedules import path
from testbed.processes import TIMEOUT_S, wait_for
from tools.chart_linters import find_tool

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Sequence

    from testbed.cluster.cluster import Cluster
    from testbed.cluster.node import Node

CHART = Path(__file__).resolve().parents[2] / "charts" / "wakeboard"
NAME = "wakeboard"
IMAGES = tuple(f"wakeboard-{name}" for name in ("operator", "worker", "board", "example", "postgres"))
HELM_TIMEOUT_S = 180
COMMAND_TIMEOUT_S = 60
OPERATOR = "app.kubernetes.io/component=operator"


class Helm:
    """Helm and kubectl as the administrator of a cluster, in one namespace."""

    def __init__(self, cluster: Cluster, namespace: str) -> None:
        self.cluster, self.namespace = cluster, namespace

    def helm(self, *words: str | Path, values: dict[str, Any] | None = None) -> str:
        """Runs Helm, with these values if any. Returns its output; raises Refused with its messages."""
        where = ["--kubeconfig", self.cluster.admin, "--namespace", self.namespace]
        given = [] if values is None else ["--values", "-"]
        command = [find_tool("helm"), *words, *given, *where]
        done = subprocess.run(
            command, input=json.dumps(values), capture_output=True, text=True, check=False, timeout=HELM_TIMEOUT_S + 20
        )
        if done.returncode:
            raise Refused(f"{done.stdout}\n{done.stderr}".strip())
        return done.stdout

    def kubectl(self, *words: str, stdin: str | None = None) -> str:
        """Runs kubectl."""
        return self.cluster.kubectl("--namespace", self.namespace, *words, stdin=stdin)


class Release(Helm):
    """A release of the chart in `namespace`. `jobs`: where schedules are kept; `full`: how its objects' names begin."""

    def __init__(self, node: Node, namespace: str, jobs: str, name: str = NAME) -> None:
        super().__init__(node, namespace)
        self.node, self.jobs, self._name = node, jobs, name
        self.full = name if NAME in name else f"{name}-{NAME}"
        self._wakes = 0

    def install(self, values: dict[str, Any]) -> str:
        """`helm install --wait`: what it prints, NOTES included."""
        return self.helm("install", self._name, CHART, "--wait", f"--timeout={HELM_TIMEOUT_S}s", values=values)

    def upgrade(self, values: dict[str, Any]) -> str:
        """`helm upgrade --wait`, with these values alone."""
        return self.helm("upgrade", self._name, CHART, "--wait", f"--timeout={HELM_TIMEOUT_S}s", values=values)

    def pods(self, selector: str) -> list[dict[str, Any]]:
        """Its pods that are not being deleted."""
        path = f"/api/v1/namespaces/{self.namespace}/pods?labelSelector={quote(selector)}"
        found = self.cluster.call("GET", path)["items"]
        return [pod for pod in found if "deletionTimestamp" not in pod["metadata"]]

    def wakeboard(self, *words: str) -> str:
        """Runs the command line in a ready pod of the operator. Returns its output."""
        pod = next(pod for pod in self.pods(OPERATOR) if _ready(pod))
        return self.kubectl("exec", pod["metadata"]["name"], "-c", "operator", "--", "wakeboard", *words)

    def asked(self, *words: str) -> Any:
        """The parsed output of the command line with --json."""
        return json.loads(self.wakeboard(*words, "--json"))

    def wake(self, pool: str = "default") -> str:
        """A wake now, as `kubectl create job --from=cronjob/…` makes it; the pod's name, once it runs."""
        self._wakes += 1
        job = f"wake-{pool}-{self._wakes}"
        self.kubectl("create", "job", job, f"--from=cronjob/{self.full}-wake-{pool}")
        return wait_for(lambda: self._started(job), within_s=COMMAND_TIMEOUT_S, why=lambda: self.describe(job))

    @contextmanager
    def forwarded(self, what: str, port: int) -> Generator[str]:
        """`kubectl port-forward` of a port of `what` (`deployment/NAME`) inside the block. Yields its address here."""
        words = ["--kubeconfig", str(self.cluster.admin), "--namespace", self.namespace, "port-forward", what]
        command = [str(find_program("kubectl")), *words, f":{port}"]
        with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as process:
            assert process.stdout
            first = process.stdout.readline()
            found = re.match(r"Forwarding from (127\.0\.0\.1:\d+)", first)
            try:
                if not found:
                    raise Refused(first.strip())
                yield f"http://{found[1]}"
            finally:
                process.kill()

    def _started(self, job: str) -> str:
        for pod in self.pods(f"batch.kubernetes.io/job-name={job}"):
            if pod["status"]["phase"] != "Pending":
                return pod["metadata"]["name"]
        return ""

    def ended(self, pod: str, within_s: float = 90) -> dict[str, Any]:
        """How the pod's container ended: `exitCode` and more."""

        def state() -> Any:
            document = self.cluster.call("GET", f"/api/v1/namespaces/{self.namespace}/pods/{pod}")
            return document["status"]["containerStatuses"][0]["state"].get("terminated")

        return wait_for(state, within_s=within_s, why=lambda: self.logs(pod))

    def logs(self, pod: str) -> str:
        """The logs of a pod, or kubectl's error message."""
        try:
            return self.kubectl("logs", pod, "--all-containers")
        except Refused as refused:
            return str(refused)

    def describe(self, job: str) -> str:
        """`kubectl describe` of a job's pods, for the message of a failure."""
        return self.kubectl("describe", "pods", "-l", f"batch.kubernetes.io/job-name={job}")

    # -- its dev database

    @contextmanager
    def session(self) -> Generator[psycopg.Connection]:
        """A session of the database's owner, from this host. It ends with the API server, through which it goes."""
        secret = self.cluster.call("GET", f"/api/v1/namespaces/{self.namespace}/secrets/{self.full}-dev-database")
        dsn = urlsplit(base64.b64decode(secret["data"]["owner-dsn"]).decode())
        with self.forwarded(f"pod/{self.full}-dev-database-0", 5432) as address:
            here = dsn._replace(netloc=f"{dsn.username}:{dsn.password}@{urlsplit(address).netloc}")
            with psycopg.connect(here.geturl(), autocommit=True) as conn:
                yield conn

    def wait_for_row(self, query: str, within_s: float = TIMEOUT_S) -> tuple[Any, ...]:
        """Polls a query until it has a row, and returns the row. The command line in a pod takes a second of CPU."""
        with self.session() as conn:
            return wait_for(
                lambda: conn.execute(query.encode()).fetchone(),
                within_s=within_s,
                why=lambda: f"{query}\n{self.wakeboard('runs', '--json')}\n{self.kubectl('get', 'pods')}",
            )

    # -- schedules

    def declare(self, name: str, **spec: Any) -> None:
        """Applies a JobSchedule, and waits until the operator has synced it."""
        self.node.apply(
            {
                "apiVersion": "wakeboard.dev/v1alpha1",
                "kind": "JobSchedule",
                "metadata": {"name": name, "namespace": self.jobs},
                "spec": spec,
            }
        )
        generation = self.node.call("GET", path(self.jobs, name))["metadata"]["generation"]
        self.comes(name, lambda status: status.get("acceptedGeneration") == generation)

    def ask_for(self, name: str, action: str, token: str) -> None:
        """Requests an action by annotation, and waits until the status reports it."""
        words = ["annotate", "jobschedule", name, f"wakeboard.dev/{action}={token}", "--overwrite"]
        self.node.kubectl("--namespace", self.jobs, *words)
        self.comes(name, lambda status: status.get("lastAction", {}).get("token") == token)

    def status(self, name: str) -> dict[str, Any]:
        """The status that the schedule has in the cluster."""
        return self.node.call("GET", path(self.jobs, name)).get("status") or {}

    def comes(self, name: str, what: Callable[[dict[str, Any]], bool], within_s: float = 90) -> dict[str, Any]:
        """Waits until `what` of the schedule's status is true, and returns the status."""
        wait_for(lambda: what(self.status(name)), within_s=within_s, why=lambda: self.explained(name))
        return self.status(name)

    def explained(self, name: str) -> str:
        """Status, runs and pods: the message of a wait that timed out."""
        return "\n".join(
            [json.dumps(self.status(name), indent=1), self.wakeboard("runs", "--json"), self.kubectl("get", "pods")]
        )

    def run_of(self, name: str) -> dict[str, Any]:
        """The newest run of a schedule, with everything that is known of it."""
        runs: Sequence[dict[str, Any]] = self.asked("runs", "--schedule", name)
        return self.asked("run", str(runs[0]["id"]))


DATABASE = """
apiVersion: v1
kind: Pod
metadata: {name: db, namespace: default, labels: {app: db}}
spec:
  containers:
    - name: postgres
      image: localhost/wakeboard-postgres:dev
      imagePullPolicy: Never
      env: [{name: POSTGRES_PASSWORD, value: admin}, {name: POSTGRES_DB, value: shop}]
      readinessProbe: {exec: {command: [pg_isready, -h, 127.0.0.1]}, periodSeconds: 1}
---
apiVersion: v1
kind: Service
metadata: {name: db, namespace: default}
spec: {selector: {app: db}, ports: [{port: 5432}]}
"""


def external_database(node: Node) -> str:
    """A Postgres that no release runs, with the empty database `shop`; its URL."""
    node.kubectl("apply", "-f", "-", stdin=DATABASE)
    node.kubectl("wait", "--for=condition=Ready", "--timeout=50s", "pod", "db")
    return "postgresql://postgres:admin@db.default/shop"


def remove_external_database(node: Node) -> None:
    """Removes its pod and its Service."""
    node.kubectl("delete", "pod,service", "db", "--ignore-not-found", "--now")


def load_images(node: Node) -> None:
    """The project's own images, as the Dockerfile makes them."""
    build_missing()
    for name in IMAGES:
        node.load_image(find_image(name))


def _ready(pod: dict[str, Any]) -> bool:
    conditions = pod["status"].get("conditions", [])
    return any(each["type"] == "Ready" and each["status"] == "True" for each in conditions)
