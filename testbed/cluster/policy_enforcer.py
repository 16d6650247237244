"""Keeps the NetworkPolicies of a node in force: `python -m testbed.cluster.policy_enforcer FOLDER URL ADDRESS`, inside.

It watches the API server and replaces one table of nftables whenever another is due, some milliseconds later. A pod
that has just got its address is free until the API server knows it: a network plugin would be stricter.
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
from testbed.cluster.watching import as_they_change

NAMESPACES = "/api/v1/namespaces"
PODS = "/api/v1/pods"
POLICIES = "/apis/networking.k8s.io/v1/networkpolicies"
COLLECTIONS = NAMESPACES, PODS, POLICIES
FOREVER = float("inf")


class Told(NamedTuple):
    """What a collection holds now."""

    path: str
    objects: list[Any]


News: TypeAlias = "Told | Exception"


def enforce(cluster: Cluster, node: str) -> None:
    """Does not return. The node's own CoreDNS counts as the pod that policies expect it to be."""
    dns = Pod("kube-system", {"k8s-app": "kube-dns"}, node, {("dns", "UDP"): 53, ("dns-tcp", "TCP"): 53})
    news: queue.SimpleQueue[News] = queue.SimpleQueue()
    for path in COLLECTIONS:
        threading.Thread(target=_tell, args=(cluster, path, news), daemon=True).start()
    known: dict[str, list[Any]] = {}
    in_force = ""
    while True:
        told = news.get()
        if isinstance(told, Exception):
            raise told
        known[told.path] = told.objects
        if len(known) == len(COLLECTIONS) and news.empty():
            due = table(known[NAMESPACES], known[PODS], known[POLICIES], dns)
            if due != in_force:
                subprocess.run(["nft", "-f", "-"], input=due, text=True, check=True)
                in_force = due
                print(due, flush=True)  # noqa: T201 - its log


def _tell(cluster: Cluster, path: str, news: queue.SimpleQueue[News]) -> None:
    try:
        for objects in as_they_change(cluster, path, FOREVER):
            news.put(Told(path, objects))
    except Exception as lost:  # noqa: BLE001 - a thread that ends unheard would leave old rules in force
        news.put(lost)


if __name__ == "__main__":
    folder, url, address = sys.argv[1:]
    enforce(Cluster(Path(folder), url), address)
