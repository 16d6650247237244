"""Removes the Jobs of waking workers whose pods did not start in time, so that they do not pile up.

A CronJob makes a pod each minute, side by side with those that still run. Where no pod can start (no room on any node,
an image or a Secret that is missing), each minute adds one more, and a Job's own deadline is as long as the longest
run. The chart writes into each Job how long its pod may take to start; the leading operator removes what is over it.
A Job with a running pod is never removed here. One whose pod was evicted and waits for a node again may be: the CronJob
makes the next one within a minute.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, Final, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

START_DEADLINE: Final = "wakeboard.dev/start-deadline-seconds"
"""The Job's annotation: within how many seconds of its creation its pod has to start. Absent: at any time."""

WORKER_JOBS: Final = "app.kubernetes.io/component=worker,app.kubernetes.io/part-of=wakeboard"


class JobName(NamedTuple):
    """One Job, and no later one of the same name."""

    name: str
    uid: str


def not_started_in_time(jobs: Iterable[Mapping[str, Any]], now: datetime) -> list[JobName]:
    """The Jobs (as the API server lists them) whose start deadline has passed while none of their pods runs or ran.

    `status.ready` counts pods that run; a pod that ran and ended is counted in `succeeded`, `failed` or
    `uncountedTerminatedPods`, and a Job that is over has a condition.
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
