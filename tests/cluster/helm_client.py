"""Helm and kubectl for the chart on a cluster without nodes: all objects are created, but no pod runs."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from testbed.cluster.cluster import Refused
from testbed.cluster.release import run_helm
from tests.chart.rendering import CHART, helm

if TYPE_CHECKING:
    from pathlib import Path

    from testbed.cluster.cluster import Cluster

WORKLOADS = "deployments,statefulsets,cronjobs,jobs,pods,services,secrets,serviceaccounts,poddisruptionbudgets"
RIGHTS = "roles,rolebindings,networkpolicies"
CLUSTER_WIDE = "clusterroles,clusterrolebindings"
RELEASE = "app.kubernetes.io/instance"


class HelmClient:
    """Helm and kubectl in one namespace."""

    def __init__(self, cluster: Cluster, namespace: str = "jobs") -> None:
        self.cluster, self.namespace = cluster, namespace

    def helm(self, *words: str | Path, stdin: str | None = None) -> str:
        """Helm in this namespace. Skips the test if Helm is not installed, except in CI."""
        helm()
        return run_helm(self.cluster, self.namespace, *words, stdin=stdin)

    def install(self, release: str, *words: str, chart: Path = CHART, **values: Any) -> str:
        """`helm install`, which makes the namespace too; the notes."""
        return self._with_values(values, "install", release, chart, "--create-namespace", *words)

    def upgrade(self, release: str, *words: str, **values: Any) -> str:
        """`helm upgrade` with these values alone."""
        return self._with_values(values, "upgrade", release, CHART, *words)

    def template(self, release: str, *words: str, **values: Any) -> str:
        """What `helm template` prints."""
        return self._with_values(values, "template", release, CHART, *words)

    def uninstall(self, release: str) -> str:
        """`helm uninstall`."""
        return self.helm("uninstall", release)

    def kubectl(self, *words: str, stdin: str | None = None) -> str:
        """The same in this namespace."""
        return self.cluster.kubectl("--namespace", self.namespace, *words, stdin=stdin)

    def names(self, release: str, kinds: str = f"{WORKLOADS},{RIGHTS}") -> set[str]:
        """What there is of a release in this namespace: `kind/name`. Not what controllers make of it."""
        found = json.loads(self.kubectl("get", kinds, "-l", f"{RELEASE}={release}", "-o", "json"))["items"]
        return {
            f"{each['kind']}/{each['metadata']['name']}"
            for each in found
            if not each["metadata"].get("ownerReferences")
        }

    def get(self, kind: str, name: str) -> dict[str, Any]:
        """One object."""
        return json.loads(self.kubectl("get", kind, name, "-o", "json"))

    def may(self, account: str, verb: str, resource: str, namespace: str) -> bool:
        """Whether a service account of this namespace may do that in that namespace."""
        who = f"--as=system:serviceaccount:{self.namespace}:{account}"
        part = ["--subresource=status"] if resource.endswith("/status") else []
        words = ["auth", "can-i", verb, resource.removesuffix("/status"), *part]
        try:
            self.cluster.kubectl(*words, f"--namespace={namespace}", who)
        except Refused:
            return False
        return True

    def _with_values(self, values: dict[str, Any], *words: str | Path) -> str:
        return self.helm(*words, "--values", "-", stdin=json.dumps(values))
