"""A Job that the cluster refuses is a failed attempt that says why."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from testbed.cluster.cluster import Refused
from testbed.cluster.job_pods import RULES
from wakeboard_worker.builtin.jobs.outcomes import CronJobMissing
from wakeboard_worker.builtin.jobs.template import job_name

if TYPE_CHECKING:
    from tests.cluster.job_pool import Pool

pytestmark = pytest.mark.anyio


async def test_a_missing_cron_job_is_a_failed_attempt_that_names_it(pool: Pool) -> None:
    outcome = await pool.start(pool.run())
    assert (outcome.status, str(outcome.error)) == ("failed", f"the namespace {pool.namespace} has no CronJob report")


async def test_a_job_that_a_quota_refuses_names_the_quota(pool: Pool) -> None:
    await pool.pods.apply_cron_job()
    await _quota(pool, {"count/jobs.batch": "0"})
    outcome = await pool.start(pool.run())
    assert outcome.status == "failed"
    assert "exceeded quota: small" in str(outcome.error)


async def test_pods_that_a_quota_refuses_name_the_quota(pool: Pool) -> None:
    await pool.pods.apply_cron_job()
    await _quota(pool, {"pods": "0"})
    outcome = await pool.start(pool.run())
    assert (outcome.status, type(outcome.error).__name__) == ("failed", "JobRefused")
    assert "exceeded quota: small" in str(outcome.error)
    assert await pool.pods.jobs() == []


@pytest.mark.parametrize(("group", "resource"), [("batch", "jobs"), ("", "pods")])
async def test_what_an_admission_policy_denies_is_a_failed_attempt_with_its_message(
    pool: Pool, group: str, resource: str
) -> None:
    await pool.pods.apply_cron_job()
    await pool.pods.deny(group, resource, "no containers on Mondays")
    outcome = await pool.start(pool.run())
    assert (outcome.status, type(outcome.error).__name__) == ("failed", "JobRefused")
    assert "no containers on Mondays" in str(outcome.error)
    assert await pool.pods.jobs() == []


async def test_missing_rights_are_a_failed_attempt_that_names_them(pool: Pool) -> None:
    rules = "/apis/rbac.authorization.k8s.io/v1 roles/jobs"
    await pool.pods.call("PATCH", rules, {"rules": RULES[1:]}, "application/merge-patch+json")
    while isinstance((error := (await pool.start(pool.run())).error), CronJobMissing):
        pass  # the API server has not read the role again
    assert 'cannot get resource "cronjobs"' in str(error)


async def test_a_job_of_another_client_fails_the_attempt_and_stays(pool: Pool) -> None:
    await pool.pods.apply_cron_job()
    run = pool.run()
    name = job_name("report", run.uuid, run.run_at)
    pod = {"restartPolicy": "Never", "containers": [{"name": "main", "image": "example.com/other:1"}]}
    await pool.pods.call(
        "POST", "/apis/batch/v1 jobs", {"metadata": {"name": name}, "spec": {"template": {"spec": pod}}}
    )
    outcome = await pool.start(run)
    assert str(outcome.error) == f"the namespace {pool.namespace} has a Job {name} that belongs to another run"
    assert len(await pool.pods.jobs()) == 1


async def _quota(pool: Pool, hard: dict[str, str]) -> None:
    """Sets a quota, and waits until the API server counts by it: at first it refuses with "status unknown"."""
    await pool.pods.call("POST", "/api/v1 resourcequotas", {"metadata": {"name": "small"}, "spec": {"hard": hard}})
    pod = {"restartPolicy": "Never", "containers": [{"name": "main", "image": "x"}]}
    is_pods = "pods" in hard
    path = f"{'/api/v1 pods' if is_pods else '/apis/batch/v1 jobs'}?dryRun=All"
    spec = pod if is_pods else {"template": {"spec": pod}}
    answer = ""
    while "exceeded quota" not in answer:
        try:
            await pool.pods.call("POST", path, {"metadata": {"name": "tried"}, "spec": spec})
        except Refused as error:
            answer = str(error)
