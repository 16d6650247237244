"""Enforces the NetworkPolicies of a node: `python -m testbed.cluster.policy_enforcer FOLDER URL ADDRESS`, inside.

It watches the API server and replaces one table of nftables whenever another is due, some milliseconds later. A pod
that has just got its address is free until the API server knows it: real network plugins are stricter.
"""

from __future__ import annotations

import queue
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias

from testbed.cluster.cluster import Cluster
from testbed.cluster.network_policy import Pod, table
from testbed.cluster.watch import snapshots

NAMESPACES = "/api/v1/namespaces"
PODS = "/api/v1/pods"
POLICIES = "/apis/networking.k8s.io/v1/networkpolicies"
COLLECTIONS = NAMESPACES, PODS, POLICIES
FOREVER = float("inf")


class Listed(NamedTuple):
    """What a collection holds now."""

    path: str
    objects: list[Any]


Update: TypeAlias = "Listed | Exception"


def enforce(cluster: Cluster, node: str) -> None:
    """Does not return. Treats the node's CoreDNS as a pod, as policies expect."""
    dns = Pod("kube-system", {"k8s-app": "kube-dns"}, node, {("dns", "UDP"): 53, ("dns-tcp", "TCP"): 53})
    updates: queue.SimpleQueue[Update] = queue.SimpleQueue()
    for path in COLLECTIONS:
        threading.Thread(target=_watch, args=(cluster, path, updates), daemon=True).start()
    known: dict[str, list[Any]] = {}
    in_force = ""
    while True:
        update = updates.get()
        if isinstance(update, Exception):
            raise update
        known[update.path] = update.objects
        if len(known) == len(COLLECTIONS) and updates.empty():
            due = table(known[NAMESPACES], known[PODS], known[POLICIES], dns)
            if due != in_force:
                subprocess.run(["nft", "-f", "-"], input=due, text=True, check=True)
                in_force = due
                print(due, flush=True)  # noqa: T201 - its log


def _watch(cluster: Cluster, path: str, updates: queue.SimpleQueue[Update]) -> None:
    try:
        for objects in snapshots(cluster, path, FOREVER):
            updates.put(Listed(path, objects))
    except Exception as lost:  # noqa: BLE001 - the main thread must end, or old rules stay in effect
        updates.put(lost)


if __name__ == "__main__":
    folder, url, address = sys.argv[1:]
    enforce(Cluster(Path(folder), url), address)
