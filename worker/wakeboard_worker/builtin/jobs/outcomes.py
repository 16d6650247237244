"""The result of a Job that has succeeded, and the error of one that has not. Pure functions of what was observed."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final

from wakeboard.errors import Discard, TimedOut

if TYPE_CHECKING:
    from collections.abc import Iterable

    from wakeboard_worker.builtin.jobs.observed import ObservedContainer, ObservedJob, ObservedPod

SHOWN_CHARACTERS: Final = 1_200  # of the log, in errors
# A container that waits for one of these may start later, but usually a user has to change something first.
STUCK: Final = frozenset(
    {
        *("ImagePullBackOff", "ErrImagePull", "InvalidImageName", "ErrImageNeverPull", "RegistryUnavailable"),
        *("ImageInspectError", "CreateContainerConfigError", "CreateContainerError", "RunContainerError"),
        *("CrashLoopBackOff", "StartError"),
    }
)


class JobFailed(Exception):
    """The Job did not succeed. The run is retried with its backoff."""


class OOMKilled(JobFailed):
    """A container needed more memory than its limit."""


class PodDisrupted(JobFailed):
    """The cluster ended the pod: evicted, preempted, or its node is gone."""


class PodNotStarted(JobFailed):
    """The pod, or one of its containers, did not start."""


class ImagePullBackOff(PodNotStarted):
    """The image cannot be pulled."""


class FailedScheduling(PodNotStarted):
    """No node takes the pod. The message is the scheduler's."""


class JobDeleted(JobFailed):
    """A user deleted the Job."""


class JobRefused(JobFailed):
    """The API server refused the Job or its pods: a quota, an admission policy, missing rights, or an invalid spec."""


class CronJobMissing(JobFailed):
    """There is no such CronJob in the schedule's namespace."""


def main_pod(pods: Iterable[ObservedPod], ended: str) -> ObservedPod | None:
    """The pod that decided: of a Job that is Complete one that succeeded, of one that is Failed one that failed.

    Else the newest. Pods that failed in a disruption, or that the podFailurePolicy ignored, have a successor.
    """

    def decided(pod: ObservedPod) -> bool:
        if ended == "Failed":
            return pod.phase == "Failed" and not pod.disruption
        return ended == "Complete" and pod.phase == "Succeeded"

    return max(pods, key=lambda pod: (decided(pod), pod.created_at), default=None)


def result_of(job: ObservedJob, pod: ObservedPod | None, log: str) -> Any:
    """The termination message if it is JSON, else the exit code and the end of the log."""
    own = _own_result(job, pod)
    return own[0] if own else {"exit_code": 0, "output": log}


def _own_result(job: ObservedJob, pod: ObservedPod | None) -> tuple[Any] | None:
    """The termination message, if it is JSON."""
    container = pod.container(job.container) if pod else None
    try:
        return (json.loads(container.message),) if container is not None and container.message else None
    except (ValueError, RecursionError):
        return None


def wants_log(job: ObservedJob, pod: ObservedPod | None) -> bool:
    """Whether the outcome of an ended Job shows the log."""
    return job.ended != "Complete" or _own_result(job, pod) is None


def error_of(job: ObservedJob, pod: ObservedPod | None, log: str) -> Exception:
    """The error of a Job that has failed. Discard: a rule `FailJob` of its podFailurePolicy wants no retry."""
    if job.reason == "DeadlineExceeded":
        deadline = f"its deadline of {job.deadline_s} s" if job.deadline_s else "its deadline"
        return TimedOut(_text(f"the Job ran longer than {deadline}", pod, log))
    if job.reason == "PodFailurePolicy":
        return Discard(_text(f"podFailurePolicy: {job.message or 'a rule FailJob'}", pod, log))
    if pod is None:
        return JobFailed(f"the Job {job.name} failed: {job.message or job.reason or 'no pod is left'}")
    if pod.disruption or pod.reason in ("Evicted", "Preempting", "NodeLost", "Shutdown", "Terminated"):
        why = ": ".join(part for part in (pod.reason, pod.message or pod.disruption) if part)
        return PodDisrupted(_text(why, pod, log))
    failed = next((each for each in pod.containers if each.exit_code), None)
    if failed is not None:
        kind = OOMKilled if failed.reason == "OOMKilled" else JobFailed
        return kind(_text(_how_it_ended(failed, job.container), pod, log))
    return JobFailed(_text(pod.message or job.message or job.reason or "its pod failed", pod, log))


def start_error(pod: ObservedPod | None, refusal: str, patience: str) -> PodNotStarted | JobRefused:
    """The error of a Job whose pod has not started. `refusal`: why the cluster created none; `patience`: after when."""
    if pod is None and refusal:
        return JobRefused(refusal)
    if pod is None:
        return PodNotStarted(f"the Job got no pod {patience}")
    if pod.unschedulable:
        return FailedScheduling(f"{pod.unschedulable} (pod {pod.name}, {patience})")
    if (container := stuck_container(pod)) is not None:
        why = f"{container.reason}: {container.message}".rstrip(": ")
        kind = ImagePullBackOff if "Image" in container.reason else PodNotStarted
        return kind(f"{why} (container {container.name} of pod {pod.name} on node {pod.node}, {patience})")
    where = f" on node {pod.node}" if pod.node else ""
    return PodNotStarted(f"the pod {pod.name}{where} has not started {patience}")


def stuck_container(pod: ObservedPod) -> ObservedContainer | None:
    """A container that waits for what usually a user has to change."""
    return next((each for each in pod.containers if each.exit_code is None and each.reason in STUCK), None)


def started(pod: ObservedPod, container: str) -> bool:
    """Whether the main container has started."""
    found = pod.container(container)
    return pod.ended or (found is not None and (found.started_at is not None or found.exit_code is not None))


def _how_it_ended(container: ObservedContainer, main: str) -> str:
    code = f"exit code {container.exit_code}"
    reason = f"{container.reason}, {code}" if container.reason not in ("", "Error", "Completed") else code
    where = "" if container.name == main else f" of container {container.name}"
    return f"{reason}{where}: {container.message}".rstrip(": ")


def _text(what: str, pod: ObservedPod | None, log: str) -> str:
    where = f" (pod {pod.name}{f' on node {pod.node}' if pod.node else ''})" if pod else ""
    return f"{what}{where}\n{log[-SHOWN_CHARACTERS:].strip()}".strip()
