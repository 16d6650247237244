"""JobSchedule documents, their definitions, and how the API server refuses them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

from testbed.cluster.cluster import Refused

if TYPE_CHECKING:
    from testbed.cluster.cluster import Cluster

CRDS = Path(__file__).resolve().parents[2] / "crds"
DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"


def install_crds(cluster: Cluster) -> None:
    """Applies every file in crds/, and returns when the API server serves them."""
    cluster.kubectl("apply", "--server-side", "-f", str(CRDS))
    wait_until_served(cluster)


def wait_until_served(cluster: Cluster) -> None:
    """Returns when the API server serves JobSchedules; `kubectl wait` fails while a definition has no conditions."""

    def served(definitions: list[Any]) -> bool:
        return any(
            each["type"] == "Established" and each["status"] == "True"
            for definition in definitions
            for each in definition.get("status", {}).get("conditions") or ()
        )

    cluster.wait_for(f"{DEFINITIONS}?fieldSelector=metadata.name%3Djobschedules.wakeboard.dev", served)


def job_schedule(name: str = "report", **spec: Any) -> dict[str, Any]:
    """The smallest JobSchedule, with `spec` on top."""
    return {
        "apiVersion": "wakeboard.dev/v1alpha1",
        "kind": "JobSchedule",
        "metadata": {"name": name},
        "spec": {"jobType": "ping", **spec},
    }


def path(namespace: str, name: str = "") -> str:
    """Where the API server serves the schedules of a namespace, or one of them."""
    return f"/apis/wakeboard.dev/v1alpha1/namespaces/{namespace}/jobschedules{'/' * bool(name)}{name}"


def refusals(cluster: Cluster, document: dict[str, Any], namespace: str = "default") -> list[str]:
    """Why the API server would not create this, a sentence for each reason, field first; empty if it would."""
    try:
        cluster.call("POST", path(namespace) + "?dryRun=All&fieldValidation=Strict", document)
    except Refused as refused:
        status = json.loads(str(refused))
        causes = status.get("details", {}).get("causes", [{"field": "", "message": status["message"]}])
        return [f"{cause.get('field', '')}: {cause['message']}" for cause in causes]
    return []
