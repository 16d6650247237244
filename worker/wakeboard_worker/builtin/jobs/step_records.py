"""What the steps `Job N`, `Job N scheduled`, `Job N started` and `Job N ended` record of a Job.

`wakeboard/jobs/rules.py` reads these records for the page of the run. Times are text in UTC, to the second;
None: the cluster has not reported it.
"""

from __future__ import annotations

from datetime import UTC
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from datetime import datetime

    from wakeboard_worker.builtin.jobs.observed import ObservedJob, ObservedPod


def creation_record(job: ObservedJob) -> dict[str, Any]:
    """The Job that was created or adopted, and the command that prints its log."""
    logs = f"kubectl logs --namespace {job.namespace} job/{job.name} --container {job.container}"
    return {"namespace": job.namespace, "job": job.name, "uid": job.uid, "at": _text(job.created_at), "logs": logs}


def scheduling_record(pod: ObservedPod) -> dict[str, Any]:
    """The node of the pod."""
    return {"pod": pod.name, "node": pod.node, "at": _text(pod.scheduled_at)}


def start_record(pod: ObservedPod, job: ObservedJob) -> dict[str, Any]:
    """The start of the main container."""
    container = pod.container(job.container)
    return {"pod": pod.name, "node": pod.node, "at": _text(container.started_at if container else None)}


def end_record(job: ObservedJob, pod: ObservedPod | None) -> dict[str, Any]:
    """The outcome of the Job, and the exit code of the main container if the last pod is known."""
    facts: dict[str, Any] = {"outcome": job.ended, "at": _text(job.ended_at)}
    if pod is not None:
        container = pod.container(job.container)
        facts |= {"pod": pod.name, "node": pod.node, "exit_code": container.exit_code if container else None}
    return facts


def _text(at: datetime | None) -> str | None:
    return at.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ") if at else None
