"""The API server accepts every manifest of the project, to the last field (a dry run)."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
import yaml

from testbed.cluster.cluster import Refused
from tests.chart.rendering import CHART, helm

if TYPE_CHECKING:
    from testbed.cluster.cluster import Cluster

ROOT = Path(__file__).resolve().parents[2]
VALUES = sorted((CHART / "ci").glob("*-values.yaml"))
MANIFESTS = sorted(
    path
    for folder in ("crds", "deploy", "examples")
    for path in (ROOT / folder).rglob("*.yaml")
    if "kind:" in path.read_text()  # the others are patches
    # `wakeboard up` reads the first two; CloudNativePG's definition is another project's.
    if not re.search(r"kind: (Limits|AlertRules|Cluster)\b", path.read_text())
)
# Not Kubernetes' own: their definitions are another project's, and this API server does not know them.
FOREIGN = (
    "HTTPRoute",
    "PodMonitor",
    "PrometheusRule",
    "ScaledJob",
    "ScaledObject",
    "ServiceMonitor",
    "TriggerAuthentication",
)
MISSPELT = """
apiVersion: wakeboard.dev/v1alpha1
kind: JobSchedule
metadata: {name: greet}
spec: {jobType: ping, cron: ["* * * * *"], shedule: daily}
"""

# This API server has one family of addresses, and Kubernetes' own priority classes.
POSSIBLE = (
    "--set=operator.podTemplate.spec.priorityClassName=system-cluster-critical,board.podTemplate.spec.priorityClassName=system-cluster-critical",
    '--set-json=operator.service.ipFamilies=["IPv4"]',
    '--set-json=board.service.ipFamilies=["IPv4"]',
)

pytestmark = pytest.mark.usefixtures("crds")


def apply_without_effect(cluster: Cluster, namespace: str, manifest: str) -> None:
    """Applies the documents in this namespace without effect. Raises Refused for unknown fields, too."""
    documents = [each for each in yaml.safe_load_all(manifest) if each and each["kind"] not in FOREIGN]
    assert documents
    for document in documents:
        document["metadata"].pop("namespace", None)
        if document["kind"] == "ServiceAccount":  # a pod is refused without its account, so that one is created
            cluster.apply(document, namespace=namespace)
    cluster.apply(*documents, namespace=namespace, options="dryRun=All")


@pytest.mark.parametrize("values", VALUES, ids=lambda path: path.name.removesuffix("-values.yaml"))
def test_every_rendering_of_the_chart_is_valid(control_plane: Cluster, namespace: str, values: Path):
    command = [helm(), "template", "wakeboard", str(CHART), "--values", str(values), *POSSIBLE]
    made = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    apply_without_effect(control_plane, namespace, made)


@pytest.mark.parametrize("manifest", MANIFESTS, ids=lambda path: str(path.relative_to(ROOT)))
def test_every_manifest_of_the_project_is_valid(control_plane: Cluster, namespace: str, manifest: Path):
    apply_without_effect(control_plane, namespace, manifest.read_text())


def test_a_misspelt_field_is_found(control_plane: Cluster, namespace: str):
    with pytest.raises(Refused, match="field not declared"):
        apply_without_effect(control_plane, namespace, MISSPELT)


def test_the_chart_has_example_values():
    assert VALUES
