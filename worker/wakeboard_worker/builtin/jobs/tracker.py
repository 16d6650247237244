"""The Jobs and pods that this process follows, over one watch of Jobs, one of pods and one of events per namespace.

An attempt calls `follow` and waits for `Followed.event`. Nothing is requested for a single Job while it runs. A Job
that is missing from a list is not taken for deleted: `suspect` asks its attempt to read it.

The watches and the answer to a request come over different connections, in any order: the pod of a new Job may be
reported, and the Job even as ended, before its creation is answered. An attempt therefore creates or reads its Job
inside `keeping`: what the watches report meanwhile reaches it with `follow`.
"""

from __future__ import annotations

import asyncio
import time
from contextlib import contextmanager
from contextvars import Context
from typing import TYPE_CHECKING, Any, Final

from wakeboard.kube.watch import Listener, Watch
from wakeboard_worker.builtin.jobs.observed import JOB_UID, ObservedJob, ObservedPod, observed_job, observed_pod
from wakeboard_worker.builtin.jobs.outcomes import main_pod
from wakeboard_worker.builtin.jobs.template import RUN_UUID

if TYPE_CHECKING:
    from collections.abc import Generator, Mapping, Sequence

    from wakeboard.kube.client import ApiClient

ALL_NAMESPACES: Final = "*"
JOBS_API: Final = "/apis/batch/v1"
CORE_API: Final = "/api/v1"
REFUSED_PODS: Final = "involvedObject.kind=Job,reason=FailedCreate"


class Followed:
    """What is known of one Job. `event` is set at the next change; then it is another event."""

    def __init__(self, job: ObservedJob) -> None:
        self.job = job
        self.pods: dict[str, ObservedPod] = {}  # by uid, in their last state
        self.pods_gone: set[str] = set()  # the uids of those that no longer exist
        self.event = asyncio.Event()
        self.gone = False  # the API server has said that the Job no longer exists
        self.suspect = False  # a list did not contain it
        self.refusal = ""  # why the cluster could not create its pod
        self.followers = 0
        self.since = time.monotonic()

    def notify(self) -> None:
        """Wakes all who wait for a change."""
        event, self.event = self.event, asyncio.Event()
        event.set()

    def update(self, job: ObservedJob) -> None:
        """Takes a newer version of the Job."""
        if job.version >= self.job.version:
            self.job = job
            self.notify()

    @property
    def pod(self) -> ObservedPod | None:
        """The pod that decided, or the newest."""
        return main_pod(self.pods.values(), self.job.ended)

    @property
    def has_pods(self) -> bool:
        """Whether a pod of the Job may still run."""
        return any(not pod.ended and uid not in self.pods_gone for uid, pod in self.pods.items())

    def update_pod(self, pod: ObservedPod) -> None:
        """Takes a newer version of a pod."""
        known = self.pods.get(pod.uid)
        if known is None or pod.version >= known.version:
            self.pods[pod.uid] = pod
            self.notify()


class _EarlyReports:
    """The reports on the Jobs of one run that no attempt follows yet, oldest first, and who wants them."""

    def __init__(self) -> None:
        self.jobs: list[tuple[ObservedJob, bool]] = []
        self.pods: list[tuple[ObservedPod, bool]] = []
        self.users = 0


class Tracker:
    """Follows the Jobs of some namespaces. `*` stands for all namespaces."""

    def __init__(self, api: ApiClient, namespaces: Sequence[str]) -> None:
        self._followed: dict[str, Followed] = {}  # by the Job's uid
        self._early_reports: dict[str, _EarlyReports] = {}  # by the run's uuid
        self._unfinished: dict[str, ObservedJob] = {}
        self._unfinished_since: dict[str, float] = {}
        self.watches: list[Watch] = []
        for namespace in namespaces:
            inside = "" if namespace == ALL_NAMESPACES else f"/namespaces/{namespace}"
            for path, query, listener in (
                (f"{JOBS_API}{inside}/jobs", {"labelSelector": RUN_UUID}, _Jobs(self, namespace)),
                (f"{CORE_API}{inside}/pods", {"labelSelector": RUN_UUID}, _Pods(self)),
                (f"{CORE_API}{inside}/events", {"fieldSelector": REFUSED_PODS}, _Refusals(self)),
            ):
                self.watches.append(Watch(api, path, query, listener))
        self._tasks: list[asyncio.Task[None]] = []

    @property
    def back_at(self) -> float:
        """time.monotonic() when the last watch that had been lost went on."""
        return max(watch.back_at for watch in self.watches)

    def start(self) -> None:
        """Starts the watches in the running event loop. Their log lines belong to no run."""
        self._tasks = [asyncio.create_task(watch.run(), name="watch", context=Context()) for watch in self.watches]

    async def stop(self) -> None:
        """Ends the watches."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    @contextmanager
    def keeping(self, run_uuid: str) -> Generator[None]:
        """Keeps what the watches report of the Jobs of this run, for `follow`."""
        kept = self._early_reports.setdefault(run_uuid, _EarlyReports())
        kept.users += 1
        try:
            yield
        finally:
            kept.users -= 1
            if not kept.users:
                del self._early_reports[run_uuid]

    def follow(self, job: ObservedJob) -> Followed:
        """Starts to follow a Job that the API server has just returned. Call `unfollow` in the end."""
        is_new = job.uid not in self._followed
        followed = self._followed.setdefault(job.uid, Followed(job))
        followed.followers += 1
        followed.update(job)
        if is_new and (kept := self._early_reports.get(job.run_uuid)) is not None:
            for early, deleted in kept.jobs:
                if early.uid == job.uid:
                    self.job_changed(early, deleted=deleted)
            for pod, deleted in kept.pods:
                if pod.job_uid == job.uid:
                    self.pod_changed(pod, deleted=deleted)
        return followed

    def unfollow(self, followed: Followed) -> None:
        """Forgets a Job if no other attempt follows it."""
        followed.followers -= 1
        if not followed.followers:
            self._followed.pop(followed.job.uid, None)

    def unfollowed(self, for_s: float) -> list[ObservedJob]:
        """The Jobs that have not ended and that no attempt of this process has followed for some time."""
        seen_by = time.monotonic() - for_s
        return [
            job
            for uid, job in self._unfinished.items()
            if uid not in self._followed and self._unfinished_since[uid] < seen_by
        ]

    # -- what the watches report ---------------------------------------------------------------------------------------

    def job_changed(self, job: ObservedJob, *, deleted: bool = False) -> None:
        """A Job was added, changed or deleted."""
        if deleted or job.ended:
            self._unfinished.pop(job.uid, None)
            self._unfinished_since.pop(job.uid, None)
        else:
            self._unfinished[job.uid] = job
            self._unfinished_since.setdefault(job.uid, time.monotonic())
        followed = self._followed.get(job.uid)
        if followed is not None:
            followed.gone = followed.gone or deleted
            followed.update(job)
        elif (kept := self._early_reports.get(job.run_uuid)) is not None:
            kept.jobs.append((job, deleted))

    def jobs_listed(self, namespace: str, jobs: Sequence[ObservedJob], asked_at: float) -> None:
        """These are all Jobs of a namespace, or of all."""
        listed = {job.uid for job in jobs}
        everywhere = namespace == ALL_NAMESPACES
        for uid, job in list(self._unfinished.items()):
            if uid not in listed and (everywhere or job.namespace == namespace):
                del self._unfinished[uid], self._unfinished_since[uid]
        for uid, followed in self._followed.items():
            if uid not in listed and (everywhere or followed.job.namespace == namespace) and followed.since < asked_at:
                followed.suspect = True
                followed.notify()
        for job in jobs:
            self.job_changed(job)

    def pod_changed(self, pod: ObservedPod, *, deleted: bool = False) -> None:
        """A pod was added, changed or deleted. The last state of a deleted one is kept."""
        followed = self._followed.get(pod.job_uid)
        if followed is not None:
            if deleted:
                followed.pods_gone.add(pod.uid)
            followed.update_pod(pod)
        elif (kept := self._early_reports.get(pod.run_uuid)) is not None:
            kept.pods.append((pod, deleted))

    def pods_refused(self, job_uid: str, message: str) -> None:
        """The cluster could not create the pod of a Job."""
        followed = self._followed.get(job_uid)
        if followed is not None:
            followed.refusal = message
            followed.notify()


class _Jobs:
    def __init__(self, tracker: Tracker, namespace: str) -> None:
        self._tracker, self._namespace = tracker, namespace
        self._asked_at = 0.0

    def read(self, item: Mapping[str, Any]) -> ObservedJob:
        return observed_job(item)

    def listing(self) -> None:
        self._asked_at = time.monotonic()

    def listed(self, items: Sequence[ObservedJob]) -> None:
        self._tracker.jobs_listed(self._namespace, items, self._asked_at)

    def changed(self, item: Mapping[str, Any], *, deleted: bool) -> None:
        self._tracker.job_changed(observed_job(item), deleted=deleted)


class _Pods(Listener):
    def __init__(self, tracker: Tracker) -> None:
        self._tracker = tracker

    def read(self, item: Mapping[str, Any]) -> ObservedPod | None:
        return observed_pod(item) if item["metadata"].get("labels", {}).get(JOB_UID) else None

    def listed(self, items: Sequence[ObservedPod | None]) -> None:
        for pod in items:
            if pod is not None:
                self._tracker.pod_changed(pod)

    def changed(self, item: Mapping[str, Any], *, deleted: bool) -> None:
        if (pod := self.read(item)) is not None:
            self._tracker.pod_changed(pod, deleted=deleted)


class _Refusals(Listener):
    def __init__(self, tracker: Tracker) -> None:
        self._tracker = tracker

    def read(self, item: Mapping[str, Any]) -> tuple[str, str]:
        return str(item["involvedObject"].get("uid", "")), str(item.get("message", ""))

    def listed(self, items: Sequence[tuple[str, str]]) -> None:
        for uid, message in items:
            self._tracker.pods_refused(uid, message)

    def changed(self, item: Mapping[str, Any], *, deleted: bool) -> None:
        if not deleted:
            self._tracker.pods_refused(*self.read(item))
