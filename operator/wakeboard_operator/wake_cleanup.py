"""Removes the Jobs of wakes whose pods did not start in time, so that pods do not accumulate.

A CronJob creates a pod each minute, even while others run. If no pod can start (no node has capacity, an image or a
Secret is missing), the pods accumulate, because a Job's own deadline is as long as the longest run. The chart
annotates each Job with the time within which its pod must start, and the leading operator deletes Jobs that exceed it.
A Job with a running pod is never deleted. A Job whose pod was evicted and waits for a node may be: the CronJob creates
the next one within a minute.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, Final, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

START_DEADLINE: Final = "wakeboard.dev/start-deadline-seconds"
"""Annotation of the Job: seconds from its creation within which its pod must start. Absent: no limit."""

WORKERS: Final = "app.kubernetes.io/component=worker,app.kubernetes.io/part-of=wakeboard"


class JobName(NamedTuple):
    """One Job; the uid distinguishes it from a later one of the same name."""

    name: str
    uid: str


def not_started_in_time(jobs: Iterable[Mapping[str, Any]], now: datetime) -> list[JobName]:
    """The Jobs (as the API server lists them) that have passed their start deadline and of which no pod has started.

    `status.ready` counts running pods. A pod that has ended is counted in `succeeded`, `failed` or
    `uncountedTerminatedPods`, and a Job that has ended has a condition.
    """
    found: list[JobName] = []
    for job in jobs:
        metadata: Mapping[str, Any] = job["metadata"]
        annotations: Mapping[str, str] = metadata.get("annotations") or {}
        deadline = annotations.get(START_DEADLINE, "")
        if not deadline.isdecimal() or metadata.get("deletionTimestamp") or _has_started(job.get("status") or {}):
            continue
        created = datetime.fromisoformat(metadata["creationTimestamp"]).astimezone(UTC)
        if now > created + timedelta(seconds=min(int(deadline), 10**9)):
            found.append(JobName(metadata["name"], metadata["uid"]))
    return found


def _has_started(status: Mapping[str, Any]) -> bool:
    uncounted: Mapping[str, Any] = status.get("uncountedTerminatedPods") or {}
    counts = (status.get(name) for name in ("ready", "succeeded", "failed", "conditions"))
    return any(counts) or any(uncounted.values())
