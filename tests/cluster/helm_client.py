"""Helm and kubectl for the chart on a cluster without nodes: all objects are created, but no pod runs."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from testbed.cluster.cluster import Refused
from testbed.cluster.release import Helm
from tests.chart.rendering import CHART, helm

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from testbed.cluster.cluster import Cluster

CORE, APPS, BATCH, RBAC = "/api/v1", "/apis/apps/v1", "/apis/batch/v1", "/apis/rbac.authorization.k8s.io/v1"
NETWORK = "/apis/networking.k8s.io/v1"
KINDS = {  # of the chart's objects in a namespace, with the names of their collections
    "Deployment": f"{APPS} deployments",
    "StatefulSet": f"{APPS} statefulsets",
    "CronJob": f"{BATCH} cronjobs",
    "Job": f"{BATCH} jobs",
    "Pod": f"{CORE} pods",
    "Service": f"{CORE} services",
    "Secret": f"{CORE} secrets",
    "ServiceAccount": f"{CORE} serviceaccounts",
    "PodDisruptionBudget": "/apis/policy/v1 poddisruptionbudgets",
    "Role": f"{RBAC} roles",
    "RoleBinding": f"{RBAC} rolebindings",
    "NetworkPolicy": f"{NETWORK} networkpolicies",
    "Ingress": f"{NETWORK} ingresses",
}
MORE_KINDS = (f"{APPS} replicasets", f"{CORE} configmaps", f"{CORE} persistentvolumeclaims")
CLUSTER_WIDE = (f"{RBAC} clusterroles", f"{RBAC} clusterrolebindings")
REVIEWS = "/apis/authorization.k8s.io/v1/subjectaccessreviews"
RELEASE = "app.kubernetes.io/instance"
UNCHECKED = "--disable-openapi-validation"  # half of Helm's CPU; tests/cluster/test_chart_schemas.py is stricter


class HelmClient(Helm):
    """Helm and kubectl in one namespace. Skips the test if Helm is not installed, except in CI."""

    def __init__(self, cluster: Cluster, namespace: str = "jobs") -> None:
        helm()
        super().__init__(cluster, namespace)

    def install(self, release: str, *words: str, chart: Path = CHART, **values: Any) -> str:
        """`helm install`, which makes the namespace too; the notes."""
        return self.helm("install", release, chart, "--create-namespace", UNCHECKED, *words, values=values)

    def upgrade(self, release: str, *words: str, **values: Any) -> str:
        """`helm upgrade` with these values alone."""
        return self.helm("upgrade", release, CHART, UNCHECKED, *words, values=values)

    def template(self, release: str, *words: str, **values: Any) -> str:
        """What `helm template` prints."""
        return self.helm("template", release, CHART, *words, values=values)

    def uninstall(self, release: str) -> str:
        """`helm uninstall`."""
        return self.helm("uninstall", release)

    def names(self, release: str) -> set[str]:
        """What there is of a release in this namespace: `kind/name`. Not what controllers make of it."""
        return {
            f"{kind}/{each['metadata']['name']}"
            for kind, collection in KINDS.items()
            for each in self.labelled(collection, f"{RELEASE}={release}")
            if each["metadata"]["namespace"] == self.namespace and not each["metadata"].get("ownerReferences")
        }

    def labelled(self, collection: str, label: str) -> list[dict[str, Any]]:
        """The objects of all namespaces that have the label."""
        return self.cluster.call("GET", f"{collection.replace(' ', '/')}?labelSelector={quote(label)}")["items"]

    def delete_labelled(self, collections: Iterable[str], label: str) -> None:
        """Deletes the objects of all namespaces that have the label, without a wait for the ends of pods."""
        for collection in collections:
            group, _, plural = collection.partition(" ")
            for each in self.labelled(collection, label):
                about = each["metadata"]
                place = f"namespaces/{about['namespace']}/" if "namespace" in about else ""
                with suppress(Refused):  # a controller has deleted it
                    self.cluster.call("DELETE", f"{group}/{place}{plural}/{about['name']}", {"gracePeriodSeconds": 0})

    def get(self, kind: str, name: str) -> dict[str, Any]:
        """One object."""
        group, _, plural = KINDS[kind].partition(" ")
        return self.cluster.call("GET", f"{group}/namespaces/{self.namespace}/{plural}/{name}")

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
