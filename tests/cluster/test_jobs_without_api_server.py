"""The job type `job` while the API server is away, starts, or does not answer, and while a Job waits for its turn."""

from __future__ import annotations

import asyncio
from functools import partial
from typing import TYPE_CHECKING, Any, Final

import pytest

from testbed.cluster.job_pods import make_job_account
from tests.cluster.job_pool import Pool
from wakeboard import testing
from wakeboard.kube.client import ApiClient, ApiRefused, ApiUnavailable
from wakeboard_worker.builtin.jobs import attempt as attempt_module
from wakeboard_worker.builtin.jobs import patient_requests

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    from testbed.cluster.control_plane import ControlPlane

pytestmark = pytest.mark.anyio

NO_ANSWER: Final = None
AT_MOST: Final = 100  # runs, for a slow machine
UNREACHABLE, BUSY, NOT_READY = (partial(ApiUnavailable, "away", status) for status in (0, 429, 503))


@pytest.fixture
async def shop(own_control_plane: ControlPlane, tmp_path: Path) -> AsyncIterator[Pool]:
    """A pool on a control plane of the test's own."""
    own_control_plane.call("POST", "/api/v1/namespaces", {"metadata": {"name": "shop"}})
    token = tmp_path / "token"
    token.write_text(await asyncio.to_thread(make_job_account, own_control_plane, "shop"))
    pool = Pool(own_control_plane, "shop", token)
    await pool.pods.apply_cron_job()
    yield pool
    await pool.close()


async def _succeeds(pool: Pool, attempt: asyncio.Future[Any]) -> None:
    """Ends the pod of the only Job, and with it the attempt."""
    await pool.pods.end(await pool.pods.start(), message="1")
    assert (await attempt).result == 1


async def test_no_attempt_fails_because_the_api_server_restarts(shop: Pool, own_control_plane: ControlPlane) -> None:
    runs = [shop.run()]
    attempts = [shop.start(runs[0])]
    pod = await shop.pods.start()
    await shop.recorded(runs[0], "Job 1 started")
    own_control_plane.api_server.kill()
    own_control_plane.api_server.start()
    is_ready = False
    while not is_ready:  # one of them asks while the server knows no roles yet
        if len(runs) < AT_MOST:
            runs.append(shop.run())
            attempts.append(shop.start(runs[-1]))
        await asyncio.sleep(0.05)
        is_ready = await asyncio.to_thread(own_control_plane.ready)
    while not all("Job 1" in run.steps for run in runs):
        for place, each in enumerate(attempts):
            if each.done():
                assert each.result().status == "snoozed"
                attempts[place] = shop.start(runs[place])
        await asyncio.sleep(0.05)
    assert len(await shop.pods.jobs()) == len(runs)
    await shop.pods.end(pod, message="1")
    assert (await attempts[0]).result == 1
    for each in attempts:
        each.cancel()
    await asyncio.wait(attempts)


@pytest.mark.parametrize(
    ("last", "is_executed", "problem"),
    [
        pytest.param("", False, UNREACHABLE, id="before the first request"),
        pytest.param("/cronjobs/report", False, BUSY, id="before the CronJob is read"),
        pytest.param("/jobs", False, NO_ANSWER, id="before the Job is created"),
        pytest.param("/jobs", True, NOT_READY, id="before it answers that the Job is created"),
    ],
)
async def test_an_attempt_that_cannot_reach_the_api_server_is_released(
    pool: Pool, monkeypatch: pytest.MonkeyPatch, last: str, is_executed: bool, problem: Any
) -> None:
    await pool.pods.apply_cron_job()
    with monkeypatch.context() as patched:
        patched.setattr(patient_requests, "release_after_s", _at_once)
        _end_answers(patched, last, problem, is_executed=is_executed)
        outcome = await pool.start(run := pool.run())
    assert (outcome.status, outcome.delay_s, run.attempt) == ("snoozed", 0, 1)
    assert run.steps["API server away"]["problem"]
    attempt = pool.start(run, pool.process())
    await _succeeds(pool, attempt)
    assert len(await pool.pods.jobs()) == 1


async def test_a_job_whose_end_cannot_be_seen_is_not_stopped_but_adopted(
    pool: Pool, monkeypatch: pytest.MonkeyPatch
) -> None:
    await pool.pods.apply_cron_job()
    with monkeypatch.context() as patched:
        patched.setattr(patient_requests, "release_after_s", _at_once)
        patched.setattr(attempt_module, "stop_after_s", _at_once)
        _end_answers(patched, "/jobs", UNREACHABLE, is_answered=True)
        outcome = await pool.start(run := pool.run())
    assert (outcome.status, outcome.delay_s) == ("snoozed", 0)
    attempt = pool.start(run, pool.process())
    await _succeeds(pool, attempt)


async def test_an_attempt_that_waited_long_is_released(pool: Pool, monkeypatch: pytest.MonkeyPatch) -> None:
    await pool.pods.apply_cron_job()
    monkeypatch.setattr(attempt_module, "AWAY_AFTER_S", 0.0)
    answers = iter([ApiUnavailable("away", 503)])
    _answer(monkeypatch, "/jobs", lambda: next(answers, None))
    outcome = await pool.start(run := pool.run())
    assert (outcome.status, outcome.delay_s) == ("snoozed", 0)
    attempt = pool.start(run)
    assert (await pool.pods.one_job())["spec"]["activeDeadlineSeconds"] == testing.TIMEOUT_S
    await _succeeds(pool, attempt)
    assert len(await pool.pods.jobs()) == 1


async def test_waiting_in_a_queue_does_not_count_against_the_timeout(
    pool: Pool, monkeypatch: pytest.MonkeyPatch
) -> None:
    await pool.pods.apply_cron_job(suspend=True)
    with monkeypatch.context() as patched:
        patched.setattr(patient_requests, "release_after_s", _at_once)
        outcome = await pool.start(run := pool.run())
    assert (outcome.status, outcome.delay_s, run.attempt) == ("snoozed", 0, 1)
    with monkeypatch.context() as patched:
        patched.setattr(attempt_module, "QUEUED_SHARE", 0.0)
        attempt = pool.start(run)
        await pool.recorded(run, "Job 1")
        await asyncio.sleep(2)  # the API server's times are whole seconds
        job = (await pool.pods.one_job())["metadata"]["name"]
        path = f"/apis/batch/v1 jobs/{job}"
        await pool.pods.call("PATCH", path, {"spec": {"suspend": False}}, "application/merge-patch+json")
        outcome = await attempt
    assert (outcome.status, outcome.delay_s) == ("snoozed", 0)
    await _succeeds(pool, pool.start(run))
    assert len(await pool.pods.jobs()) == 1


async def test_an_attempt_whose_turn_came_late_is_released(pool: Pool, monkeypatch: pytest.MonkeyPatch) -> None:
    await pool.pods.apply_cron_job()
    monkeypatch.setattr(attempt_module, "QUEUED_SHARE", 1 / testing.TIMEOUT_S)
    handler = pool.process(jobs_per_second=0.25)  # so the second turn comes late on a busy machine, too
    attempts = {pool.start(run, handler): run for run in (pool.run(), pool.run())}
    (released,), _ = await asyncio.wait(attempts, return_when=asyncio.FIRST_COMPLETED)
    run, outcome = attempts.pop(released), released.result()
    assert (outcome.status, outcome.delay_s, "Job 1" in run.steps) == ("snoozed", 0, True)
    attempts[pool.start(run, handler)] = run
    given = [job["spec"]["activeDeadlineSeconds"] for job in await pool.pods.jobs()]
    assert [testing.TIMEOUT_S - 3 < seconds <= testing.TIMEOUT_S for seconds in given] == [True, True]
    for _ in attempts:
        await pool.pods.end(await pool.pods.start(), message="1")
    assert [(await each).result for each in attempts] == [1, 1]


async def test_an_attempt_without_a_turn_is_released_without_a_job(pool: Pool, monkeypatch: pytest.MonkeyPatch) -> None:
    await pool.pods.apply_cron_job()
    handler = pool.process(jobs_per_second=0.001)
    first = pool.start(run := pool.run(), handler)
    await pool.recorded(run, "Job 1")
    monkeypatch.setattr(patient_requests, "release_after_s", _at_once)
    outcome = await pool.start(pool.run(), handler)
    assert (outcome.status, outcome.delay_s) == ("snoozed", 0)
    await _succeeds(pool, first)
    assert len(await pool.pods.jobs()) == 1


async def test_two_requests_that_change_a_quota_at_once_fail_no_attempt(
    pool: Pool, monkeypatch: pytest.MonkeyPatch
) -> None:
    await pool.pods.apply_cron_job()
    answers = iter([ApiRefused(409, "Conflict", "Operation cannot be fulfilled on resourcequotas")])
    _answer(monkeypatch, "/jobs", lambda: next(answers, None))
    attempt = pool.start(pool.run())
    await _succeeds(pool, attempt)


async def test_a_ready_server_that_creates_no_job_fails_the_attempt(
    pool: Pool, monkeypatch: pytest.MonkeyPatch
) -> None:
    await pool.pods.apply_cron_job()
    monkeypatch.setattr(patient_requests, "ANSWER_WITHIN_S", 0.1)
    _answer(monkeypatch, "/jobs", lambda: ApiUnavailable("failed calling webhook", 500))
    outcome = await pool.start(pool.run())
    assert (outcome.status, str(outcome.error)) == ("failed", "the API server refused the Job: failed calling webhook")


# ----------------------------------------------------------------------------------------------------------------------


def _at_once(*_: float) -> float:
    return 0.0


def _answer(monkeypatch: pytest.MonkeyPatch, end: str, error: Any) -> None:
    """Requests to such a path get the error that a call of `error` returns, or an answer if it returns None."""
    request = ApiClient.request

    async def answered(client: ApiClient, method: str, path: str, *words: Any) -> Any:
        if path.endswith(end) and method == "POST" and (found := error()) is not None:
            raise found
        return await request(client, method, path, *words)

    monkeypatch.setattr(ApiClient, "request", answered)


def _end_answers(
    monkeypatch: pytest.MonkeyPatch, last: str, problem: Any, *, is_executed: bool = False, is_answered: bool = False
) -> None:
    """The API server answers none of the requests from the first one whose path ends with `last` on."""
    request, is_away = ApiClient.request, not last

    async def unanswered(client: ApiClient, method: str, path: str, *words: Any) -> Any:
        nonlocal is_away
        first = not is_away and path.endswith(last) and (last != "/jobs" or method == "POST")
        is_away = is_away or first
        found = None
        if not is_away or (first and (is_executed or is_answered)):
            found = await request(client, method, path, *words)
        if not is_away or (first and is_answered):
            return found
        if problem is NO_ANSWER:
            await asyncio.Event().wait()
        raise problem()

    monkeypatch.setattr(ApiClient, "request", unanswered)
