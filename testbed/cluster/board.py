"""A board behind a real API server: a Service of a namespace that leads to a board on this machine."""

from __future__ import annotations

import socket
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final
from urllib.parse import urlsplit

from testbed.board_server import serving
from wakeboard.board import BoardOptions
from wakeboard.board.access import KubernetesAccess
from wakeboard.board.access.reviews import Reviews
from wakeboard.kube.api_server import ApiServer

if TYPE_CHECKING:
    from collections.abc import Generator

    from testbed.cluster.cluster import Cluster

SERVICE: Final = "wakeboard-board"
LABELS: Final = {"app.kubernetes.io/name": "wakeboard", "app.kubernetes.io/component": "board"}


def own_address() -> str:
    """An address of this machine that is not loopback: an API server passes nothing on to loopback.

    Raises OSError if there is none.
    """
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        probe.connect(("192.0.2.1", 9))  # sends nothing
        return probe.getsockname()[0]


@contextmanager
def board_of(cluster: Cluster, namespace: str, database: str) -> Generator[None]:
    """A board, and a Service that leads to it."""
    reviews = Reviews(ApiServer(cluster.url, cluster.folder / "pki" / "ca.crt"))
    options = BoardOptions(dsn=database, access=KubernetesAccess(reviews), listen=False)
    with serving(options, own_address()) as address:
        at = urlsplit(address)
        about = {"name": SERVICE, "namespace": namespace, "labels": LABELS}
        cluster.call("POST", f"/api/v1/namespaces/{namespace}/serviceaccounts", {"metadata": {"name": "board"}})
        spec = {"serviceAccountName": "board", "containers": [{"name": "board", "image": "board"}]}
        pods = f"/api/v1/namespaces/{namespace}/pods"
        cluster.call("POST", pods, {"metadata": about, "spec": spec})
        status = {"phase": "Running", "podIP": at.hostname, "podIPs": [{"ip": at.hostname}]}
        merge = "application/merge-patch+json"
        cluster.call("PATCH", f"{pods}/{SERVICE}/status", {"status": status}, merge)
        ports = [{"name": "http", "port": 80}]
        cluster.apply({"apiVersion": "v1", "kind": "Service", "metadata": about, "spec": {"ports": ports}})
        lead_to(cluster, namespace, at.hostname, at.port)
        yield


def lead_to(cluster: Cluster, namespace: str, host: str | None, port: int | None) -> None:
    """Makes the Service of the board lead to this server."""
    pod = {"kind": "Pod", "name": SERVICE, "namespace": namespace}  # the API server passes requests on to pods only
    addresses = [{"ip": host, "targetRef": pod}]
    cluster.apply(
        {
            "apiVersion": "v1",
            "kind": "Endpoints",
            "metadata": {"name": SERVICE, "namespace": namespace},
            "subsets": [{"addresses": addresses, "ports": [{"name": "http", "port": port}]}],
        }
    )


def kubeconfig_of_user(cluster: Cluster, namespace: str, user: dict[str, str]) -> dict[str, object]:
    """A kubeconfig with one context: this namespace, with this login."""
    about = {"server": cluster.url, "certificate-authority": str(cluster.folder / "pki" / "ca.crt")}
    return {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "test",
        "clusters": [{"name": "test", "cluster": about}],
        "contexts": [{"name": "test", "context": {"cluster": "test", "user": "user", "namespace": namespace}}],
        "users": [{"name": "user", "user": user}],
    }
