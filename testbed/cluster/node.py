"""A Kubernetes node for tests: a control plane, and what runs pods, in a machine of its own within this one.

containerd, kubelet, kube-proxy, scheduler and CoreDNS are what a cluster has; the network plugin gives each pod a link
and an address. Nothing leads out of it but the way to this host, so every image has to be loaded. It is ready in some
six seconds, and leaves nothing behind, whatever ends the test run. Several runs may have a node at the same time.
"""

from __future__ import annotations

import shutil
import sys
from pathlib import Path
from typing import Any, Self

from testbed.cluster import component_flags as flags
from testbed.cluster import node_settings as settings
from testbed.cluster.busybox_images import find_busybox, write_small_images
from testbed.cluster.certificates import Authority
from testbed.cluster.containerd import Containerd
from testbed.cluster.control_plane import ControlPlane
from testbed.cluster.machine import CommandFailed, Machine
from testbed.cluster.network_policy import TABLE
from testbed.cluster.processes import ManagedProcess

ROOT = Path(__file__).resolve().parents[2]
A_NAME = "kubernetes.default.svc.cluster.local"
IPTABLES = "iptables", "--wait"
LEAVING = "--out-interface", "eth0", "--jump", "MASQUERADE"
ANYONE_MAY_WRITE = 0o777
DATA = "containerd", "etcd", "kubelet", "volumes"  # folders that go with the node


class Node(ControlPlane):
    """A control plane with one node, in a folder that must not exist yet. Linux and root only, in the main thread.

    `host_address` is where pods reach what listens on this host. `kubelet`, `containerd`, `scheduler`, `proxy` and
    `dns` are its parts in addition to the control plane's.
    """

    def __init__(self, folder: Path) -> None:
        self._enforcing = False
        self._loaded: dict[Path, list[str]] = {}  # names of images, by archive
        self.machine = Machine(folder)
        super().__init__(folder, machine=self.machine)
        self.host_address = self.machine.host_address
        logs, address = folder / "log", self.machine.address
        self.containerd = Containerd(folder, logs, self.machine)
        authority = Authority(folder / "pki")
        authority.issue("kubelet-server", settings.NAME, hosts=[settings.NAME, address])
        kubelet = self._login_of("kubelet", f"system:node:{settings.NAME}", ["system:nodes"])
        words = settings.kubelet_flags(folder, kubelet, address, self.machine.cgroup)
        self.kubelet = ManagedProcess("kubelet", words, logs, self.machine)
        words = settings.proxy_flags(folder, self._login_of("kube-proxy", "system:kube-proxy"))
        self.proxy = ManagedProcess("kube-proxy", words, logs, self.machine)
        words = settings.scheduler_flags(self._login_of("scheduler", "system:kube-scheduler"))
        self.scheduler = ManagedProcess("kube-scheduler", words, logs, self.machine)
        words = settings.dns_flags(folder, self._login_of("coredns", settings.DNS_USER), address)
        self.dns = ManagedProcess("coredns", words, logs, self.machine)
        words = [f"PYTHONPATH={ROOT}", sys.executable, "-m", "testbed.cluster.policy_enforcer"]
        words += [str(folder), self.url, address]
        self.enforcer = ManagedProcess("policy-enforcer", words, logs, self.machine, path="env")

    def __enter__(self) -> Self:
        try:
            self.machine.start([self.folder / name for name in DATA])
            self.containerd.start()
            super().__enter__()
            self._start_node()
        except BaseException:
            self.stop()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        try:
            self.enforcer.check()
        finally:
            self.stop()

    def stop(self) -> None:
        """Ends everything, pods too. The logs stay; data, images and volumes go."""
        self.machine.stop()
        for part in (self.enforcer, self.dns, self.scheduler, self.proxy, self.kubelet, self.containerd):
            part.kill()
        super().stop()
        for name in DATA:
            shutil.rmtree(self.folder / name, ignore_errors=True)

    def load_image(self, archive: Path) -> list[str]:
        """Loads the images of an OCI archive once, so that pods can use them. Returns their names."""
        if archive not in self._loaded:
            self._loaded[archive] = self.containerd.load(archive)
        return self._loaded[archive]

    def kill_container(self, namespace: str, pod: str) -> None:
        """SIGKILL to the first process of the pod's first container."""
        (status, *_) = self.call("GET", f"/api/v1/namespaces/{namespace}/pods/{pod}")["status"]["containerStatuses"]
        self.containerd.kill_process(status["containerID"].removeprefix("containerd://"))

    def enforce_network_policies(self) -> None:
        """Starts to enforce NetworkPolicies, existing and future ones. Before this call they have no effect."""
        if not self._enforcing:
            self.enforcer.start()
            self._enforcing = True
            self._wait_for("the first table of policies", self._has_policies, self.enforcer)

    def make_volume(self, name: str, size: str) -> None:
        """A volume of no storage class, in a folder of the node that anyone may write, for the next claim that fits."""
        folder = self.folder / "volumes" / name
        folder.mkdir(parents=True)
        folder.chmod(ANYONE_MAY_WRITE)
        spec: dict[str, Any] = {
            "accessModes": ["ReadWriteOnce"],
            "capacity": {"storage": size},
            "hostPath": {"path": str(folder)},
            "persistentVolumeReclaimPolicy": "Retain",
        }
        self.apply({"apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": name}, "spec": spec})

    def _start_node(self) -> None:
        self._rule_traffic()
        self.containerd.wait_until_ready()
        busybox = find_busybox()
        assert busybox
        archive = self.folder / "small-images.tar"
        write_small_images(busybox, archive)
        self.load_image(archive)
        self.apply(*settings.dns_objects(self.machine.address))
        parts = self.scheduler, self.kubelet, self.proxy, self.dns
        for part in parts:
            part.start()
        self._wait_for("the node", self._ready, self.containerd, *parts)
        self._wait_for("cluster DNS", self._finds_names, *parts)

    def _rule_traffic(self) -> None:
        """This host knows no way to a pod's own address, so what leaves has the node's.

        A Service that the proxy does not know yet refuses: a packet to it that got lost would set its connection up,
        and every packet sent again would follow it, for two minutes.
        """
        self.machine.run(*IPTABLES, *f"--table nat --append POSTROUTING --source {settings.PODS}".split(), *LEAVING)
        for chain in ("FORWARD", "OUTPUT"):
            self.machine.run(*IPTABLES, "--append", chain, "--destination", flags.SERVICES, "--jump", "REJECT")

    def _ready(self) -> bool:
        """Pods may be put there: it says so, and the controllers have seen it."""
        return any(
            condition["type"] == "Ready" and condition["status"] == "True" and not node["spec"].get("taints")
            for node in self.call("GET", "/api/v1/nodes")["items"]
            for condition in node.get("status", {}).get("conditions", [])
        )

    def _has_policies(self) -> bool:
        return TABLE.split()[1] in self.machine.run("nft", "list", "tables")

    def _finds_names(self) -> bool:
        """The proxy leads to CoreDNS, and that one knows the cluster."""
        try:
            self.machine.run("timeout", "1", "busybox", "nslookup", A_NAME, settings.DNS_SERVICE)
        except CommandFailed:
            return False
        return True

    def _login_of(self, name: str, user: str, groups: list[str] | None = None) -> Path:
        pair = Authority(self.folder / "pki").issue(name, user, groups or [])
        return self._login(self.folder / f"{name}.kubeconfig", pair)
