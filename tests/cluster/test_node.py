"""What a real node promises to the tests that use it."""

from __future__ import annotations

import os
import secrets
import socket
import subprocess
import sys
import time
from contextlib import contextmanager, suppress
from ipaddress import IPv4Address
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from testbed.cluster.binaries import find_program
from testbed.cluster.busybox_images import BUSYBOX
from testbed.cluster.cluster import Refused
from testbed.cluster.machine_slots import CGROUPS, MachineSlot, acquire_slot

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterator

    from testbed.cluster.node import Node

pytestmark = pytest.mark.timeout(300)

RESTRICTED = {
    "allowPrivilegeEscalation": False,
    "capabilities": {"drop": ["ALL"]},
    "readOnlyRootFilesystem": True,
    "runAsNonRoot": True,
    "runAsUser": 65532,
    "seccompProfile": {"type": "RuntimeDefault"},
}
SERVE = "httpd -f -p 8080 -h /www"
WAITS = 30.0  # seconds until what has been declared has to be in force
POLL_INTERVAL_S = 0.1  # seconds
A_MINUTE_AND_A_POD = 90.0  # seconds
ROOT = Path(__file__).resolve().parents[2]
OTHER_RUN = """
import sys
from pathlib import Path
from testbed.cluster.node import Node
from testbed.cluster.busybox_images import BUSYBOX
with Node(Path(sys.argv[1])) as node:
    node.kubectl("run", "sleeper", f"--image={BUSYBOX}", "--", "sleep", "4321")
    node.kubectl("wait", "--for=condition=Ready", "pod/sleeper", "--timeout=60s")
    print(node.machine.address, node.machine.cgroup, flush=True)
    sys.stdin.read()
"""


class PodNamespace:
    """A namespace of a node at the `restricted` level, with methods to run pods in it."""

    def __init__(self, node: Node, name: str) -> None:
        self.node, self.name = node, name
        self.pods = f"/api/v1/namespaces/{name}/pods"

    def apply(self, kind: str, name: str, spec: dict[str, Any], group: str = "v1") -> None:
        """Declares an object of this namespace."""
        metadata = {"name": name, "namespace": self.name}
        self.node.apply({"apiVersion": group, "kind": kind, "metadata": metadata, "spec": spec})

    def kubectl(self, *words: str) -> str:
        return self.node.kubectl("--namespace", self.name, *words)

    def run(self, name: str, script: str, **spec: Any) -> None:
        """A pod with the label `app`; `spec` is more of it, and `container` of its container."""
        metadata = {"name": name, "namespace": self.name, "labels": {"app": name}}
        self.node.apply({"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": pod_spec(script, **spec)})

    def wait(self, name: str, condition: str = "Ready") -> None:
        self.kubectl("wait", f"--for=condition={condition}", f"pod/{name}", "--timeout=60s")

    def ended(self, name: str) -> tuple[str, str]:
        """The phase of a pod at its end, and its logs."""
        (pod,) = self.node.wait_for(
            f"{self.pods}?fieldSelector=metadata.name%3D{name}",
            lambda pods: bool(pods) and pods[0]["status"]["phase"] in {"Succeeded", "Failed"},
        )
        return pod["status"]["phase"], self.node.pod_logs(self.name, name)

    def serve(self, name: str) -> None:
        """A pod that answers `ok` on port 8080, and its Service on port 80."""
        probe = {"httpGet": {"path": "/", "port": 8080}, "periodSeconds": 1}
        self.run(name, SERVE, container={"ports": [{"containerPort": 8080, "name": "http"}], "readinessProbe": probe})
        self.kubectl("expose", "pod", name, "--port=80", "--target-port=8080")
        self.wait(name)

    def can_reach(self, asker: str, address: str) -> bool:
        """Whether a request of this pod to an address is answered."""
        try:
            return self.kubectl("exec", asker, "--", "timeout", "2", "wget", "-qO-", f"http://{address}") == "ok\n"
        except Refused:
            return False


def pod_spec(script: str, container: dict[str, Any] | None = None, **more: Any) -> dict[str, Any]:
    first = {"name": "it", "image": BUSYBOX, "command": ["sh", "-ec", script], "securityContext": RESTRICTED}
    return {
        "containers": [first | (container or {})],
        "restartPolicy": "Never",
        "terminationGracePeriodSeconds": 0,
        **more,
    }


@contextmanager
def new_namespace(node: Node) -> Generator[PodNamespace]:
    name = f"namespace-{secrets.token_hex(3)}"
    labels = {"pod-security.kubernetes.io/enforce": "restricted"}
    node.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name, "labels": labels}})
    path = f"/api/v1/namespaces/{name}/serviceaccounts"
    node.wait_for(path, lambda accounts: any(account["metadata"]["name"] == "default" for account in accounts))
    yield PodNamespace(node, name)
    node.call("DELETE", f"/api/v1/namespaces/{name}")


@pytest.fixture
def namespace(real_node: Node) -> Iterator[PodNamespace]:
    with new_namespace(real_node) as namespace:
        yield namespace


@pytest.fixture(scope="module", autouse=True)
def namespace_with_cron_job(real_node: Node) -> Iterator[PodNamespace]:
    """Has a CronJob from the first test on: the last one needs not wait for a whole minute."""
    with new_namespace(real_node) as namespace:
        job = {"template": {"spec": pod_spec("true")}}
        namespace.apply("CronJob", "wake", {"schedule": "* * * * *", "jobTemplate": {"spec": job}}, "batch/v1")
        yield namespace


def test_a_pod_runs_at_the_restricted_level_and_has_no_power(namespace: PodNamespace):
    namespace.run("weak", "id -u; grep -E 'CapEff|NoNewPrivs|Seccomp:' /proc/self/status; ! touch /home/mine 2>&1")
    phase, output = namespace.ended("weak")
    assert phase == "Succeeded", output
    assert output.split()[:7] == ["65532", "CapEff:", "0000000000000000", "NoNewPrivs:", "1", "Seccomp:", "2"]
    assert "Read-only file system" in output


def test_a_pod_that_asks_for_more_is_refused(namespace: PodNamespace):
    with pytest.raises(Refused, match='violates PodSecurity "restricted'):
        namespace.run("strong", "true", container={"securityContext": {}})


def test_a_pod_reaches_a_service_by_its_name(namespace: PodNamespace):
    namespace.serve("shop")
    names = f"shop shop.{namespace.name}.svc.cluster.local"
    namespace.run("customer", f"for name in {names}; do until wget -qO- http://$name; do sleep 0.1; done; done")
    phase, output = namespace.ended("customer")
    assert phase == "Succeeded"
    assert [line for line in output.splitlines() if line == "ok"] == ["ok", "ok"]


def test_a_pod_asks_the_api_server_as_its_service_account(namespace: PodNamespace):
    namespace.kubectl("create", "serviceaccount", "robot")
    namespace.kubectl("create", "role", "reader", "--verb=list", "--resource=pods")
    namespace.kubectl("create", "rolebinding", "reader", "--role=reader", f"--serviceaccount={namespace.name}:robot")
    namespace.node.kubectl(
        "label", "--overwrite", "namespace", namespace.name, "pod-security.kubernetes.io/enforce=privileged"
    )
    program = {"name": "kubectl", "hostPath": {"path": str(find_program("kubectl").resolve()), "type": "File"}}
    mount = {"name": "kubectl", "mountPath": "/bin/kubectl", "readOnly": True}
    namespace.run(
        "asker",
        "kubectl auth whoami -o jsonpath={.status.userInfo.username}; kubectl get pods -o name; ! kubectl get secrets",
        container={"volumeMounts": [mount], "env": [{"name": "HOME", "value": "/tmp"}]},
        volumes=[program],
        serviceAccountName="robot",
    )
    phase, output = namespace.ended("asker")
    assert output.startswith(f"system:serviceaccount:{namespace.name}:robotpod/asker"), output
    assert "cannot list resource" in output
    assert phase == "Succeeded"


def test_a_pod_reaches_what_listens_on_this_host(namespace: PodNamespace):
    with socket.create_server((namespace.node.host_address, 0)) as server:
        server.settimeout(WAITS)
        namespace.run("caller", f"echo hello | nc {namespace.node.host_address} {server.getsockname()[1]}")
        connection, _ = server.accept()
        with connection:
            assert connection.recv(100) == b"hello\n"


def test_a_volume_keeps_its_data_over_the_end_of_a_pod(namespace: PodNamespace):
    namespace.node.make_volume(f"{namespace.name}-notes", "10Mi")
    claim = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "10Mi"}}}
    namespace.apply("PersistentVolumeClaim", "notes", claim)
    notes = {
        "container": {"volumeMounts": [{"name": "notes", "mountPath": "/notes"}]},
        "volumes": [{"name": "notes", "persistentVolumeClaim": {"claimName": "notes"}}],
    }
    namespace.run("writer", "echo remember > /notes/note", **notes)
    assert namespace.ended("writer") == ("Succeeded", "")
    namespace.kubectl("delete", "pod", "writer")
    namespace.run("reader", "cat /notes/note", **notes)
    assert namespace.ended("reader") == ("Succeeded", "remember\n")


def test_the_end_of_a_killed_container_is_seen_and_it_runs_again(namespace: PodNamespace):
    namespace.run("victim", "sleep 1000", restartPolicy="Always")
    namespace.wait("victim")
    namespace.node.kill_container(namespace.name, "victim")
    (pod,) = namespace.node.wait_for(namespace.pods, lambda pods: _status(pods[0])["restartCount"] == 1)
    (container,) = pod["status"]["containerStatuses"]
    assert container["lastState"]["terminated"]["exitCode"] == 137
    namespace.node.wait_for(namespace.pods, lambda pods: "running" in _status(pods[0])["state"])


def _status(pod: Any) -> Any:
    return pod["status"]["containerStatuses"][0]


def test_a_policy_denies_and_allows(namespace: PodNamespace):
    namespace.node.enforce_network_policies()
    for name in ("shop", "other"):
        namespace.serve(name)
    for name in ("friend", "stranger"):
        namespace.run(name, "sleep 1000")
        namespace.wait(name)
    comes_true(lambda: namespace.can_reach("stranger", "shop"))
    only_friends = {
        "podSelector": {"matchLabels": {"app": "shop"}},
        "ingress": [{"from": [{"podSelector": {"matchLabels": {"app": "friend"}}}], "ports": [{"port": "http"}]}],
    }
    namespace.apply("NetworkPolicy", "only-friends", only_friends, "networking.k8s.io/v1")
    comes_true(lambda: not namespace.can_reach("stranger", "shop"))
    assert namespace.can_reach("friend", "shop")
    assert namespace.can_reach("stranger", "other")
    dns = {"namespaceSelector": {}, "podSelector": {"matchLabels": {"k8s-app": "kube-dns"}}}
    only_the_shop = {
        "podSelector": {"matchExpressions": [{"key": "app", "operator": "In", "values": ["friend"]}]},
        "policyTypes": ["Egress"],
        "egress": [
            {"to": [dns], "ports": [{"port": 53, "protocol": "UDP"}]},
            {"to": [{"podSelector": {"matchLabels": {"app": "shop"}}}], "ports": [{"port": 8000, "endPort": 8080}]},
        ],
    }
    namespace.apply("NetworkPolicy", "only-the-shop", only_the_shop, "networking.k8s.io/v1")
    comes_true(lambda: not namespace.can_reach("friend", "other"))
    assert namespace.can_reach("friend", "shop")
    namespace.kubectl("delete", "networkpolicy", "--all")
    comes_true(lambda: namespace.can_reach("stranger", "shop") and namespace.can_reach("friend", "other"))


def test_policies_outlive_the_api_server(namespace: PodNamespace):
    namespace.node.enforce_network_policies()
    namespace.serve("shop")
    namespace.run("customer", "sleep 1000")
    namespace.wait("customer")
    comes_true(lambda: namespace.can_reach("customer", "shop"))
    namespace.node.restart_api_server()
    namespace.apply(
        "NetworkPolicy", "closed", {"podSelector": {"matchLabels": {"app": "shop"}}}, "networking.k8s.io/v1"
    )
    comes_true(lambda: not namespace.can_reach("customer", "shop"))


def comes_true(what: Callable[[], bool]) -> None:
    until = time.monotonic() + WAITS
    while not what():
        assert time.monotonic() < until
        time.sleep(POLL_INTERVAL_S)


def cgroup_folders(cgroup: str) -> list[Path]:
    """The folders of a cgroup and of those below it, once for each controller. Others may remove folders meanwhile."""
    return [Path(folder) for folder, _, _ in os.walk(CGROUPS) if f"{cgroup}/" in f"{folder}/"]


def processes(cgroup: str) -> list[str]:
    """The processes in a cgroup and below, once for each controller. A folder that is removed meanwhile has none."""
    found: list[str] = []
    for folder in cgroup_folders(cgroup):
        with suppress(OSError):
            found += (folder / "cgroup.procs").read_text().split()
    return found


def test_another_run_has_its_own_node_and_leaves_nothing_when_it_is_killed(real_node: Node, tmp_path: Path):
    with subprocess.Popen(
        [sys.executable, "-c", OTHER_RUN, str(tmp_path / "node")],
        cwd=ROOT,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as other:
        assert other.stdout is not None
        address, cgroup = other.stdout.readline().split()
        assert address != real_node.machine.address
        assert processes(cgroup)
        pods = [folder for folder in cgroup_folders(cgroup) if folder.name.startswith("pod")]
        assert pods
        assert real_node.kubectl("get", "pods", "--namespace", "default", "--output", "name") == ""
        other.kill()
    comes_true(lambda: not processes(cgroup))
    acquire_slots_up_to(address)
    assert not [pod for pod in pods if pod.exists()]
    assert not (tmp_path / "node" / "containerd").exists()


def acquire_slots_up_to(address: str) -> None:
    """Acquires slots up to this address, as later runs do. Acquiring a slot removes what its last user left."""
    slots: list[MachineSlot] = []
    while not slots or IPv4Address(slots[-1].address) < IPv4Address(address):
        slots.append(acquire_slot())
    for slot in slots:
        slot.release()


def test_a_cron_job_wakes_a_pod_each_minute(namespace_with_cron_job: PodNamespace):
    jobs = f"/apis/batch/v1/namespaces/{namespace_with_cron_job.name}/jobs"
    namespace_with_cron_job.node.wait_for(
        jobs, lambda jobs: any(job.get("status", {}).get("succeeded") for job in jobs), A_MINUTE_AND_A_POD
    )
