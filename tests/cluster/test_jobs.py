"""The job type `job` against a real API server with its controllers. The tests do what a scheduler and a kubelet do."""

from __future__ import annotations

import asyncio
import json
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import pytest

from wakeboard.kube.client import ApiClient
from wakeboard.testing import FakeRun, Outcome

if TYPE_CHECKING:
    from tests.cluster.job_pool import Pool
    from wakeboard_worker.builtin.jobs.handler import JobHandler

pytestmark = pytest.mark.anyio

START_S = 8  # more than the tests need to start a pod


async def test_a_run_starts_its_job_and_returns_its_termination_message(pool: Pool) -> None:
    await pool.pods.apply_cron_job(ttlSecondsAfterFinished=100)
    run = pool.run(scheduled_for=FakeRun().scheduled_for)
    attempt = pool.start(run)
    pod = await pool.pods.start()
    (job,) = await pool.pods.jobs()
    await pool.pods.end(pod, message='{"rows": 3}')
    outcome = await attempt
    assert outcome.result == {"rows": 3}
    spec, template = job["spec"], job["spec"]["template"]
    (container,) = template["spec"]["containers"]
    assert (spec["backoffLimit"], spec["podReplacementPolicy"], template["spec"]["restartPolicy"]) == (
        0,
        "Failed",
        "Never",
    )
    assert spec["ttlSecondsAfterFinished"] == 100
    assert "ownerReferences" not in job["metadata"]
    assert {each["name"]: each["value"] for each in container["env"]} == {
        "A": "1",
        "WAKEBOARD_RUN_ID": str(run.id),
        "WAKEBOARD_RUN_UUID": str(run.uuid),
        "WAKEBOARD_ATTEMPT": "1",
        "WAKEBOARD_SCHEDULED_FOR": "2026-01-05T08:00:00Z",
        "WAKEBOARD_PAYLOAD": '{"cronJob": "report"}',
    }
    assert job["metadata"]["labels"]["wakeboard.dev/run"] == str(run.id)
    assert job["metadata"]["annotations"]["wakeboard.dev/schedule"] == f"{pool.namespace}/nightly"
    assert template["metadata"]["labels"]["wakeboard.dev/run-uuid"] == str(run.uuid)
    assert list(run.steps) == ["Job 1", "Job 1 scheduled", "Job 1 started", "Job 1 ended"]
    assert run.steps["Job 1"]["logs"].startswith(f"kubectl logs --namespace {pool.namespace} job/report-wb-")
    assert run.steps["Job 1 scheduled"]["node"] == "node-1"
    assert run.steps["Job 1 ended"]["exit_code"] == 0


@pytest.mark.parametrize("message", ["[1]", '{"output": 1}'])
async def test_the_log_is_not_read_for_a_result_in_json(
    pool: Pool, caplog: pytest.LogCaptureFixture, message: str
) -> None:
    caplog.set_level("INFO")
    await pool.pods.apply_cron_job()
    attempt = pool.start(pool.run())
    await pool.pods.end(await pool.pods.start(), message=message)
    assert (await attempt).result == json.loads(message)
    assert "the log of pod" not in caplog.text, "no node answers the request"


# -- exactly one Job per attempt ---------------------------------------------------------------------------------------


async def test_a_worker_that_takes_over_adopts_the_job(pool: Pool) -> None:
    await pool.pods.apply_cron_job()
    run = pool.run()
    first = pool.start(run)
    pod = await pool.pods.start()
    await pool.recorded(run, "Job 1 started")
    await _lose_lease(run, first)
    second = pool.start(run, pool.process())
    await pool.pods.end(pod, message="1")
    assert (await second).result == 1
    assert len(await pool.pods.jobs()) == 1


async def test_two_workers_that_believe_to_have_the_run_share_one_job(pool: Pool) -> None:
    await pool.pods.apply_cron_job()
    run = pool.run()
    stale = pool.run(id=run.id, uuid=run.uuid)
    both = [pool.start(run), pool.start(stale, pool.process())]
    await pool.pods.end(await pool.pods.start(), message="1")
    assert [(await each).result for each in both] == [1, 1]
    assert len(await pool.pods.jobs()) == 1


async def test_a_job_deleted_by_hand_is_a_failed_attempt_that_says_so(pool: Pool) -> None:
    await pool.pods.apply_cron_job()
    attempt = pool.start(run := pool.run())
    pod = await pool.pods.start()
    await pool.recorded(run, "Job 1 started")
    job = (await pool.pods.one_job())["metadata"]["name"]
    await pool.pods.call("DELETE", f"/apis/batch/v1 jobs/{job}", {"propagationPolicy": "Background"})
    await pool.pods.deleting(pod)
    assert not attempt.done()
    await pool.pods.remove(pod)
    outcome = await attempt
    assert (outcome.status, str(outcome.error)) == ("failed", f"the Job {job} was deleted before it ended")


async def test_a_pod_that_outlives_its_deleted_job_is_named(pool: Pool) -> None:
    await pool.pods.apply_cron_job(pod={"terminationGracePeriodSeconds": 1})
    attempt = pool.start(run := pool.run())
    pod = await pool.pods.start()
    await pool.recorded(run, "Job 1 started")
    job = (await pool.pods.one_job())["metadata"]["name"]
    await pool.pods.call("DELETE", f"/apis/batch/v1 jobs/{job}", {"propagationPolicy": "Orphan"})
    assert f"was deleted before it ended; its pod {pod} has not ended" in str((await attempt).error)


async def test_a_recorded_job_that_was_deleted_meanwhile_is_not_created_again(pool: Pool) -> None:
    await pool.pods.apply_cron_job()
    run = pool.run()
    first = pool.start(run)
    await pool.recorded(run, "Job 1")
    await _lose_lease(run, first)
    job = (await pool.pods.one_job())["metadata"]["name"]
    await pool.pods.call("DELETE", f"/apis/batch/v1 jobs/{job}", {"propagationPolicy": "Background"})
    outcome = await pool.start(run, pool.process(jobs_ttl_seconds=900))
    assert str(outcome.error) == (
        f"the Job {job} no longer exists: it was deleted, or it ended more than 900 s ago while no worker followed it"
        " (jobs.ttlSeconds)"
    )
    assert await pool.pods.jobs() == []


async def test_the_next_attempt_has_a_job_of_the_edited_cron_job(pool: Pool) -> None:
    await pool.pods.apply_cron_job()
    run = pool.run()
    attempt = pool.start(run)
    await pool.pods.end(await pool.pods.start(), 1)
    assert (await attempt).status == "failed"
    edited = {"spec": {"jobTemplate": {"spec": {"template": {"spec": {"priority": 0, "hostname": "edited"}}}}}}
    await pool.pods.call("PATCH", "/apis/batch/v1 cronjobs/report", edited, "application/merge-patch+json")
    _next_attempt(run)
    attempt = pool.start(run)
    await pool.pods.end(await pool.pods.start(), message="2")
    assert (await attempt).result == 2
    first, second = await pool.pods.jobs()
    assert "hostname" not in first["spec"]["template"]["spec"]
    assert second["spec"]["template"]["spec"]["hostname"] == "edited"
    assert "Job 2 ended" in run.steps


async def test_the_former_job_is_gone_before_the_next_is_created(pool: Pool) -> None:
    await pool.pods.apply_cron_job()
    run = pool.run()
    first = pool.start(run)
    pod = await pool.pods.start()
    await pool.recorded(run, "Job 1 started")
    await _lose_lease(run, first)
    _next_attempt(run)
    second = pool.start(run)
    await pool.pods.deleting(pod)
    assert len(await pool.pods.jobs()) == 1
    await pool.pods.remove(pod)
    await pool.pods.end(await pool.pods.start(), message="2")
    assert (await second).result == 2


# -- cancel ------------------------------------------------------------------------------------------------------------


async def test_a_cancelled_run_ends_when_its_pod_is_gone(pool: Pool) -> None:
    await pool.pods.apply_cron_job()
    attempt = pool.start(run := pool.run())
    pod = await pool.pods.start()
    await pool.recorded(run, "Job 1 started")
    run.cancel()
    await pool.pods.deleting(pod)
    await asyncio.sleep(0.5)  # nothing tells that the attempt goes on
    assert not attempt.done()
    await pool.pods.remove(pod)
    assert (await attempt).status == "cancelled"
    assert await pool.pods.jobs() == []


async def test_a_run_cancelled_before_its_pod_is_scheduled_leaves_no_job(pool: Pool) -> None:
    await pool.pods.apply_cron_job()
    attempt = pool.start(run := pool.run())
    await pool.pods.one_pod()
    run.cancel()
    assert (await attempt).status == "cancelled"
    assert await pool.pods.jobs() == []


# -- what the cluster says ---------------------------------------------------------------------------------------------


async def test_a_template_of_more_than_a_megabyte_is_run(pool: Pool) -> None:
    env = [{"name": f"V{number}", "value": 10_000 * "x"} for number in range(130)]
    await pool.pods.apply_cron_job(
        "report", {"containers": [{"name": "main", "image": "example.com/report:1", "env": env}]}
    )
    attempt = pool.start(run := pool.run())
    await pool.recorded(run, "Job 1")
    run.cancel()
    assert (await attempt).status == "cancelled"


@pytest.mark.parametrize("delay", ["disruption", "suspension"])
async def test_a_pod_has_its_whole_time_to_start_whenever_it_comes(pool: Pool, delay: str) -> None:
    is_suspended = delay == "suspension"
    await pool.pods.apply_cron_job(suspend=is_suspended)
    attempt = pool.start(run := pool.run(), pool.process(jobs_start_seconds=START_S))
    job = await pool.pods.one_job()
    first = "" if is_suspended else await pool.pods.start()
    if not is_suspended:
        await pool.recorded(run, "Job 1 started")
    while _age_s(job) < START_S:  # noqa: ASYNC110 - the event is in a clock
        await asyncio.sleep(0.1)
    if is_suspended:
        path = f"/apis/batch/v1 jobs/{job['metadata']['name']}"
        await pool.pods.call("PATCH", path, {"spec": {"suspend": False}}, "application/merge-patch+json")
    else:
        evicted = {"type": "DisruptionTarget", "status": "True", "reason": "PreemptionByScheduler"}
        await pool.pods.end(first, 143, conditions=[evicted])
    await pool.pods.one_pod()
    await _reported(pool, pool.handlers[-1])
    await pool.pods.end(await pool.pods.start(), message="1")
    assert (await attempt).result == 1


async def test_the_result_is_that_of_the_replacing_pod(pool: Pool) -> None:
    is_busy = {"containerName": "main", "operator": "In", "values": [75]}
    rules = [{"action": "Ignore", "onExitCodes": is_busy}]
    await pool.pods.apply_cron_job("report", {"restartPolicy": "Never"}, podFailurePolicy={"rules": rules})
    attempt = pool.start(pool.run())
    await pool.pods.end(await pool.pods.start(), 75)
    await pool.pods.end(await pool.pods.start(), message="1")
    assert (await attempt).result == 1


async def test_a_failure_for_which_the_policy_fails_the_job_is_not_retried(pool: Pool) -> None:
    rules = [{"action": "FailJob", "onExitCodes": {"containerName": "main", "operator": "In", "values": [42]}}]
    await pool.pods.apply_cron_job("report", {"restartPolicy": "Never"}, podFailurePolicy={"rules": rules})
    attempt = pool.start(pool.run())
    await pool.pods.end(await pool.pods.start(), 42)
    outcome = await attempt
    assert outcome.status == "discarded"
    assert "exit code 42 matching FailJob rule" in str(outcome.error)


# -- the order of reports ----------------------------------------------------------------------------------------------


async def test_a_pod_may_be_reported_before_its_jobs_creation_is_answered(
    pool: Pool, monkeypatch: pytest.MonkeyPatch
) -> None:
    await pool.pods.apply_cron_job()
    answer = _hold_answers(monkeypatch, "POST")
    handler = pool.process(jobs_start_seconds=3)
    attempt = pool.start(run := pool.run(), handler)
    pod = (await pool.pods.one_pod())["metadata"]["name"]
    words = "0/3 nodes are available: 3 Insufficient memory."
    await _not_schedulable(pool, pod, words)
    await _reported(pool, handler)
    assert not run.steps
    pods_read = _requests(monkeypatch, "/pods")
    answer.set()
    error = (await attempt).error
    assert (type(error).__name__, str(error)) == ("FailedScheduling", f"{words} (pod {pod}, after 3 s)")
    assert len(pods_read) == 1  # before the Job is deleted


async def test_a_job_may_end_before_its_creation_is_answered(pool: Pool, monkeypatch: pytest.MonkeyPatch) -> None:
    await pool.pods.apply_cron_job()
    answer = _hold_answers(monkeypatch, "POST")
    attempt = pool.start(run := pool.run())
    await pool.pods.end(await pool.pods.schedule(), message="1")
    await pool.pods.ended()
    await _reported(pool, pool.handler)
    assert not run.steps
    answer.set()
    assert (await attempt).result == 1


async def test_a_job_that_ends_while_it_is_adopted_ends_the_attempt(
    pool: Pool, monkeypatch: pytest.MonkeyPatch
) -> None:
    await pool.pods.apply_cron_job()
    first = pool.start(run := pool.run())
    pod = await pool.pods.start()
    await pool.recorded(run, "Job 1 started")
    await _lose_lease(run, first)
    second_process = pool.process()
    await pool.start(pool.run({"cronJob": "none"}), second_process)  # starts its watches
    answer = _hold_answers(monkeypatch, "GET")
    second = pool.start(run, second_process)
    await pool.pods.end(pod, message="1")
    await pool.pods.ended()
    await _reported(pool, second_process)
    answer.set()
    assert (await second).result == 1


async def test_a_started_pod_is_not_ended_because_a_watch_is_late(pool: Pool) -> None:
    await pool.pods.apply_cron_job()
    handler = pool.process(jobs_start_seconds=START_S)
    attempt = pool.start(run := pool.run(), handler)
    await pool.recorded(run, "Job 1")
    assert handler.cluster is not None
    await handler.cluster.tracker.stop()
    pod = await pool.pods.start()
    await pool.recorded(run, "Job 1 started")
    handler.cluster.tracker.start()
    await pool.pods.end(pod, message="1")
    assert (await attempt).result == 1


# ----------------------------------------------------------------------------------------------------------------------


def _age_s(job: dict[str, Any]) -> float:
    return (datetime.now(UTC) - datetime.fromisoformat(job["metadata"]["creationTimestamp"])).total_seconds()


async def _lose_lease(run: FakeRun, attempt: asyncio.Task[Outcome]) -> None:
    """The lease expires. The store gives the attempt back."""
    run.lose_lease()
    assert (await attempt).status == "lease lost"
    run.stopped_because, run.attempt = None, run.attempt - 1


def _next_attempt(run: FakeRun) -> None:
    """The run failed, and is due again later."""
    run.attempt, run.run_at = 2, run.run_at + timedelta(seconds=10)


def _hold_answers(monkeypatch: pytest.MonkeyPatch, method: str) -> asyncio.Event:
    """From now on the answers to requests of this kind wait for the event."""
    released, request = asyncio.Event(), ApiClient.request

    async def held(client: ApiClient, verb: str, *words: Any) -> Any:
        found = await request(client, verb, *words)
        if verb == method:
            await released.wait()
        return found

    monkeypatch.setattr(ApiClient, "request", held)
    return released


def _requests(monkeypatch: pytest.MonkeyPatch, end: str) -> list[str]:
    """The paths of requests from now on that end like this."""
    found: list[str] = []
    request = ApiClient.request

    async def noted(client: ApiClient, verb: str, path: str, *words: Any) -> Any:
        if path.endswith(end):
            found.append(path)
        return await request(client, verb, path, *words)

    monkeypatch.setattr(ApiClient, "request", noted)
    return found


async def _reported(pool: Pool, handler: JobHandler) -> None:
    """Waits until the watches of a process have reported the present state of all Jobs and pods."""
    assert handler.cluster is not None
    for kind, found in (("/jobs", await pool.pods.jobs()), ("/pods", await pool.pods.pods())):
        newest = max(int(each["metadata"]["resourceVersion"]) for each in found)
        (watch,) = (watch for watch in handler.cluster.tracker.watches if watch.path.endswith(kind))
        while int(watch.version) < newest:  # noqa: ASYNC110 - the event is in a watch
            await asyncio.sleep(0.01)


async def _not_schedulable(pool: Pool, pod: str, words: str) -> None:
    """Reports that the scheduler finds no node for a pod."""
    condition = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": words}
    body = {"status": {"conditions": [condition]}}
    await pool.pods.call("PATCH", f"/api/v1 pods/{pod}/status", body, "application/strategic-merge-patch+json")


async def test_a_pool_offers_the_cron_jobs_that_exist(pool: Pool) -> None:
    assert await pool.handler.offered() == [f"{pool.namespace}/"]
    await pool.pods.apply_cron_job()
    assert await pool.handler.offered() == [f"{pool.namespace}/report"]
