"""What the parts of a control plane are told at their start."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

    from tests.cluster.certificates import Pair

LOOPBACK = "127.0.0.1"
SERVICES = "10.96.0.0/16"
API_SERVER_HOSTS = (LOOPBACK, "localhost", "10.96.0.1", "kubernetes", "kubernetes.default", "kubernetes.default.svc")
ISSUER = "https://kubernetes.default.svc.cluster.local"
# The others need a cloud.
CONTROLLERS = "*,-node-ipam-controller,-node-route-controller,-cloud-node-lifecycle-controller,-service-lb-controller"
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


def api_server_flags(etcd_url: str, port: int, pki: Path, serving: Pair, tokens: Pair) -> list[str]:
    """RBAC, nobody anonymous. A loopback address may not be an endpoint, so the Service `kubernetes` has none."""
    return [
        f"--etcd-servers={etcd_url}",
        f"--bind-address={LOOPBACK}",
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
        "--endpoint-reconciler-type=none",
        "--profiling=false",
    ]


def audit_flags(folder: Path, log: Path) -> list[str]:
    """One line of JSON for each request that was answered; writes the policy that says so into the folder."""
    policy = folder / "audit-policy.json"
    policy.write_text(json.dumps(AUDIT_POLICY))
    return [f"--audit-policy-file={policy}", f"--audit-log-path={log}", "--audit-log-mode=blocking"]


def controller_flags(kubeconfig: Path, pki: Path, tokens: Pair) -> list[str]:
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
