"""Enforces the NetworkPolicies of a node: `python -m testbed.cluster.policy_enforcer FOLDER URL ADDRESS`, inside.

It watches the API server and replaces one table of nftables whenever another is due, some milliseconds later. A pod
that has just got its address is free until the API server knows it: real network plugins are stricter.
"""

from __future__ import annotations

import http.client
import queue
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any, TypeAlias

from testbed.cluster.cluster import Cluster, Refused
from testbed.cluster.network_policy import Pod, table

NAMESPACES = "/api/v1/namespaces"
PODS = "/api/v1/pods"
POLICIES = "/apis/networking.k8s.io/v1/networkpolicies"
COLLECTIONS = NAMESPACES, PODS, POLICIES
LONGEST_WATCH_S = 30  # a quiet connection would be taken for a lost one
AGAIN_S = 0.1  # until an API server that does not answer is asked again
NOT_NOW = {410, 429, *range(500, 600)}  # HTTP statuses of an API server that starts or stops, or has gone on

Update: TypeAlias = "tuple[str, list[Any]] | Exception"  # a collection and what it holds now


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
        path, objects = update
        known[path] = objects
        if len(known) == len(COLLECTIONS) and updates.empty():
            due = table(known[NAMESPACES], known[PODS], known[POLICIES], dns)
            if due != in_force:
                subprocess.run(["nft", "-f", "-"], input=due, text=True, check=True)
                in_force = due
                print(due, flush=True)  # noqa: T201 - its log


def _watch(cluster: Cluster, path: str, updates: queue.SimpleQueue[Update]) -> None:
    try:
        while True:
            _list_and_wait(cluster, path, updates)
    except Exception as lost:  # noqa: BLE001 - the main thread must end, or old rules stay in effect
        updates.put(lost)


def _list_and_wait(cluster: Cluster, path: str, updates: queue.SimpleQueue[Update]) -> None:
    """Puts what the collection holds, and returns after its next change, or when the connection is lost."""
    try:
        listed = cluster.call("GET", path)
        updates.put((path, listed["items"]))
        version = listed["metadata"]["resourceVersion"]
        next(cluster.lines(f"{path}?watch=1&resourceVersion={version}&timeoutSeconds={LONGEST_WATCH_S}"), None)
    except (OSError, http.client.HTTPException, Refused) as lost:
        if isinstance(lost, Refused) and lost.status not in NOT_NOW:
            raise
        time.sleep(AGAIN_S)


if __name__ == "__main__":
    folder, url, address = sys.argv[1:]
    enforce(Cluster(Path(folder), url), address)
