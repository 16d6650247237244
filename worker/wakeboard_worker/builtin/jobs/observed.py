"""What the handler reads of a Job and of its pods: small records, because a process follows thousands of them."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any

from wakeboard_worker.builtin.jobs.template import CRON_JOB, RUN, RUN_UUID, main_container, part

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

ID_DIGITS = 18  # of a bigint at least
_NOTHING: Mapping[str, Any] = {}
JOB_UID = "batch.kubernetes.io/controller-uid"  # the label of a Job's pods


@dataclass(frozen=True, slots=True)
class ObservedJob:
    """A Job. `ended`: Complete or Failed, or empty; `reason` and `message` of a failure. Times are None until known."""

    namespace: str
    name: str
    uid: str
    version: int  # the resourceVersion, which grows
    run_id: int
    run_uuid: str
    cron_job: str
    created_at: datetime
    began_at: datetime  # when its controller took it up, also after a suspension; or when it was created
    grace_s: int
    container: str
    deadline_s: int | None
    deleting: bool
    suspended: bool  # also until its controller has taken up the end of a suspension
    ended: str
    ended_at: datetime | None
    reason: str
    message: str


@dataclass(frozen=True, slots=True)
class ObservedContainer:
    """A container that waits (`reason`), runs or has ended (`exit_code`). `message`: why, or what it left."""

    name: str
    started_at: datetime | None
    finished_at: datetime | None
    exit_code: int | None
    reason: str
    message: str
    restarts: int


@dataclass(frozen=True, slots=True)
class ObservedPod:
    """A pod of a Job. `reason` and `message`: of the pod, such as Evicted. `unschedulable`: the scheduler's message."""

    namespace: str
    name: str
    uid: str
    job_uid: str
    run_uuid: str
    version: int
    node: str
    phase: str
    created_at: datetime
    scheduled_at: datetime | None
    unschedulable: str
    disruption: str
    deleting: bool
    reason: str
    message: str
    containers: tuple[ObservedContainer, ...]  # init containers first

    @property
    def ended(self) -> bool:
        """Whether the pod has succeeded or failed."""
        return self.phase in ("Succeeded", "Failed")

    def container(self, name: str) -> ObservedContainer | None:
        """The container of that name, if its status is known."""
        return next((each for each in self.containers if each.name == name), None)


def observed_job(found: Mapping[str, Any]) -> ObservedJob:
    """Reads a Job, which any client may have created or labelled."""
    about, spec, status = found["metadata"], found["spec"], part(found, "status")
    labels = part(about, "labels")
    end = _condition(status, "Complete") or _condition(status, "Failed")
    first = end or _condition(status, "FailureTarget")
    return ObservedJob(
        namespace=about["namespace"],
        name=about["name"],
        uid=about["uid"],
        version=int(about.get("resourceVersion") or 0),
        run_id=_number(labels.get(RUN)),
        run_uuid=labels.get(RUN_UUID, ""),
        cron_job=part(about, "annotations").get(CRON_JOB, ""),
        created_at=_time(about["creationTimestamp"]),
        began_at=_time(status.get("startTime") or about["creationTimestamp"]),
        grace_s=int(spec["template"]["spec"].get("terminationGracePeriodSeconds") or 0),
        container=main_container(spec["template"]),
        deadline_s=spec.get("activeDeadlineSeconds"),
        deleting="deletionTimestamp" in about,
        suspended=bool(spec.get("suspend") or _condition(status, "Suspended")),
        ended=end.get("type", ""),
        ended_at=_maybe_time(end.get("lastTransitionTime")),
        reason=first.get("reason", ""),
        message=first.get("message", ""),
    )


def observed_pod(found: Mapping[str, Any]) -> ObservedPod:
    """Reads a pod of such a Job."""
    about, status = found["metadata"], part(found, "status")
    scheduled = _condition(status, "PodScheduled", any_status=True)
    is_scheduled = scheduled.get("status") == "True"
    disruption = _condition(status, "DisruptionTarget")
    statuses: list[Any] = [*(status.get("initContainerStatuses") or []), *(status.get("containerStatuses") or [])]
    return ObservedPod(
        namespace=about["namespace"],
        name=about["name"],
        uid=about["uid"],
        job_uid=part(about, "labels").get(JOB_UID, ""),
        run_uuid=part(about, "labels").get(RUN_UUID, ""),
        version=int(about.get("resourceVersion") or 0),
        node=found["spec"].get("nodeName") or "",
        phase=status.get("phase", ""),
        created_at=_time(about["creationTimestamp"]),
        scheduled_at=_maybe_time(scheduled.get("lastTransitionTime")) if is_scheduled else None,
        unschedulable="" if is_scheduled else scheduled.get("message", ""),
        disruption=disruption.get("message") or disruption.get("reason", ""),
        deleting="deletionTimestamp" in about,
        reason=status.get("reason", ""),
        message=status.get("message", ""),
        containers=tuple(_container(each) for each in statuses),
    )


def _container(status: Mapping[str, Any]) -> ObservedContainer:
    waiting, running, ended = (part(part(status, "state"), key) for key in ("waiting", "running", "terminated"))
    return ObservedContainer(
        name=status["name"],
        started_at=_maybe_time(running.get("startedAt") or ended.get("startedAt")),
        finished_at=_maybe_time(ended.get("finishedAt")),
        exit_code=ended.get("exitCode"),
        reason=waiting.get("reason") or ended.get("reason") or "",
        message=waiting.get("message") or ended.get("message") or "",
        restarts=status.get("restartCount", 0),
    )


def _condition(status: Mapping[str, Any], kind: str, *, any_status: bool = False) -> Mapping[str, Any]:
    """The condition of this kind if it is true, or with `any_status` if it is known; else nothing."""
    conditions: Iterable[Mapping[str, Any]] = status.get("conditions") or ()
    found = (each for each in conditions if each["type"] == kind and (any_status or each["status"] == "True"))
    return next(found, _NOTHING)


def _number(text: str | None) -> int:
    """The id in a label that any client may have written; 0 for anything else."""
    return int(text) if text and text.isascii() and text.isdecimal() and len(text) <= ID_DIGITS else 0


def _time(text: str) -> datetime:
    return datetime.fromisoformat(text)


def _maybe_time(text: str | None) -> datetime | None:
    return _time(text) if text else None
