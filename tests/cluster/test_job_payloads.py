"""What the payload of a run of the type `job` may say."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from wakeboard.testing import FakeRun

if TYPE_CHECKING:
    from tests.cluster.job_pool import Pool

pytestmark = pytest.mark.anyio


@pytest.mark.parametrize(
    ("payload", "message"),
    [
        ([], "cronJob must name a CronJob"),
        ({}, "cronJob must name a CronJob"),
        ({"cronJob": "../secrets"}, "cronJob must name a CronJob"),
        ({"cronJob": "report", "image": "evil"}, "its payload has no field 'image'"),
        ({"cronJob": "report", "args": ["--drop"]}, "this pool lets no payload override env or args"),
        ({"cronJob": "report", "env": {"A": "2"}}, "this pool lets no payload override env or args"),
    ],
)
async def test_a_payload_cannot_change_what_a_cron_job_defines(pool: Pool, payload: Any, message: str) -> None:
    await pool.pods.apply_cron_job()
    outcome = await pool.start(FakeRun(payload, schedule=f"{pool.namespace}/nightly"))
    assert outcome.status == "discarded"
    assert message in str(outcome.error)
    assert await pool.pods.jobs() == []


@pytest.mark.parametrize(
    ("env", "message"),
    [
        ({"WAKEBOARD_RUN_ID": "1"}, "cannot set the variable 'WAKEBOARD_RUN_ID'"),
        ({"A=B": "1"}, "cannot set the variable 'A=B'"),
        ({"A": {"$secret": "x"}}, "env.A must be a text or a number"),
    ],
)
async def test_an_invalid_override_is_refused_with_one_sentence(pool: Pool, env: Any, message: str) -> None:
    outcome = await pool.start(pool.run({"cronJob": "report", "env": env}), pool.process(jobs_allow_overrides=True))
    assert outcome.status == "discarded"
    assert message in str(outcome.error)


async def test_a_pool_that_allows_it_passes_env_and_args_literally(pool: Pool) -> None:
    await pool.pods.apply_cron_job()
    payload = {"cronJob": "report", "env": {"A": "$(HOME)", "N": 2}, "args": ["$(A)", "$$"]}
    attempt = pool.start(pool.run(payload), pool.process(jobs_allow_overrides=True))
    await pool.pods.end(await pool.pods.start(), message="1")
    await attempt
    (container,) = (await pool.pods.one_job())["spec"]["template"]["spec"]["containers"]
    env = {each["name"]: each["value"] for each in container["env"]}
    assert (env["A"], env["N"], container["args"]) == ("$$(HOME)", "2", ["$$(A)", "$$$$"])


async def test_a_run_without_a_schedule_is_refused(pool: Pool) -> None:
    outcome = await pool.start(FakeRun({"cronJob": "report"}))
    assert outcome.status == "discarded"
    assert "this run has none: create a JobSchedule" in str(outcome.error)


async def test_a_schedule_starts_no_cron_job_of_another_pools_namespace(pool: Pool) -> None:
    outcome = await pool.start(FakeRun({"cronJob": "report"}, schedule="kube-system/nightly"))
    assert outcome.status == "failed"  # and retried: another worker of the queue may serve it
    assert "add it to WAKEBOARD_JOBS_NAMESPACES" in str(outcome.error)
