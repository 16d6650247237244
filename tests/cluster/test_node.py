"""The test node enforces pod security and network policies, and leaves nothing behind."""

from __future__ import annotations

import os
import secrets
import subprocess
import sys
from contextlib import suppress
from ipaddress import IPv4Address
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from testbed.cluster.busybox_images import BUSYBOX
from testbed.cluster.cluster import Refused
from testbed.cluster.machine_slots import CGROUPS, MachineSlot, acquire_slot
from testbed.cluster.operators import wait_for

if TYPE_CHECKING:
    from collections.abc import Iterator

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

    def kubectl(self, *words: str) -> str:
        return self.node.kubectl("--namespace", self.name, *words)

    def restrict(self, name: str, spec: dict[str, Any]) -> None:
        """Declares a network policy."""
        metadata = {"name": name, "namespace": self.name}
        kind = {"apiVersion": "networking.k8s.io/v1", "kind": "NetworkPolicy"}
        self.node.apply({**kind, "metadata": metadata, "spec": spec})

    def run(self, name: str, script: str, **container: Any) -> None:
        """Starts a pod with the label `app`; `container` is more of its container."""
        first = {"name": "it", "image": BUSYBOX, "command": ["sh", "-ec", script], "securityContext": RESTRICTED}
        spec = {"containers": [first | container], "restartPolicy": "Never", "terminationGracePeriodSeconds": 0}
        metadata = {"name": name, "namespace": self.name, "labels": {"app": name}}
        self.node.apply({"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec})

    def wait(self, name: str) -> None:
        """Waits until the pod is ready."""
        self.kubectl("wait", "--for=condition=Ready", f"pod/{name}", "--timeout=60s")

    def serve(self, name: str) -> None:
        """A pod that answers `ok` on port 8080, and its Service on port 80."""
        probe = {"httpGet": {"path": "/", "port": 8080}, "periodSeconds": 1}
        self.run(name, SERVE, ports=[{"containerPort": 8080, "name": "http"}], readinessProbe=probe)
        self.kubectl("expose", "pod", name, "--port=80", "--target-port=8080")
        self.wait(name)

    def can_reach(self, asker: str, address: str) -> bool:
        """Whether a request of this pod to an address is answered."""
        try:
            return self.kubectl("exec", asker, "--", "timeout", "2", "wget", "-qO-", f"http://{address}") == "ok\n"
        except Refused:
            return False


@pytest.fixture
def namespace(real_node: Node) -> Iterator[PodNamespace]:
    name = f"namespace-{secrets.token_hex(3)}"
    labels = {"pod-security.kubernetes.io/enforce": "restricted"}
    real_node.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name, "labels": labels}})
    path = f"/api/v1/namespaces/{name}/serviceaccounts"
    real_node.wait_for(path, lambda accounts: any(account["metadata"]["name"] == "default" for account in accounts))
    yield PodNamespace(real_node, name)
    real_node.call("DELETE", f"/api/v1/namespaces/{name}")


def test_a_pod_that_asks_for_more_is_refused(namespace: PodNamespace):
    with pytest.raises(Refused, match='violates PodSecurity "restricted'):
        namespace.run("strong", "true", securityContext={})


def test_a_policy_denies_and_allows(namespace: PodNamespace):
    namespace.node.enforce_network_policies()
    for name in ("shop", "other"):
        namespace.serve(name)
    for name in ("friend", "stranger"):
        namespace.run(name, "sleep 1000")
        namespace.wait(name)
    wait_for(lambda: namespace.can_reach("stranger", "shop"))
    only_friends = {
        "podSelector": {"matchLabels": {"app": "shop"}},
        "ingress": [{"from": [{"podSelector": {"matchLabels": {"app": "friend"}}}], "ports": [{"port": "http"}]}],
    }
    namespace.restrict("only-friends", only_friends)
    wait_for(lambda: not namespace.can_reach("stranger", "shop"))
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
    namespace.restrict("only-the-shop", only_the_shop)
    wait_for(lambda: not namespace.can_reach("friend", "other"))
    assert namespace.can_reach("friend", "shop")
    namespace.kubectl("delete", "networkpolicy", "--all")
    wait_for(lambda: namespace.can_reach("stranger", "shop") and namespace.can_reach("friend", "other"))


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


def test_another_test_run_has_its_own_node_and_leaves_nothing_when_killed(real_node: Node, tmp_path: Path):
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
    wait_for(lambda: not processes(cgroup))
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
