"""Which worker processes have certainly ended, by what a kubelet wrote into their pods.

The statuses are those of a real node (tests/cluster/test_worker_terminations.py runs the same cases), shortened.
"""

from __future__ import annotations

from typing import Any, Final

import pytest

from wakeboard_operator.terminations import MAX_DETAIL, MAX_WORKERS, Termination, terminations

POD: Final = "wake-default-29387-x7kqz"
UID: Final = "7ae459a2-ab13-494a-895c-5189046d5920"
MESSAGE: Final = "wakeboard worker 7001\n"
LIMIT: Final = 'Usage of EmptyDir volume "data" exceeds the limit "1Mi". '
DELETED_AT: Final = {"deletionTimestamp": "2026-11-22T13:37:57Z", "deletionGracePeriodSeconds": 1}
RUNNING: Final = {"running": {"startedAt": "2026-11-22T13:37:51Z"}}
CREATING: Final = {"waiting": {"reason": "ContainerCreating"}}
BACK_OFF: Final = {
    "waiting": {
        "reason": "CrashLoopBackOff",
        "message": "back-off 10s restarting failed container=worker pod=wake_default(7ae459a2)",
    }
}
EVICTION_API: Final = ("EvictionByEvictionAPI", "Eviction API: evicting")
PREEMPTION: Final = ("PreemptionByScheduler", "default-scheduler: preempting to accommodate a higher priority pod")
TAINT: Final = ("DeletionByTaintManager", "Taint manager: deleting due to NoExecute taint")
POD_GC: Final = ("DeletionByPodGC", "PodGC: node no longer exists")
BY_KUBELET: Final = ("TerminationByKubelet", "The node was low on resource: memory. ")


def ended(code: int, reason: str, message: str = MESSAGE) -> dict[str, Any]:
    """The state of a container that has ended."""
    times = {"startedAt": "2026-11-22T13:37:44Z", "finishedAt": "2026-11-22T13:37:46Z"}
    return {"terminated": {"exitCode": code, "reason": reason, "message": message, **times}}


def lost(when: str) -> dict[str, Any]:
    """The state of a container that the kubelet has removed, or lost sight of."""
    message = f"The container could not be located when the pod was {when}"
    unknown = {"startedAt": None, "finishedAt": None}
    return {"terminated": {"exitCode": 137, "reason": "ContainerStatusUnknown", "message": message, **unknown}}


def pod(
    state: dict[str, Any],
    last: dict[str, Any] | None = None,
    *,
    phase: str = "Running",
    why: tuple[str, str] | None = None,
    disruption: tuple[str, str] | None = None,
    metadata: dict[str, Any] | None = None,
) -> dict[str, Any]:
    """A pod with one container. `why`: reason and message of the pod; `disruption`: of the condition."""
    container = {"name": "worker", "state": state, "lastState": last or {}, "restartCount": int(bool(last))}
    status: dict[str, Any] = {"phase": phase, "containerStatuses": [container], "conditions": []}
    if why:
        status |= {"reason": why[0], "message": why[1]}
    if disruption:
        condition = {"type": "DisruptionTarget", "status": "True", "reason": disruption[0], "message": disruption[1]}
        status["conditions"].append(condition)
    return {"metadata": {"name": POD, "uid": UID, **(metadata or {})}, "status": status}


OOM: Final = ended(137, "OOMKilled")
KILLED: Final = ended(137, "Error")

CERTAIN: Final = {
    "OOM-killed": (pod(OOM), "OOMKilled", ""),
    "OOM-killed, the pod has failed": (pod(OOM, phase="Failed"), "OOMKilled", ""),
    "OOM-killed and running again": (pod(RUNNING, OOM), "OOMKilled", ""),
    "OOM-killed, waits for its restart": (pod(BACK_OFF, OOM), "OOMKilled", ""),
    "OOM-killed while it was deleted": (pod(OOM, metadata=DELETED_AT), "OOMKilled", ""),
    "exit code 1": (pod(ended(1, "Error"), phase="Failed"), "Error", "exit code 1"),
    "exit code 1 while it was deleted": (pod(ended(1, "Error"), metadata=DELETED_AT), "Error", "exit code 1"),
    "a segmentation fault": (pod(ended(139, "Error")), "Error", "exit code 139"),
    "SIGKILL to the container": (pod(KILLED, phase="Failed"), "Error", "exit code 137"),
    "SIGKILL to the container, running again": (pod(RUNNING, KILLED), "Error", "exit code 137"),
    "killed and then deleted": (pod(RUNNING, KILLED, metadata=DELETED_AT), "Error", "exit code 137"),
    "deleted, past the grace period": (pod(KILLED, phase="Failed", metadata=DELETED_AT), "Deleted", ""),
    "deleted, ended by SIGTERM": (pod(ended(143, "Error"), metadata=DELETED_AT), "Deleted", ""),
    "drained": (
        pod(KILLED, phase="Failed", disruption=EVICTION_API, metadata=DELETED_AT),
        *("Drained", "Eviction API: evicting"),
    ),
    "preempted": (
        pod(KILLED, phase="Failed", disruption=PREEMPTION, metadata=DELETED_AT),
        *("Preempted", PREEMPTION[1]),
    ),
    "deleted because of a taint": (
        pod(KILLED, phase="Failed", disruption=TAINT, metadata=DELETED_AT),
        *("Deleted", TAINT[1]),
    ),
    "the runtime has a message of its own": (
        pod(ended(128, "StartError", f"cannot stop: {MESSAGE}")),
        *("Error", "exit code 128"),
    ),
}
WHOLE_POD: Final = {
    "evicted, first status": (
        pod(CREATING, lost("deleted.  The container used to be Running"), phase="Failed", why=("Evicted", LIMIT)),
        *("Evicted", LIMIT.strip()),
    ),
    "evicted": (
        pod(lost("terminated"), lost("deleted"), phase="Failed", why=("Evicted", LIMIT), disruption=BY_KUBELET),
        *("Evicted", LIMIT.strip()),
    ),
    "preempted by the kubelet": (
        pod(lost("terminated"), phase="Failed", why=("Preempting", "Preempted in order to admit critical pod")),
        *("Preempted", "Preempted in order to admit critical pod"),
    ),
    "graceful shutdown of the node": (
        pod(
            lost("terminated"),
            phase="Failed",
            why=("Terminated", "Pod was terminated in response to imminent node shutdown."),
        ),
        *("NodeShutdown", "Pod was terminated in response to imminent node shutdown."),
    ),
    "past its activeDeadlineSeconds": (
        pod(lost("terminated"), phase="Failed", why=("DeadlineExceeded", "Pod was active on the node longer than")),
        *("Deleted", "Pod was active on the node longer than"),
    ),
}
NOT_CERTAIN: Final = {
    "it runs": pod(RUNNING),
    "it was deleted and runs": pod(RUNNING, metadata=DELETED_AT),
    "force-deleted: the last version of the object": pod(
        RUNNING, metadata=DELETED_AT | {"deletionGracePeriodSeconds": 0}
    ),
    "its node does not answer": pod(RUNNING, why=("NodeLost", "Node n1 which was running pod is unresponsive")),
    "phase Unknown": pod(RUNNING, phase="Unknown", metadata=DELETED_AT),
    "a taint of a lost node deletes it": pod(RUNNING, disruption=TAINT, metadata=DELETED_AT),
    "a controller has failed it, because its node is gone": pod(
        RUNNING, phase="Failed", disruption=POD_GC, metadata=DELETED_AT
    ),
    "the eviction is announced": pod(RUNNING, disruption=BY_KUBELET),
    "evicted, and a container runs": pod(RUNNING, phase="Failed", why=("Evicted", LIMIT)),
    "evicted, and not yet stopped": pod(lost("deleted"), why=("Evicted", LIMIT)),
    "the kubelet has lost sight of it": pod(lost("terminated"), phase="Failed"),
    "the kubelet has lost sight of it, and it runs again": pod(RUNNING, lost("deleted")),
    "the runtime has lost sight of it": pod(RUNNING, ended(255, "Unknown")),
    "it has given its runs back": pod(ended(0, "Completed"), phase="Succeeded"),
    "it had not written its id": pod(ended(137, "OOMKilled", "")),
    "the message is that of something else": pod(ended(1, "Error", "worker 7001 failed: wakeboard worker x 0")),
    "it waits for its image": pod({"waiting": {"reason": "ImagePullBackOff"}}, phase="Pending"),
    "it was never scheduled": {"metadata": {"name": POD, "uid": UID}, "status": {"phase": "Pending"}},
    "it has no status": {"metadata": {"name": POD, "uid": UID}},
}


@pytest.mark.parametrize(("found", "cause", "detail"), CERTAIN.values(), ids=CERTAIN)
def test_a_process_whose_container_has_ended_is_certainly_dead(found: dict[str, Any], cause: str, detail: str) -> None:
    assert terminations(found) == [Termination(7001, cause, detail, POD, UID)]


@pytest.mark.parametrize(("found", "cause", "detail"), WHOLE_POD.values(), ids=WHOLE_POD)
def test_every_process_of_a_stopped_pod_is_certainly_dead(found: dict[str, Any], cause: str, detail: str) -> None:
    assert terminations(found) == [Termination(None, cause, detail, POD, UID)]


@pytest.mark.parametrize("found", NOT_CERTAIN.values(), ids=NOT_CERTAIN)
def test_a_process_that_merely_cannot_be_seen_is_not_declared_dead(found: dict[str, Any]) -> None:
    assert terminations(found) == []


def test_two_processes_that_ended_one_after_the_other_are_both_found() -> None:
    found = pod(ended(1, "Error", "wakeboard worker 7002\n"), OOM)
    assert [(each.worker, each.cause) for each in terminations(found)] == [(7002, "Error"), (7001, "OOMKilled")]


def test_one_container_may_have_several_processes_and_no_more_than_a_hundred() -> None:
    lines = "".join(f"wakeboard worker {number}\n" for number in range(1, 200))
    assert [each.worker for each in terminations(pod(ended(137, "OOMKilled", lines)))] == list(
        range(1, MAX_WORKERS + 1)
    )


def test_a_message_of_the_kubelet_is_one_short_line_without_secrets() -> None:
    message = "low on memory:\n\tpostgresql://me:hunter2@db/x \x1b[31m" + "x" * 5000
    (found,) = terminations(pod(lost("terminated"), phase="Failed", why=("Evicted", message)))
    assert "hunter2" not in found.detail
    assert "\n" not in found.detail
    assert "\x1b" not in found.detail
    assert len(found.detail) <= MAX_DETAIL
