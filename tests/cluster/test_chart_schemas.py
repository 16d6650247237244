"""What the project hands to a cluster is what that cluster's own schemas describe, to the last field."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.cluster.openapi_schemas import write_schemas
from tools.chart_linters import ToolMissing, find_tool

if TYPE_CHECKING:
    from testbed.cluster.cluster import Cluster

ROOT = Path(__file__).resolve().parents[2]
CHART = ROOT / "charts" / "wakeboard"
VALUES = sorted((CHART / "ci").glob("*-values.yaml"))
MANIFESTS = sorted(
    path
    for folder in ("crds", "deploy", "examples")
    for path in (ROOT / folder).rglob("*.yaml")
    if "kind:" in path.read_text()  # the others are patches
)
# Not Kubernetes' own: their schemas are another project's, and this API server does not know them.
FOREIGN = "PodMonitor", "PrometheusRule", "ServiceMonitor"
MISSPELT = """
apiVersion: wakeboard.dev/v1alpha1
kind: JobSchedule
metadata: {name: greet}
spec: {jobType: ping, cron: ["* * * * *"], shedule: daily}
"""


@pytest.fixture(scope="module")
def schemas(control_plane: Cluster, crds: None, tmp_path_factory: pytest.TempPathFactory) -> str:
    return write_schemas(control_plane, tmp_path_factory.mktemp("schemas"), "JobSchedule")


def tool(name: str) -> str:
    """The program; without it the test fails in CI and is skipped elsewhere."""
    try:
        return str(find_tool(name))
    except ToolMissing as missing:
        if os.environ.get("CI"):
            raise
        pytest.skip(str(missing))


def judge(schemas: str, documents: str) -> subprocess.CompletedProcess[str]:
    words = ["-strict", "-verbose", "-schema-location", schemas, "-skip", ",".join(FOREIGN), "-"]
    command = [tool("kubeconform"), *words]
    return subprocess.run(command, input=documents, capture_output=True, text=True, check=False, timeout=60)


@pytest.mark.parametrize("values", VALUES, ids=lambda path: path.name.removesuffix("-values.yaml"))
def test_what_the_chart_makes_is_valid(schemas: str, values: Path):
    command = [tool("helm"), "template", "wakeboard", str(CHART), "--namespace", "shop", "-f", str(values)]
    made = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    answer = judge(schemas, made)
    assert answer.returncode == 0, answer.stdout + answer.stderr
    assert "is valid" in answer.stdout


@pytest.mark.parametrize("manifest", MANIFESTS, ids=lambda path: str(path.relative_to(ROOT)))
def test_every_manifest_of_the_project_is_valid(schemas: str, manifest: Path):
    answer = judge(schemas, manifest.read_text())
    assert answer.returncode == 0, answer.stdout + answer.stderr
    assert "is valid" in answer.stdout


def test_a_misspelt_field_is_found(schemas: str):
    answer = judge(schemas, MISSPELT)
    assert "shedule" in answer.stdout
    assert answer.returncode == 1


def test_the_chart_has_values_to_be_tried():
    assert VALUES
