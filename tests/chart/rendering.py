"""The chart as Helm renders it, and what it refuses; no cluster is asked."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

import pytest
import yaml

from tools.chart_linters import ToolMissing, find_tool

if TYPE_CHECKING:
    from collections.abc import Iterator

CHART = Path(__file__).resolve().parents[2] / "charts" / "wakeboard"
Document: TypeAlias = dict[str, Any]


class NotRendered(Exception):
    """The message is Helm's output."""


def helm() -> str:
    """The program; without it the test fails in CI and is skipped elsewhere."""
    try:
        return str(find_tool("helm"))
    except ToolMissing as missing:
        if os.environ.get("CI"):
            raise
        pytest.skip(str(missing))


def rendered(
    values: Document, *words: str, release: str = "wakeboard", namespace: str = "jobs", chart: Path = CHART
) -> list[Document]:
    """The documents that `helm template` prints; raises NotRendered. The database is a URL unless values say so."""
    if not {"database", "devDatabase"} & values.keys():
        values = {**values, "database": {"url": "postgresql://u:p@host/db"}}
    command = [helm(), "template", release, str(chart), "--namespace", namespace, "--values", "-", *words]
    answer = subprocess.run(command, input=json.dumps(values), capture_output=True, text=True, check=False)
    if answer.returncode:
        raise NotRendered(answer.stderr.strip())
    return [document for document in yaml.safe_load_all(answer.stdout) if document]


def named(documents: list[Document], kind: str, name: str) -> Document:
    """The one of that kind and name."""
    found = [each for each in documents if (each["kind"], each["metadata"]["name"]) == (kind, name)]
    assert len(found) == 1, [f"{each['kind']}/{each['metadata']['name']}" for each in documents]
    return found[0]


def pod_specs(documents: list[Document]) -> Iterator[tuple[str, Document]]:
    """Every pod that the documents lead to, by `Kind/name`."""
    for document in documents:
        spec = document.get("spec", {})
        match document["kind"]:
            case "Pod":
                found = spec
            case "Deployment" | "StatefulSet" | "Job":
                found = spec["template"]["spec"]
            case "CronJob":
                found = spec["jobTemplate"]["spec"]["template"]["spec"]
            case _:
                continue
        yield f"{document['kind']}/{document['metadata']['name']}", found


def environment(container: Document) -> dict[str, str]:
    """Its variables that have a text for a value."""
    return {each["name"]: each["value"] for each in container.get("env", []) if "value" in each}
