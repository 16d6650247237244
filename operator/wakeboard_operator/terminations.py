"""Decides from a pod which worker processes have certainly ended, and why.

Only what the kubelet has written counts. There are two proofs:

- A container is terminated. A worker writes its id into the container's termination message when it starts, and the
  kubelet copies that file into the container's status when the container has ended. The id therefore names the process
  that ended, and never the one that runs in the restarted container.
- The kubelet has stopped the whole pod: its phase is Failed, with a reason that only a kubelet writes. It does so after
  the last container has ended. The containers of an evicted pod are removed at once, and their messages with them, so
  this proof names the pod, and every process that has registered with the pod's uid has ended.

Nothing else is proof. A node that does not answer, the phase Unknown, a Failed that a controller wrote, a deletion, a
deleted object: the container may still run. Then the lease decides. The same holds where the kubelet has lost sight of
a container, and after exit code 0, because such a worker has given its runs back.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from wakeboard.text.redact import redact
from wakeboard.text.sanitize import one_line

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

WORKER_LINE: Final = re.compile(r"wakeboard worker ([1-9][0-9]{0,18})\b")  # see wakeboard_worker/termination_message.py
MAX_WORKER_ID: Final = 2**63 - 1
MAX_WORKERS: Final = 100  # of one container
MAX_DETAIL: Final = 300  # characters
NOT_SEEN: Final = ("ContainerStatusUnknown", "Unknown")  # the kubelet or the runtime has lost sight of the container
SIGNALLED: Final = (137, 143)  # exit codes: SIGKILL, SIGTERM

OOM_KILLED: Final = "OOMKilled"
ERROR: Final = "Error"
EVICTED: Final = "Evicted"
PREEMPTED: Final = "Preempted"
NODE_SHUTDOWN: Final = "NodeShutdown"
DRAINED: Final = "Drained"
DELETED: Final = "Deleted"

BY_KUBELET: Final = {  # reasons of a pod that only a kubelet writes
    "Evicted": EVICTED,
    "Preempting": PREEMPTED,  # by the kubelet, for a critical pod
    "Terminated": NODE_SHUTDOWN,
    "NodeShutdown": NODE_SHUTDOWN,
    "DeadlineExceeded": DELETED,  # activeDeadlineSeconds of the pod
}
BY_DISRUPTION: Final = {
    "PreemptionByScheduler": PREEMPTED,
    "EvictionByEvictionAPI": DRAINED,
    "DeletionByTaintManager": DELETED,
}


class Termination(NamedTuple):
    """A worker process that has ended, or with `worker` None every process of the pod with this uid.

    `cause`: a word. `detail`: more about it, or empty. `pod`: its name.
    """

    worker: int | None
    cause: str
    detail: str
    pod: str
    pod_uid: str


def terminations(pod: Mapping[str, Any]) -> list[Termination]:
    """The processes of a pod, as the API server returns it, that have certainly ended with their runs."""
    status: Mapping[str, Any] = pod.get("status") or {}
    containers: Sequence[Mapping[str, Any]] = status.get("containerStatuses") or ()
    names: tuple[str, str] = pod["metadata"]["name"], pod["metadata"]["uid"]
    found = [
        Termination(worker, *_cause(pod, container, is_current=is_current), *names)
        for container, is_current in _ended(containers)
        for worker in _workers(container.get("message") or "")
    ]
    if _stopped_by_kubelet(status, containers):
        found.append(Termination(None, BY_KUBELET[status["reason"]], _text(status.get("message")), *names))
    return found


def _stopped_by_kubelet(status: Mapping[str, Any], containers: Sequence[Mapping[str, Any]]) -> bool:
    """Whether the kubelet has stopped the whole pod. A kubelet writes this phase when no container can run any more."""
    running = any(_part(container, "state", "running") is not None for container in containers)
    return status.get("phase") == "Failed" and status.get("reason") in BY_KUBELET and not running


def _ended(statuses: Sequence[Mapping[str, Any]]) -> Iterator[tuple[Mapping[str, Any], bool]]:
    """The `terminated` part of each container that has ended, and whether it has not been restarted."""
    for status in statuses:
        for field, is_current in (("state", True), ("lastState", False)):
            terminated = _part(status, field, "terminated")
            if terminated is None or terminated.get("reason") in NOT_SEEN or terminated.get("exitCode") == 0:
                continue
            yield terminated, is_current


def _part(container: Mapping[str, Any], field: str, kind: str) -> Mapping[str, Any] | None:
    """A part of a container's `state` or `lastState`."""
    state: Mapping[str, Any] = container.get(field) or {}
    return state.get(kind)


def _workers(message: str) -> list[int]:
    numbers = {int(number) for number in WORKER_LINE.findall(message)}
    return sorted(number for number in numbers if number <= MAX_WORKER_ID)[:MAX_WORKERS]


def _cause(pod: Mapping[str, Any], container: Mapping[str, Any], *, is_current: bool) -> tuple[str, str]:
    """Cause and detail. A reason of the pod says nothing about a container that was restarted before."""
    if container.get("reason") == OOM_KILLED:
        return OOM_KILLED, ""
    code = container.get("exitCode")
    if is_current and code in SIGNALLED and (disruption := _disruption(pod)):
        return disruption
    return ERROR, f"exit code {code}"


def _disruption(pod: Mapping[str, Any]) -> tuple[str, str] | None:
    """Why the pod was stopped, if not its containers are the reason."""
    status: Mapping[str, Any] = pod.get("status") or {}
    if (cause := BY_KUBELET.get(status.get("reason") or "")) is not None:
        return cause, _text(status.get("message"))
    for condition in status.get("conditions") or ():
        if condition.get("type") == "DisruptionTarget" and condition.get("status") == "True":
            return BY_DISRUPTION.get(condition.get("reason") or "", DELETED), _text(condition.get("message"))
    return (DELETED, "") if pod["metadata"].get("deletionTimestamp") else None


def _text(message: str | None) -> str:
    return one_line(redact(message or "", MAX_DETAIL, "start")).strip()[:MAX_DETAIL]
