"""The end of a worker's process reaches its runs: on a real kubelet, and on an API server whose statuses the test sets.

The pods are small ones that write a worker's line as `wakeboard_worker.termination_message` does. The test is that
worker in the database. The operator has the rights of deploy/rbac.yaml in its namespace.
"""

from __future__ import annotations

import json
import secrets
import threading
import time
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import pytest
import yaml

from testbed.cluster.busybox_images import BUSYBOX
from testbed.cluster.cluster import Refused
from testbed.cluster.job_schedules import CRDS, install_crds
from testbed.cluster.operators import Operator, wait_for
from tests.store.sql_clients import SqlClient

if TYPE_CHECKING:
    from collections.abc import Iterator

    from testbed.cluster.cluster import Cluster
    from testbed.cluster.node import Node

RBAC: Final = Path(__file__).resolve().parents[2] / "deploy" / "rbac.yaml"
LABELS: Final = {"app.kubernetes.io/component": "worker", "app.kubernetes.io/part-of": "wakeboard"}
PROMISED_S: Final = 2.0  # from the kubelet's report to claimable runs
MEMORY: Final = {"resources": {"limits": {"memory": "24Mi"}}}
WAITS: Final = "trap '' TERM; while :; do sleep 1; done"
EXHAUSTS: Final = "until [ -e /data/go ]; do sleep 0.1; done; tail /dev/zero"


class Namespace:
    """A namespace with worker pods, a database, and operators that watch the pods."""

    def __init__(self, cluster: Cluster, name: str, dsn: str, folder: Path) -> None:
        self.cluster, self.name, self.folder = cluster, name, folder
        self.admin = SqlClient(dsn)
        self._clients = [self.admin]

    def close(self) -> None:
        for client in self._clients:
            client.close()

    def operator(self) -> Operator:
        """An operator with the rights of deploy/rbac.yaml."""
        login = self.cluster.kubeconfig_of_service_account(self.name, "wakeboard-operator")
        where = {"namespaces": self.name, "source": f"k8s:{self.name}", "pod_namespace": self.name}
        return Operator(self.admin.dsn, login, self.folder, **where)

    def worker(self, number: int, runs: int = 2, pod_uid: str = "") -> SqlClient:
        """A registered worker that has claimed new runs."""
        client = SqlClient(self.admin.dsn, number)
        self._clients.append(client)
        for _ in range(runs):
            self.admin.enqueue(timeout_s=3600)
        assert client.register(lease_s=3600, pod_uid=pod_uid)
        assert len(client.claim(lease_s=3600)) == runs
        return client

    def path(self, pod: str = "") -> str:
        return f"/api/v1/namespaces/{self.name}/pods{'/' * bool(pod)}{pod}"

    def start(self, pod: str, script: str, restart: str = "Never", **container: Any) -> str:
        """Starts a pod whose process writes the line of worker 7001 (after restarts 7002, …). Returns its uid."""
        line = "n=$(cat /data/n 2>/dev/null || echo 7001); echo $((n + 1)) > /data/n"
        write = "echo wakeboard worker $n >> /dev/termination-log"
        worker = {"name": "worker", "image": BUSYBOX, "command": ["sh", "-c", f"{line}; {write}; {script}"]}
        mounts = {"volumeMounts": [{"name": "data", "mountPath": "/data"}]}
        spec = {
            "containers": [worker | mounts | container],
            "volumes": [{"name": "data", "emptyDir": {"sizeLimit": "1Mi"}}],
            "restartPolicy": restart,
            "terminationGracePeriodSeconds": 1,
        }
        self.create(pod, spec)
        self.kubectl("wait", "--for=condition=Ready", f"pod/{pod}", "--timeout=60s")
        return self.cluster.call("GET", self.path(pod))["metadata"]["uid"]

    def create(self, pod: str, spec: dict[str, Any]) -> None:
        document = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": pod, "labels": LABELS}, "spec": spec}
        self.cluster.call("POST", self.path(), document)

    def kubectl(self, *words: str) -> str:
        return self.cluster.kubectl("--namespace", self.name, *words)

    def running(self) -> dict[int, int]:
        """By worker: how many runs it has."""
        return dict(self.admin.sql("select locked_by, count(*)::int from job_runs where locked_by <> 0 group by 1"))

    def attempts(self) -> set[tuple[str, str, str, str | None]]:
        """Outcome, cause, error and pod of the attempts that ended."""
        return {tuple(row) for row in self.admin.sql("select outcome, cause, error, pod from job_attempts")}

    # -- statuses that the test sets, as a kubelet writes them

    def add_unstarted(self, pod: str) -> None:
        """A pod that no kubelet starts."""
        container = {"name": "worker", "image": "none", "terminationMessagePath": "/dev/termination-log"}
        self.create(pod, {"containers": [container], "nodeName": "nowhere", "terminationGracePeriodSeconds": 1})

    def write_end(self, pod: str, worker: int, reason: str = "OOMKilled") -> None:
        """The container has ended."""
        ended = {"exitCode": 137, "reason": reason, "message": f"wakeboard worker {worker}\n"}
        container = {"name": "worker", "state": {"terminated": ended}, "lastState": {}, "ready": False}
        more = {"restartCount": 0, "image": "none", "imageID": ""}
        status = {"status": {"phase": "Failed", "containerStatuses": [container | more]}}
        self.cluster.call("PATCH", f"{self.path(pod)}/status", status, "application/merge-patch+json")


class Reports:
    """When the API server first showed each pod with an ended container, by time.monotonic()."""

    def __init__(self, namespace: Namespace) -> None:
        self.at: dict[str, float] = {}
        self._path = f"{namespace.path()}?watch=true"
        self._cluster = namespace.cluster
        threading.Thread(target=self._watch, daemon=True).start()

    def _watch(self) -> None:
        with suppress(OSError, Refused):
            for line in self._cluster.lines(self._path):
                pod = json.loads(line)["object"]
                status = pod.get("status", {})
                states = [each["state"] for each in status.get("containerStatuses", [])]
                if any("terminated" in state for state in states) or status.get("phase") == "Failed":
                    self.at.setdefault(pod["metadata"]["name"], time.monotonic())


def granted(cluster: Cluster, namespace: str) -> None:
    """Creates the namespace, and in it the service account and the Role of deploy/rbac.yaml."""
    cluster.call("POST", "/api/v1/namespaces", {"metadata": {"name": namespace}})
    for document in yaml.safe_load_all(RBAC.read_text()):
        if document["metadata"].get("namespace"):
            document["metadata"]["namespace"] = namespace
            for subject in document.get("subjects", []):
                subject["namespace"] = namespace
            cluster.apply(document)
    everything = next(each for each in yaml.safe_load_all(RBAC.read_text()) if each["kind"] == "ClusterRole")
    schedules = {**everything, "kind": "Role", "metadata": {"name": "schedules", "namespace": namespace}}
    account = {"kind": "ServiceAccount", "name": "wakeboard-operator", "namespace": namespace}
    reference = {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "schedules"}
    binding = {**schedules, "kind": "RoleBinding", "roleRef": reference, "subjects": [account]}
    del binding["rules"]
    cluster.apply(schedules, binding)


@pytest.fixture
def shared(control_plane: Cluster, crds: None, database: str, tmp_path: Path) -> Iterator[Namespace]:
    """A namespace of the shared API server, which has no kubelet."""
    name = f"ended-{secrets.token_hex(3)}"
    granted(control_plane, name)
    made = Namespace(control_plane, name, database, tmp_path)
    yield made
    made.close()
    control_plane.call("DELETE", f"/api/v1/namespaces/{name}")


@pytest.fixture(scope="module")
def crds_on_node(real_node: Node) -> Iterator[None]:
    install_crds(real_node)
    yield
    real_node.kubectl("delete", "-f", str(CRDS), "--ignore-not-found")


@pytest.fixture
def there(real_node: Node, crds_on_node: None, database: str, tmp_path: Path) -> Iterator[Namespace]:
    """A namespace of a cluster with a kubelet."""
    name = f"ended-{secrets.token_hex(3)}"
    granted(real_node, name)
    made = Namespace(real_node, name, database, tmp_path)
    yield made
    made.close()
    real_node.call("DELETE", f"/api/v1/namespaces/{name}")


# -- an API server without a kubelet -----------------------------------------------------------------------------------


def test_what_ended_before_the_operator_began_is_reported_and_what_ends_later_too(shared: Namespace) -> None:
    shared.worker(7001)
    shared.worker(7002)
    for pod in ("before", "later"):
        shared.add_unstarted(pod)
    shared.write_end("before", 7001)
    with shared.operator() as operator:
        wait_for(lambda: shared.running() == {7002: 2}, why=lambda: operator.log)
        shared.write_end("later", 7002)
        wait_for(lambda: shared.running() == {}, why=lambda: operator.log)
        page = 'wakeboard_attempts_terminated_total{cause="OOMKilled"} 4.0'
        wait_for(lambda: page in operator.ask("/metrics")[1], why=lambda: operator.ask("/metrics")[1])
    assert shared.attempts() == {("crashed", "OOMKilled", "OOMKilled", pod) for pod in ("before", "later")}
    assert set(shared.admin.column("select crash_count from job_runs")) == {1}


def test_a_pod_of_someone_else_is_not_watched(shared: Namespace) -> None:
    shared.worker(7001)
    shared.worker(7002)
    for pod in ("other", "ours"):
        shared.add_unstarted(pod)
    shared.kubectl("label", "pod", "other", "app.kubernetes.io/part-of-")
    with shared.operator() as operator:
        operator.wait_until_leading()
        shared.write_end("other", 7001)
        shared.write_end("ours", 7002)
        wait_for(lambda: 7002 not in shared.running(), why=lambda: operator.log)
        assert shared.running() == {7001: 2}


def test_a_locked_run_is_taken_when_its_transaction_has_ended(shared: Namespace) -> None:
    shared.worker(7001)
    shared.add_unstarted("pod")
    handler = SqlClient(shared.admin.dsn)
    with shared.operator() as operator:
        operator.wait_until_leading()
        with handler.conn.transaction():
            handler.sql("select from job_runs where id = 1 for update")
            shared.write_end("pod", 7001)
            wait_for(lambda: shared.running() == {7001: 1}, why=lambda: operator.log)
        wait_for(lambda: shared.running() == {}, why=lambda: operator.log)
    handler.close()


def test_an_operator_that_may_not_watch_pods_says_so_once_and_does_everything_else(shared: Namespace) -> None:
    shared.kubectl("delete", "rolebinding", "wakeboard-operator")
    with shared.operator() as operator:
        operator.wait_until_leading()
        said = "ended workers are not noticed before their leases expire: the API server does not list pods"
        wait_for(lambda: said in operator.log, why=lambda: operator.log)
        assert operator.ask("/readyz")[0] == 200
