"""Command line flags of the control plane's components."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

    from testbed.cluster.certificates import KeyPair

LOOPBACK = "127.0.0.1"
SERVICES = "10.96.0.0/16"
MACHINE_PORT = 6443  # of the API server in a machine of its own, where every port is free
API_SERVER_HOSTS = (LOOPBACK, "localhost", "10.96.0.1", "kubernetes", "kubernetes.default", "kubernetes.default.svc")
ISSUER = "https://kubernetes.default.svc.cluster.local"
# The last one deletes pods of nodes that do not exist, which tests bind; the others need a cloud provider.
CONTROLLERS = (
    "*,-node-ipam-controller,-node-route-controller,-cloud-node-lifecycle-controller,-service-lb-controller,"
    "-pod-garbage-collector-controller"
)
QUOTA = 4 << 30  # bytes
AUDIT_POLICY = {
    "apiVersion": "audit.k8s.io/v1",
    "kind": "Policy",
    "omitStages": ["RequestReceived"],
    "rules": [{"level": "Metadata"}],
}


def etcd_flags(data: Path, url: str) -> list[str]:
    """Not durable: it outlives a kill, not a loss of power."""
    return [
        f"--data-dir={data}",
        f"--listen-client-urls={url}",
        f"--advertise-client-urls={url}",
        f"--listen-peer-urls=http://{LOOPBACK}:0",
        "--unsafe-no-fsync",
        "--log-level=warn",
        f"--quota-backend-bytes={QUOTA}",
    ]


def api_server_flags(etcd_url: str, port: int, pki: Path, serving: KeyPair, tokens: KeyPair) -> list[str]:
    """RBAC is on, anonymous requests are refused."""
    return [
        f"--etcd-servers={etcd_url}",
        f"--secure-port={port}",
        f"--cert-dir={pki}",
        f"--client-ca-file={pki / 'ca.crt'}",
        f"--tls-cert-file={serving.certificate}",
        f"--tls-private-key-file={serving.key}",
        "--anonymous-auth=false",
        "--authorization-mode=Node,RBAC",
        "--enable-admission-plugins=NodeRestriction",
        "--allow-privileged=true",
        f"--service-account-issuer={ISSUER}",
        f"--service-account-key-file={tokens.certificate}",
        f"--service-account-signing-key-file={tokens.key}",
        f"--service-cluster-ip-range={SERVICES}",
        "--profiling=false",
    ]


def loopback_flags() -> list[str]:
    """For an API server on loopback. That may not be an endpoint's address, so the Service `kubernetes` has none."""
    return [f"--bind-address={LOOPBACK}", "--endpoint-reconciler-type=none"]


def machine_flags(address: str, pki: Path, kubelet_client: KeyPair) -> list[str]:
    """For an API server in a machine that pods and kubelets reach; it asks kubelets for logs, as this client."""
    return [
        "--bind-address=0.0.0.0",
        f"--advertise-address={address}",
        "--kubelet-preferred-address-types=InternalIP",
        f"--kubelet-certificate-authority={pki / 'ca.crt'}",
        f"--kubelet-client-certificate={kubelet_client.certificate}",
        f"--kubelet-client-key={kubelet_client.key}",
    ]


def audit_flags(folder: Path, log: Path) -> list[str]:
    """One line of JSON for each request that was answered; writes the policy that says so into the folder."""
    policy = folder / "audit-policy.json"
    policy.write_text(json.dumps(AUDIT_POLICY))
    return [f"--audit-policy-file={policy}", f"--audit-log-path={log}", "--audit-log-mode=blocking"]


def controller_flags(kubeconfig: Path, pki: Path, tokens: KeyPair) -> list[str]:
    """By default its clients may ask so seldom that it needs five seconds for its first service account."""
    return [
        f"--kubeconfig={kubeconfig}",
        "--leader-elect=false",
        "--secure-port=0",
        f"--root-ca-file={pki / 'ca.crt'}",
        f"--service-account-private-key-file={tokens.key}",
        "--use-service-account-credentials",
        f"--controllers={CONTROLLERS}",
        "--kube-api-qps=500",
        "--kube-api-burst=1000",
        "--profiling=false",
    ]
