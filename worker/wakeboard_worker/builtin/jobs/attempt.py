"""One attempt of a run of the job type `job`: it creates or adopts the Job, and follows it to its end.

**One Job per attempt.** The name of the Job is that of the attempt (template.py), so the API server refuses a second
one, also from a worker that has lost its lease and creates late. The step `Job N` records that the Job was created.
A worker that takes the run over finds one of these:

- no record and no Job: it creates the Job;
- no record and a Job: the other worker ended between creation and record; it adopts the Job;
- a record and a Job: it adopts the Job, whether it runs or has ended;
- a record and no Job: a user deleted the Job, and the attempt has failed. It is not created a second time.

Before the Job of a later attempt is created, other Jobs of the run that have not ended are deleted, and the attempt
waits until their pods are gone.

**Who ends a Job.** Cancellation, the timeout and a pod that does not start delete the Job in the foreground, and the
attempt ends when the API server reports that it is gone, which is after its pods. A worker that lost the lease, or that
stops, leaves the Job alone: the next worker adopts it. A stop gives the attempt back (Snooze) and is not counted.
An API server that is away fails no attempt (patient_requests.py). An attempt that has waited for it before it could
create the Job, or long for its turn, is released, so that the next one follows the Job for a whole timeout. So is one
whose Job was suspended, as a queue of Kueue does: shortly before its timeout, and when the Job has been resumed.
"""

from __future__ import annotations

import asyncio
import logging
import time
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final

from wakeboard.engine.run import CANCELLED, SHUTDOWN, TIMED_OUT
from wakeboard.errors import Snooze, TimedOut
from wakeboard.kube.client import ApiRefused, ApiUnavailable
from wakeboard.text.output_text import MAX_CHARACTERS, decode_output
from wakeboard.text.redact import redact
from wakeboard_worker.builtin.jobs.observed import observed_job, observed_pod
from wakeboard_worker.builtin.jobs.outcomes import (
    CronJobMissing,
    JobDeleted,
    JobRefused,
    error_of,
    result_of,
    start_error,
    started,
    stuck_container,
    wants_log,
)
from wakeboard_worker.builtin.jobs.patient_requests import AWAY_AFTER_S, PatientRequests, Released
from wakeboard_worker.builtin.jobs.pod_logs import PodLogs
from wakeboard_worker.builtin.jobs.step_records import creation_record, end_record, scheduling_record, start_record
from wakeboard_worker.builtin.jobs.template import RUN_UUID, AttemptFacts, job_name, job_of, stop_after_s
from wakeboard_worker.builtin.jobs.tracker import CORE_API, JOBS_API

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from datetime import datetime

    from wakeboard.engine.run import Run
    from wakeboard_worker.builtin.jobs.cluster import JobCluster
    from wakeboard_worker.builtin.jobs.observed import ObservedJob, ObservedPod
    from wakeboard_worker.builtin.jobs.payload import JobPayload
    from wakeboard_worker.builtin.jobs.tracker import Followed

log = logging.getLogger("wakeboard.jobs")

POD_WITHIN_S: Final = 5.0  # for the last state of the pod of a Job that has ended
REFUSED_FOR_S: Final = 5.0  # how long the cluster may fail to create a pod
QUEUED_SHARE: Final = 0.1  # of the timeout, which may pass until it is the turn of the Job
STUCK_FOR_S: Final = 30.0  # how long a container may wait for an image or for its configuration
LOG_WITHIN_S: Final = 10.0
LOG_LINES: Final = 500
LOG_READ: Final = 16_777_216  # bytes: container runtimes split lines at 16 KiB or less
CONFLICT, NOT_FOUND = 409, 404
FOREVER: Final = float("inf")


class _GivenBack(Snooze):
    """A snooze without a delay. A delay would change run_at, and with it the name of the Job.

    Only a worker that stops, or that has waited for the API server, raises it, so runs are not given back in a loop.
    """

    def __init__(self) -> None:
        super().__init__(0.0)
        self.seconds = 0.0


class _StopJob(Exception):
    """The Job has to be deleted before the attempt ends with `error`."""

    def __init__(self, error: Exception) -> None:
        self.error = error
        super().__init__(str(error))


class _Ended(Exception):
    """The Job has ended before it reached a phase."""


class JobAttempt:
    """An attempt of `run` in the namespace of its schedule."""

    def __init__(self, run: Run, payload: JobPayload, namespace: str, cluster: JobCluster) -> None:
        self._run, self._payload, self._namespace, self._cluster = run, payload, namespace, cluster
        self._name = job_name(payload.cron_job, run.uuid, run.run_at)
        self._path, self._of_run = f"{JOBS_API}/namespaces/{namespace}", {"labelSelector": f"{RUN_UUID}={run.uuid}"}
        self._began = time.monotonic()
        self._server = PatientRequests(run, cluster.api, self._began)
        self._number = 1  # of the Job among those of the run
        self._posting: asyncio.Task[dict[str, Any]] | None = None
        self._job: Followed | None = None
        self._logs: PodLogs | None = None
        self._is_recorded = False
        self._queued_s = 0.0  # until it was the turn of the Job to be created
        self._stop_at = FOREVER
        self._created_at = self._began  # time.monotonic() when the Job was created
        self._stuck_since = FOREVER
        self._was_suspended = False

    async def execute(self) -> Any:
        """Returns the result of the Job. Raises what its end means for the run."""
        try:
            try:
                return await self._execute()
            except _StopJob as stop:
                await self._end_job()
                raise stop.error from None
        except Released as reason:
            self._run.log.warning("the run is released: %s", reason)
            raise _GivenBack from None
        except asyncio.CancelledError:
            because = self._run.stopped_because
            if because in (CANCELLED, TIMED_OUT):
                text = await self._log_tail() if self._job else ""
                await self._end_job()
                if because == TIMED_OUT:
                    raise self._timed_out(text) from None
            if because == SHUTDOWN:
                raise _GivenBack from None
            raise
        finally:
            if self._logs is not None:
                await self._logs.close()
            if self._job is not None:
                self._cluster.tracker.unfollow(self._job)
            if self._posting is not None and not self._is_recorded:
                self._cluster.check_late(self._posting)

    async def _execute(self) -> Any:
        await self._server.wait_for_watches(self._cluster.tracker.watches)
        with self._cluster.tracker.keeping(str(self._run.uuid)):
            record = await self._recorded()
            self._is_recorded = True
            if self._job is not None:
                self._release_after_a_wait()
            job = self._job or await self._adopt_recorded(record["uid"])
        self._measure(job.job)
        if self._run.keeps_log:
            self._logs = PodLogs(self._run, self._cluster, job)
        await self._phase("scheduled", lambda pod: pod.scheduled_at is not None, scheduling_record)
        await self._phase(
            "started", lambda pod: started(pod, job.job.container), lambda pod: start_record(pod, job.job)
        )
        await self._run.step(f"Job {self._number} ended", self._wait_for_end)
        pod = job.pod
        text = await self._log_tail() if wants_log(job.job, pod) else ""
        if job.job.ended == "Complete":
            return result_of(job.job, pod, text)
        raise error_of(job.job, pod, text)

    def _release_after_a_wait(self) -> None:
        """Raises Released if the Job was created so late that it would not have its timeout."""
        if self._server.away_s > AWAY_AFTER_S:
            why = f"the API server was away for {self._server.away_s:.0f} s"
        elif self._queued_s > QUEUED_SHARE * self._run.timeout_s:
            why = f"{self._queued_s:.0f} s have passed until it was the turn of its Job"
        else:
            return
        raise Released(f"{why}, and the timeout begins with the Job")

    # -- creation ------------------------------------------------------------------------------------------------------

    async def _recorded(self) -> dict[str, Any]:
        """The record of the Job of this attempt, which is created if there is none. Numbers the Jobs of the run."""
        while True:
            record: dict[str, Any] = await self._run.step(f"Job {self._number}", self._create)
            if record["job"] == self._name:
                return record
            self._number += 1  # it is the record of an earlier attempt

    async def _create(self) -> dict[str, Any]:
        """Creates the Job, or adopts the one of this name. Returns the record."""
        if self._run.attempt > 1 or self._run.epoch > 1:
            await self._end_other_jobs()
        found = await self._read_job() if self._run.epoch > 1 else None
        if found is None:
            found = await self._post()
        job = observed_job(found)
        if job.run_uuid != str(self._run.uuid):
            raise JobRefused(f"the namespace {self._namespace} has a Job {self._name} that belongs to another run")
        self._follow(job)
        return creation_record(job)

    async def _post(self) -> dict[str, Any]:
        run, name = self._run, self._payload.cron_job
        cron_job = await self._ask(
            f"the CronJob {name} cannot be read", "GET", f"{self._path}/cronjobs/{name}", NOT_FOUND
        )
        if cron_job is None:
            raise CronJobMissing(f"the namespace {self._namespace} has no CronJob {name}")
        facts = AttemptFacts(
            run_id=run.id,
            uuid=run.uuid,
            attempt=run.attempt,
            schedule=run.schedule or "",
            generation=await self._cluster.generation(run.id),
            scheduled_for=run.scheduled_for,
            payload=run.payload,
        )
        await self._wait_for_turn()
        left_s = run.timeout_s - (time.monotonic() - self._began) + self._server.away_s + self._queued_s
        body = job_of(cron_job, self._name, facts, self._payload, run.timeout_s, left_s, self._cluster.ttl_s)
        # Shielded: an attempt that is cancelled must know whether its Job exists.
        self._posting = asyncio.ensure_future(self._post_until_answered(body))
        self._posting.add_done_callback(lambda done: done.cancelled() or done.exception())  # it may have no reader
        return await asyncio.shield(self._posting)

    async def _wait_for_turn(self) -> None:
        """Waits until the pool may create this Job. Raises Released shortly before the timeout."""
        since = time.monotonic()
        try:
            async with asyncio.timeout(self._server.left_s()):
                await self._cluster.rate.turn()
        except TimeoutError:
            raise Released("more Jobs are due than the pool creates within its timeout") from None
        self._queued_s = time.monotonic() - since

    async def _post_until_answered(self, body: Mapping[str, Any]) -> dict[str, Any]:
        try:
            return await self._server.ask("POST", f"{self._path}/jobs", body=body)
        except ApiRefused as error:
            if error.status == CONFLICT and error.reason == "AlreadyExists":
                found = await self._read_job()
                if found is not None:
                    return found
                raise self._deleted() from None
            raise JobRefused(f"the API server refused the Job: {error}") from None

    async def _end_other_jobs(self) -> None:
        """Deletes unfinished Jobs of other attempts of this run, and waits until they are gone."""
        refusal = "the Jobs of earlier attempts cannot be read"
        found = await self._ask(refusal, "GET", f"{self._path}/jobs", query=self._of_run)
        for item in found["items"]:
            job = observed_job(item)
            if job.name != self._name and not job.ended:
                self._run.log.warning("the Job %s of an earlier attempt has not ended: it is deleted", job.name)
                followed = self._cluster.tracker.follow(job)
                try:
                    await self._delete(followed)
                finally:
                    self._cluster.tracker.unfollow(followed)

    async def _adopt_recorded(self, uid: str) -> Followed:
        """Follows the Job that the record names. Raises JobDeleted."""
        found = await self._read_job()
        if found is None or found["metadata"]["uid"] != uid:
            raise JobDeleted(
                f"the Job {self._name} no longer exists: it was deleted, or it ended more than {self._cluster.ttl_s} s"
                " ago while no worker followed it (jobs.ttlSeconds)"
            )
        job = self._follow(observed_job(found))
        await self._refresh_pods(job)
        return job

    def _follow(self, job: ObservedJob) -> Followed:
        self._job = self._cluster.tracker.follow(job)
        return self._job

    def _measure(self, job: ObservedJob) -> None:
        """Computes when the Job has to be stopped. An adopted one began with its creation, or when it was resumed."""
        self._created_at = self._local_time(job.created_at)
        begun = min(self._began, self._local_time(job.began_at))
        self._stop_at = begun + stop_after_s(self._run.timeout_s, job.grace_s)

    def _local_time(self, at: datetime) -> float:
        """A time of the API server as time.monotonic(); now for one to come."""
        return time.monotonic() - max(0.0, (self._cluster.api.now() - at).total_seconds())

    # -- phases --------------------------------------------------------------------------------------------------------

    async def _phase(
        self, name: str, reached: Callable[[ObservedPod], bool], facts: Callable[[ObservedPod], dict[str, Any]]
    ) -> None:
        """Records a phase of the pod as a step, unless the Job ends before it."""

        async def wait() -> dict[str, Any]:
            pod = await self._until(reached)
            if pod is None:
                raise _Ended
            return facts(pod)

        with suppress(_Ended):
            await self._run.step(f"Job {self._number} {name}", wait)

    async def _wait_for_end(self) -> dict[str, Any]:
        """Waits for the end of the Job and of its pod. Returns what the record shows."""
        job = self._followed
        await self._until(lambda _: False)
        try:
            async with asyncio.timeout(POD_WITHIN_S):
                while job.pod is None or not job.pod.ended:
                    await job.event.wait()
        except TimeoutError:
            await self._refresh_pods(job)
        return end_record(job.job, job.pod)

    async def _until(self, reached: Callable[[ObservedPod], bool]) -> ObservedPod | None:
        """Waits until the pod has reached something. None: the Job has ended before. Raises _StopJob and JobDeleted."""
        job = self._followed
        while True:
            event = job.event
            if job.suspect:
                await self._confirm(job)
            pod = job.pod
            if pod is not None and reached(pod):
                return pod
            if job.job.ended:
                return None
            if job.gone:
                await self._until_pods_are_gone(job)
                raise self._deleted()
            if await self._is_suspended(job.job, event):
                continue
            start_by, _ = self._start_by(job, pod)
            if time.monotonic() >= self._stop_at:
                await self._check_stop(job)
                continue
            if time.monotonic() >= start_by:
                await self._check_start(job)
                continue
            with suppress(TimeoutError):
                async with asyncio.timeout_at(_loop_time(min(self._stop_at, start_by))):
                    await event.wait()

    async def _check_stop(self, job: Followed) -> None:
        """Raises _StopJob if the Job has not ended. Reads it first: the watch may be late."""
        await self._confirm(job)
        if not job.job.ended and not job.gone:
            raise _StopJob(self._timed_out(await self._log_tail()))

    async def _is_suspended(self, job: ObservedJob, event: asyncio.Event) -> bool:
        """Waits for a change of a suspended Job. Raises Released shortly before the timeout."""
        if not job.suspended:
            if self._was_suspended:
                self._resume(job)
            return False
        self._was_suspended = True
        try:
            async with asyncio.timeout(self._server.left_s()):
                await event.wait()
        except TimeoutError:
            raise Released("its Job is suspended, and the timeout begins when it is resumed") from None
        return True

    def _resume(self, job: ObservedJob) -> None:
        """Counts from the resumption. Raises Released if it was so late that the Job would not have its timeout."""
        self._was_suspended = False
        self._measure(job)
        waited_s = self._local_time(job.began_at) - self._began
        if waited_s > QUEUED_SHARE * self._run.timeout_s:
            raise Released(f"its Job was suspended for {waited_s:.0f} s, and the timeout begins when it is resumed")

    async def _check_start(self, job: Followed) -> None:
        """Raises _StopJob if no pod has started in time. Reads the Job and its pods first: the watches may be late."""
        await self._confirm(job)
        await self._refresh_pods(job)
        pod = job.pod
        start_by, after = self._start_by(job, pod)
        if time.monotonic() >= start_by:
            raise _StopJob(start_error(pod, job.refusal, after))

    def _start_by(self, job: Followed, pod: ObservedPod | None) -> tuple[float, str]:
        """Returns when the pod must have started, and these words for the error."""
        if (pod is not None and started(pod, job.job.container)) or job.job.suspended or job.job.ended or job.gone:
            return FOREVER, ""
        now = time.monotonic()
        # The pod may be made late, or be another one after a disruption; and a start may be reported late.
        since = max(self._local_time(pod.created_at if pod else job.job.began_at), self._cluster.tracker.back_at)
        deadline, after = since + self._cluster.start_s, f"after {self._cluster.start_s} s"
        if pod is None and job.refusal:
            deadline, after = min(deadline, self._created_at + REFUSED_FOR_S), ""
        is_stuck = pod is not None and stuck_container(pod) is not None
        self._stuck_since = min(self._stuck_since, now) if is_stuck else FOREVER
        if self._stuck_since + STUCK_FOR_S < deadline:
            deadline, after = self._stuck_since + STUCK_FOR_S, f"for {STUCK_FOR_S:.0f} s"
        return deadline, after

    def _timed_out(self, text: str) -> TimedOut:
        """The timeout of the attempt, with what the pod waited for or printed last."""
        words = f"it ran longer than its timeout of {self._run.timeout_s} s"
        job = self._job
        if job and not job.job.ended and not (job.pod and started(job.pod, job.job.container)):
            return TimedOut(f"{words}: {start_error(job.pod, job.refusal, 'by then')}")
        return TimedOut(f"{words}\n{text[-1_200:].strip()}".strip())

    # -- end -----------------------------------------------------------------------------------------------------------

    async def _end_job(self) -> None:
        """Deletes the Job of this attempt, if there is one, and waits until it and its pods are gone."""
        if self._posting is not None and self._job is None:
            with suppress(Exception):
                self._follow(observed_job(await self._posting))
        if self._job is None:
            found = await self._read_job()
            if found is None or observed_job(found).run_uuid != str(self._run.uuid):
                return
            self._follow(observed_job(found))
        if not self._followed.job.ended:
            await self._delete(self._followed)

    async def _delete(self, job: Followed) -> None:
        """Deletes a Job in the foreground: the API server reports it as gone after its pods."""
        refusal, path = f"the Job {job.job.name} cannot be deleted", f"{self._path}/jobs/{job.job.name}"
        body = {"propagationPolicy": "Foreground", "preconditions": {"uid": job.job.uid}}
        if await self._ask(refusal, "DELETE", path, NOT_FOUND, CONFLICT, body=body) is None:
            job.gone = True
        while not job.gone:
            event = job.event
            if job.suspect:
                await self._confirm(job)
            else:
                await event.wait()

    async def _until_pods_are_gone(self, job: Followed) -> None:
        """Waits until the pods of a Job that a user deleted are gone, for their grace period at most."""
        with suppress(TimeoutError):
            async with asyncio.timeout(job.job.grace_s + POD_WITHIN_S):
                while job.has_pods:
                    await job.event.wait()

    def _deleted(self) -> Exception:
        """The error of a Job that no longer exists: a user deleted it, or another worker at its timeout."""
        if time.monotonic() >= self._stop_at:
            return self._timed_out("")
        left = ""
        if self._job is not None and self._job.has_pods and (pod := self._job.pod) is not None:
            left = f"; its pod {pod.name} has not ended, and the next attempt does not wait for it: delete the pod"
        return JobDeleted(f"the Job {self._name} was deleted before it ended{left}")

    async def _log_tail(self) -> str:
        """The end of the pod's log, without credentials; empty if it cannot be read."""
        job = self._job
        pod = job.pod if job else None
        if job is None or pod is None or not pod.node:
            return ""
        failed = next((each.name for each in pod.containers if each.exit_code), job.job.container)
        path = f"{CORE_API}/namespaces/{pod.namespace}/pods/{pod.name}/log"
        try:
            async with asyncio.timeout(LOG_WITHIN_S):
                raw = await self._cluster.api.text_tail(
                    path, {"container": failed, "tailLines": str(LOG_LINES)}, 4 * MAX_CHARACTERS, LOG_READ
                )
        except (ApiRefused, ApiUnavailable, TimeoutError) as error:
            self._run.log.info("the log of pod %s cannot be read: %s", pod.name, error)
            return ""
        return redact(decode_output(raw).lstrip("\N{REPLACEMENT CHARACTER}"), MAX_CHARACTERS, "end")

    # -- requests ------------------------------------------------------------------------------------------------------

    @property
    def _followed(self) -> Followed:
        assert self._job is not None
        return self._job

    async def _ask(self, refusal: str, method: str, path: str, *unless: int, **sent: Any) -> Any:
        """The answer; None if its status is one of `unless`. Raises JobRefused with `refusal` and the reason."""
        try:
            return await self._server.ask(method, path, **sent)
        except ApiRefused as error:
            if error.status in unless:
                return None
            raise JobRefused(f"{refusal}: {error}") from None

    async def _read_job(self, name: str = "") -> dict[str, Any] | None:
        name = name or self._name
        return await self._ask(f"the Job {name} cannot be read", "GET", f"{self._path}/jobs/{name}", NOT_FOUND)

    async def _confirm(self, job: Followed) -> None:
        """Reads a Job that a list did not contain."""
        job.suspect = False
        found = await self._read_job(job.job.name)
        current = observed_job(found) if found else None
        job.gone = current is None or current.uid != job.job.uid
        if current and not job.gone:
            job.update(current)

    async def _refresh_pods(self, job: Followed) -> None:
        """Reads the pods of a Job."""
        path, refusal = f"{CORE_API}/namespaces/{self._namespace}/pods", f"the pods of {self._name} cannot be read"
        found = await self._ask(refusal, "GET", path, query=self._of_run)
        for pod in map(observed_pod, found["items"]):
            if pod.job_uid == job.job.uid:
                job.update_pod(pod)


def _loop_time(at: float) -> float | None:
    """A time of time.monotonic() as asyncio.timeout_at takes it; None: never."""
    return None if at == FOREVER else asyncio.get_running_loop().time() + at - time.monotonic()
