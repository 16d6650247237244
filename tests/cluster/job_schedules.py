"""JobSchedules as documents, and what the API server says to them."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from tests.cluster.cluster import Refused

if TYPE_CHECKING:
    from tests.cluster.cluster import Cluster


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


def refusals(cluster: Cluster, document: dict[str, Any]) -> list[str]:
    """Why the API server would not create this, a sentence for each reason, field first; empty if it would."""
    try:
        cluster.call("POST", path("default") + "?dryRun=All&fieldValidation=Strict", document)
    except Refused as refused:
        status = json.loads(str(refused))
        causes = status.get("details", {}).get("causes", [{"field": "", "message": status["message"]}])
        return [f"{cause['field']}: {cause['message']}" for cause in causes]
    return []
