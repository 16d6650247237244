"""The end of a worker's process reaches its runs: on a real kubelet, and on an API server whose statuses the test sets.

The pods are small ones that write a worker's line as `wakeboard_worker.termination_message` does. The test is that
worker in the database. The operator has the rights of deploy/rbac.yaml in its namespace.
"""

from __future__ import annotations

import http.client
import json
import secrets
import sys
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
WITHIN_S: Final = 10.0  # from the kubelet's report to claimable runs: 2 s on an idle machine; a lease is an hour here
EVICTS_WITHIN_S: Final = 200.0  # a kubelet measures volumes about once a minute
MEMORY: Final[dict[str, Any]] = {"resources": {"limits": {"memory": "24Mi"}}}
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

    def worker(self, number: int, runs: int = 2, claims: int | None = None, pod_uid: str = "") -> None:
        """A worker registers, and claims as many runs as are due: `runs` new ones, if no others are."""
        client = SqlClient(self.admin.dsn, number)
        self._clients.append(client)
        for _ in range(runs):
            self.admin.enqueue(timeout_s=3600)
        assert client.register(lease_s=3600, pod_uid=pod_uid)
        assert len(client.claim(lease_s=3600)) == (runs if claims is None else claims)

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
        with suppress(OSError, http.client.HTTPException, Refused):  # the API server ends first
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


def test_what_ended_before_the_operator_began_is_reported_too(shared: Namespace) -> None:
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


def test_an_operator_that_may_not_watch_pods_does_everything_else(shared: Namespace) -> None:
    shared.kubectl("delete", "rolebinding", "wakeboard-operator")
    with shared.operator() as operator:
        operator.wait_until_leading()
        said = "ended workers are not noticed before their leases expire: "
        wait_for(lambda: said in operator.log, why=lambda: operator.log)
        assert operator.ask("/readyz")[0] == 200


# -- a real kubelet ----------------------------------------------------------------------------------------------------


def taken_within(namespace: Namespace, reports: Reports, pod: str, worker: int) -> float:
    """Waits until this worker has no runs. Returns the seconds since the API server showed that its process ended."""
    wait_for(
        lambda: worker not in namespace.running(),
        within_s=EVICTS_WITHIN_S,
        why=lambda: namespace.kubectl("describe", "pods"),
    )
    at = time.monotonic()
    wait_for(lambda: pod in reports.at)
    return at - reports.at[pod]


@pytest.mark.timeout(300)
def test_runs_of_an_oom_killed_worker_are_claimed_long_before_leases_expire(there: Namespace) -> None:
    there.start("greedy", EXHAUSTS, **MEMORY)
    reports = Reports(there)
    there.worker(7001, runs=20)
    with there.operator() as operator:
        operator.wait_until_leading()
        there.kubectl("exec", "greedy", "--", "touch", "/data/go")
        took = taken_within(there, reports, "greedy", 7001)
    sys.stdout.write(f"\nOOM kill: claimable {took:.3f} s after the kubelet's report\n")
    assert took < WITHIN_S, operator.log
    assert there.attempts() == {("crashed", "OOMKilled", "OOMKilled", "greedy")}
    assert set(there.admin.column("select crash_count from job_runs")) == {1}
    there.worker(7002, runs=0, claims=20)


@pytest.mark.timeout(300)
def test_a_restarted_container_is_another_process(there: Namespace) -> None:
    there.start("again", f"[ $n -gt 7001 ] && while :; do sleep 1; done; {EXHAUSTS}", "Always", **MEMORY)
    there.worker(7001)
    with there.operator() as operator:
        operator.wait_until_leading()
        there.kubectl("exec", "again", "--", "touch", "/data/go")
        wait_for(lambda: there.running() == {}, why=lambda: operator.log)
        path = there.path()
        there.cluster.wait_for(path, lambda pods: pods[0]["status"]["containerStatuses"][0]["restartCount"] == 1)
    there.worker(7002, runs=0, claims=2)
    there.add_unstarted("marker")
    there.worker(7003)
    with there.operator() as operator:  # it lists the pod again, whose former process has ended
        operator.wait_until_leading()
        there.write_end("marker", 7003)
        wait_for(lambda: 7003 not in there.running(), why=lambda: operator.log)
    assert there.running() == {7002: 2}


@pytest.mark.timeout(300)
@pytest.mark.parametrize(
    ("how", "cause", "error"),
    [
        ("kill", "Error", "Error, exit code 137"),
        ("drain", "Drained", "Drained: Eviction API: evicting"),
        ("evict", "Evicted", 'Evicted: Usage of EmptyDir volume "data" exceeds the limit "1Mi".'),
    ],
)
def test_what_ended_a_worker_decides_what_its_attempts_say(
    there: Namespace, real_node: Node, how: str, cause: str, error: str
) -> None:
    uid = there.start("pod", WAITS)
    reports = Reports(there)
    there.worker(7001, pod_uid=uid)
    eviction = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": "pod", "namespace": there.name}}
    with there.operator() as operator:
        operator.wait_until_leading()
        if how == "kill":
            real_node.kill_container(there.name, "pod")
        elif how == "drain":
            there.cluster.call("POST", f"{there.path('pod')}/eviction", eviction)
        else:
            there.kubectl("exec", "pod", "--", "dd", "if=/dev/zero", "of=/data/x", "bs=1M", "count=4")
        took = taken_within(there, reports, "pod", 7001)
    sys.stdout.write(f"\n{cause}: claimable {took:.3f} s after the kubelet's report\n")
    assert took < WITHIN_S, operator.log
    assert there.attempts() == {("crashed" if cause == "Error" else "released", cause, error, "pod")}
    assert set(there.admin.column("select crash_count from job_runs")) == {int(cause == "Error")}


@pytest.mark.timeout(300)
@pytest.mark.parametrize("force", [True, False])
def test_a_deleted_pod_whose_container_still_runs_is_not_treated_as_dead(
    there: Namespace, real_node: Node, force: bool
) -> None:
    """The kubelet is away. By force the object is gone at once; otherwise it stays until the kubelet is back."""
    there.start("pod", WAITS)
    there.add_unstarted("marker")
    there.worker(7001)
    there.worker(7002)
    with there.operator() as operator:
        operator.wait_until_leading()
        real_node.kubelet.kill()
        try:
            words = ["--force", "--grace-period=0"] if force else ["--wait=false"]
            there.kubectl("delete", "pod", "pod", *words)
            there.write_end("marker", 7002)  # a later event of the same watch
            wait_for(lambda: 7002 not in there.running(), why=lambda: operator.log)
            assert there.running() == {7001: 2}
        finally:
            real_node.kubelet.start()
        if force:
            assert there.running() == {7001: 2}
        else:
            wait_for(lambda: there.running() == {}, why=lambda: operator.log)
            assert ("released", "Deleted", "Deleted", "pod") in there.attempts()
