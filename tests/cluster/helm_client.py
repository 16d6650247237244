"""Helm and kubectl for the chart on a cluster without nodes: all objects are created, but no pod runs."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from testbed.cluster.release import Helm
from tests.chart.rendering import CHART, helm

if TYPE_CHECKING:
    from pathlib import Path

    from testbed.cluster.cluster import Cluster

WORKLOADS = "deployments,statefulsets,cronjobs,jobs,pods,services,secrets,serviceaccounts,poddisruptionbudgets"
RIGHTS = "roles,rolebindings,networkpolicies,ingresses"
CLUSTER_WIDE = "clusterroles,clusterrolebindings"
REVIEWS = "/apis/authorization.k8s.io/v1/subjectaccessreviews"
RELEASE = "app.kubernetes.io/instance"


class HelmClient(Helm):
    """Helm and kubectl in one namespace. Skips the test if Helm is not installed, except in CI."""

    def __init__(self, cluster: Cluster, namespace: str = "jobs") -> None:
        helm()
        super().__init__(cluster, namespace)

    def install(self, release: str, *words: str, chart: Path = CHART, **values: Any) -> str:
        """`helm install`, which makes the namespace too; the notes."""
        return self.helm("install", release, chart, "--create-namespace", *words, values=values)

    def upgrade(self, release: str, *words: str, **values: Any) -> str:
        """`helm upgrade` with these values alone."""
        return self.helm("upgrade", release, CHART, *words, values=values)

    def template(self, release: str, *words: str, **values: Any) -> str:
        """What `helm template` prints."""
        return self.helm("template", release, CHART, *words, values=values)

    def uninstall(self, release: str) -> str:
        """`helm uninstall`."""
        return self.helm("uninstall", release)

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
        """Whether a service account of this namespace may do that in that namespace.

        `resource`: a kind and its group, `namespaces/NAME`, or with a subresource `jobschedules.wakeboard.dev/status`.
        """
        kind, _, part = resource.partition("/")
        name, _, group = kind.partition(".")
        asked = {"verb": verb, "resource": name, "group": group, "namespace": namespace}
        asked["name" if kind == "namespaces" else "subresource"] = part
        accounts = "system:serviceaccounts"
        review = {
            "user": f"system:serviceaccount:{self.namespace}:{account}",
            "groups": [accounts, f"{accounts}:{self.namespace}", "system:authenticated"],
            "resourceAttributes": asked,
        }
        return self.cluster.call("POST", REVIEWS, {"spec": review})["status"]["allowed"]
