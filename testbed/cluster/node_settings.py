"""Settings of the node's components, and the objects of cluster DNS.

The node runs in an isolated machine, so fixed paths and ports cannot collide. JSON is valid as their YAML.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pathlib import Path

NAME = "node"
PODS = "10.244.0.0/16"
DNS_SERVICE = "10.96.0.10"
SOCKET = "/run/containerd.sock"
PAUSE = "localhost/pause:1"
NETWORK_PLUGINS = "/usr/lib/cni"
DNS_USER = "system:coredns"

CONTAINERD = """\
version = 2
root = "{folder}/containerd"
state = "/run/containerd"
disabled_plugins = [
  "io.containerd.snapshotter.v1.aufs",
  "io.containerd.snapshotter.v1.btrfs",
  "io.containerd.snapshotter.v1.devmapper",
  "io.containerd.snapshotter.v1.zfs",
  "io.containerd.internal.v1.tracing",
  "io.containerd.tracing.processor.v1.otlp",
]
[grpc]
  address = "{socket}"
[plugins."io.containerd.grpc.v1.cri"]
  sandbox_image = "{pause}"
  # Root in a container may not be allowed to protect a process from the kernel's choice when memory is short.
  restrict_oom_score_adj = true
  [plugins."io.containerd.grpc.v1.cri".cni]
    bin_dir = "{network_plugins}"
    conf_dir = "{folder}/cni"
  [plugins."io.containerd.grpc.v1.cri".containerd]
    snapshotter = "overlayfs"
    default_runtime_name = "runc"
    [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc]
      runtime_type = "io.containerd.runc.v2"
      [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc.options]
        SystemdCgroup = false
"""
# `template` goes before `kubernetes` where both are in one block, and would answer for the cluster too.
COREFILE = """\
cluster.local:53 in-addr.arpa:53 {{
  bind {address}
  errors
  kubernetes cluster.local in-addr.arpa {{
    kubeconfig {login} test
    pods insecure
    ttl 1
  }}
}}
.:53 {{
  bind {address}
  template ANY ANY {{
    rcode NXDOMAIN
  }}
}}
"""


def write_containerd_settings(folder: Path) -> Path:
    """Also the network's. Each pod has a link of its own, so that every packet is routed, and can be filtered."""
    network: dict[str, Any] = {
        "cniVersion": "0.4.0",
        "name": "pods",
        "plugins": [
            {
                "type": "ptp",
                "ipMasq": False,
                "ipam": {
                    "type": "host-local",
                    "ranges": [[{"subnet": PODS}]],
                    "routes": [{"dst": "0.0.0.0/0"}],
                    "dataDir": "/run/cni",
                },
            },
            {"type": "portmap", "capabilities": {"portMappings": True}},
        ],
    }
    (folder / "cni").mkdir()
    (folder / "cni" / "10-pods.conflist").write_text(json.dumps(network))
    path = folder / "containerd.toml"
    path.write_text(CONTAINERD.format(folder=folder, socket=SOCKET, pause=PAUSE, network_plugins=NETWORK_PLUGINS))
    return path


def kubelet_flags(folder: Path, login: Path, address: str, cgroup: str) -> list[str]:
    """Writes its settings. Reserves nothing, and starts to evict pods only where a machine is nearly full."""
    pki, resolver = folder / "pki", folder / "resolv.conf"
    resolver.write_text(f"nameserver {DNS_SERVICE}\n")
    settings: dict[str, Any] = {
        "apiVersion": "kubelet.config.k8s.io/v1beta1",
        "kind": "KubeletConfiguration",
        "address": "0.0.0.0",
        "authentication": {
            "anonymous": {"enabled": False},
            "webhook": {"enabled": True, "cacheTTL": "2s"},
            "x509": {"clientCAFile": str(pki / "ca.crt")},
        },
        "authorization": {"mode": "Webhook"},
        "cgroupDriver": "cgroupfs",
        "cgroupRoot": cgroup,
        "clusterDNS": [DNS_SERVICE],
        "clusterDomain": "cluster.local",
        "containerRuntimeEndpoint": f"unix://{SOCKET}",
        "enforceNodeAllocatable": [],
        "eventRecordQPS": 100,
        "evictionHard": {"imagefs.available": "1%", "memory.available": "50Mi", "nodefs.available": "1%"},
        "failCgroupV1": False,
        "failSwapOn": False,
        "imageGCHighThresholdPercent": 100,
        "kubeAPIBurst": 200,
        "kubeAPIQPS": 100,
        "maxOpenFiles": 20_000,
        "oomScoreAdj": 0,
        "podLogsDir": "/var/log/pods",
        "registryPullQPS": 0,
        "resolvConf": str(resolver),
        "seccompDefault": True,
        "tlsCertFile": str(pki / "kubelet-server.crt"),
        "tlsPrivateKeyFile": str(pki / "kubelet-server.key"),
        "volumeStatsAggPeriod": "5s",  # an eviction for a full emptyDir waits for it
        "volumePluginDir": "/run/volume-plugins",
    }
    path = _write(folder / "kubelet.json", settings)
    return [
        f"--config={path}",
        f"--kubeconfig={login}",
        f"--cert-dir={pki}",
        f"--hostname-override={NAME}",
        f"--node-ip={address}",
    ]


def proxy_flags(folder: Path, login: Path) -> list[str]:
    """Writes its settings. It leaves the kernel's table of connections as large as it is."""
    settings: dict[str, Any] = {
        "apiVersion": "kubeproxy.config.k8s.io/v1alpha1",
        "kind": "KubeProxyConfiguration",
        "bindAddress": "0.0.0.0",
        "clientConnection": {"kubeconfig": str(login)},
        "clusterCIDR": PODS,
        "conntrack": {"maxPerCore": 0, "min": 0, "tcpCloseWaitTimeout": "0s", "tcpEstablishedTimeout": "0s"},
        "hostnameOverride": NAME,
        "iptables": {"minSyncPeriod": "0s"},
        "metricsBindAddress": "127.0.0.1:10249",
        "mode": "iptables",
    }
    return [f"--config={_write(folder / 'kube-proxy.json', settings)}"]


def scheduler_flags(login: Path) -> list[str]:
    """One scheduler needs no election."""
    return [f"--kubeconfig={login}", "--leader-elect=false", "--secure-port=0", "--profiling=false"]


def dns_flags(folder: Path, login: Path, address: str) -> list[str]:
    """Writes its settings. Names outside of the cluster do not exist."""
    path = folder / "Corefile"
    path.write_text(COREFILE.format(address=address, login=login))
    return ["-conf", str(path)]


def dns_objects(address: str) -> list[dict[str, Any]]:
    """The Service that pods ask, which leads to CoreDNS on the node, and what that one may read."""
    rbac = "rbac.authorization.k8s.io"
    read: list[dict[str, Any]] = [
        {"apiGroups": [""], "resources": ["namespaces", "pods", "services"], "verbs": ["list", "watch"]},
        {"apiGroups": ["discovery.k8s.io"], "resources": ["endpointslices"], "verbs": ["list", "watch"]},
    ]
    return [
        {"apiVersion": f"{rbac}/v1", "kind": "ClusterRole", "metadata": {"name": DNS_USER}, "rules": read},
        {
            "apiVersion": f"{rbac}/v1",
            "kind": "ClusterRoleBinding",
            "metadata": {"name": DNS_USER},
            "roleRef": {"apiGroup": rbac, "kind": "ClusterRole", "name": DNS_USER},
            "subjects": [{"apiGroup": rbac, "kind": "User", "name": DNS_USER}],
        },
        *service("kube-system", "kube-dns", {"dns": ("UDP", 53), "dns-tcp": ("TCP", 53)}, address, DNS_SERVICE),
    ]


def service(
    namespace: str, name: str, ports: dict[str, tuple[str, int]], address: str, cluster_address: str | None = None
) -> list[dict[str, Any]]:
    """A Service that leads out of the pods' network: to this address, on the same ports."""
    listed = [{"name": key, "protocol": protocol, "port": port} for key, (protocol, port) in ports.items()]
    labels = {"kubernetes.io/service-name": name, "endpointslice.kubernetes.io/managed-by": "tests"}
    return [
        {
            "apiVersion": "v1",
            "kind": "Service",
            "metadata": {"name": name, "namespace": namespace},
            "spec": {"ports": listed, **({"clusterIP": cluster_address} if cluster_address else {})},
        },
        {
            "apiVersion": "discovery.k8s.io/v1",
            "kind": "EndpointSlice",
            "metadata": {"name": f"{name}-outside", "namespace": namespace, "labels": labels},
            "addressType": "IPv4",
            "endpoints": [{"addresses": [address], "conditions": {"ready": True}}],
            "ports": listed,
        },
    ]


def _write(path: Path, settings: dict[str, Any]) -> Path:
    path.write_text(json.dumps(settings, indent=2))
    return path
