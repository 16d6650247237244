"""The job type `job` in worker processes that are killed or stopped, with a database and a real API server."""

from __future__ import annotations

import asyncio
import signal
from typing import TYPE_CHECKING, Any

import pytest

from tests.chaos.processes import Watcher, Worker
from wakeboard.kube.client import ApiClient
from wakeboard_worker.builtin.jobs.orphans import sweep_forever

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    from tests.cluster.job_pool import Pool

pytestmark = pytest.mark.anyio


class Workers:
    """Worker processes of a pool, and the runs of a schedule in its namespace."""

    def __init__(self, pool: Pool, dsn: str, folder: Path, watcher: Watcher) -> None:
        self.pool, self.dsn, self.folder, self.watcher = pool, dsn, folder, watcher

    def worker(self, **settings: Any) -> Worker:
        """A worker that stays."""
        given = self.pool.settings() | {"handlers": "", "lease_seconds": 3, "grace_seconds": 0} | settings
        return Worker(self.dsn, self.folder, "--forever", **given)

    def enqueue(self, **columns: Any) -> int:
        """A run of the CronJob `report`."""
        columns = {"timeout_s": 600, **columns, "schedule": f"{self.pool.namespace}/nightly"}
        return self.watcher.enqueue("job", payload='{"cronJob": "report"}', **columns)[0]

    async def wait(self, query: str, *values: object) -> Any:
        """Waits until a query is true."""
        return await asyncio.to_thread(self.watcher.wait, query, *values)

    async def started(self, run: int) -> None:
        """Waits until the start of the pod is recorded."""
        query = (
            "select true from wakeboard.job_steps where run_id = %s and name like '%% started' and result is not null"
        )
        await self.wait(query, run)

    async def is_now(self, run: int, status: str) -> dict[str, Any]:
        """Waits for a status of the run. Returns the run."""
        await self.wait("select status::text = %s from wakeboard.all_runs where id = %s", status, run)
        return self.watcher.ask("select to_jsonb(run) from wakeboard.all_runs as run where id = %s", run)


@pytest.fixture
async def workers(pool: Pool, database: str, tmp_path: Path) -> AsyncIterator[Workers]:
    await pool.pods.apply_cron_job()
    with Watcher(database) as watcher:
        yield Workers(pool, database, tmp_path, watcher)


async def test_a_job_that_takes_too_long_is_gone_before_its_run_ends(workers: Workers) -> None:
    run = workers.enqueue(timeout_s=6, max_attempts=1)
    with workers.worker():
        pod = await workers.pool.pods.start()
        await workers.pool.pods.deleting(pod)
        assert workers.watcher.status(run) == "running"
        await workers.pool.pods.remove(pod)
        found = await workers.is_now(run, "dead")
    assert (found["error_type"], found["last_error"]) == ("Timeout", "it ran longer than its timeout of 6 s")
    assert await workers.pool.pods.jobs() == []


async def test_a_cancelled_run_holds_its_slot_until_its_pod_is_gone(workers: Workers) -> None:
    first, second = workers.enqueue(limit_key="db"), workers.enqueue(limit_key="db")
    with workers.worker():
        pod = await workers.pool.pods.start()
        workers.watcher.do("select wakeboard.cancel(array[%s::bigint])", first)
        await workers.pool.pods.deleting(pod)
        assert [workers.watcher.status(run) for run in (first, second)] == ["running", "queued"]
        await workers.pool.pods.remove(pod)
        await workers.is_now(first, "cancelled")
        await workers.pool.pods.end(await workers.pool.pods.start(), message="2")
        await workers.is_now(second, "succeeded")


async def test_the_job_of_a_run_cancelled_between_two_workers_is_deleted(workers: Workers) -> None:
    run = workers.enqueue()
    with workers.worker() as first:
        await workers.pool.pods.start()
        await workers.started(run)
        first.send(signal.SIGTERM)
        await asyncio.to_thread(first.exit_code)
    workers.watcher.do("select wakeboard.cancel(array[%s::bigint])", run)
    await workers.is_now(run, "cancelled")
    handler = workers.pool.process(dsn=workers.dsn)
    await workers.pool.start(workers.pool.run({"cronJob": "none"}), handler)  # starts its watches
    assert handler.cluster is not None
    api, tracker = handler.cluster.api, handler.cluster.tracker
    sweeper = asyncio.create_task(sweep_forever(api, tracker, handler.run_states, every_s=0.05, unfollowed_for_s=0))
    while "deletionTimestamp" not in (await workers.pool.pods.one_job())["metadata"]:  # noqa: ASYNC110
        await asyncio.sleep(0.05)
    sweeper.cancel()
    await asyncio.gather(sweeper, return_exceptions=True)


@pytest.mark.parametrize("is_cancelled", [True, False])
async def test_a_job_created_late_without_the_lease_stays_only_if_adoptable(
    workers: Workers, monkeypatch: pytest.MonkeyPatch, is_cancelled: bool
) -> None:
    run = workers.enqueue()
    ((uuid, run_at),) = workers.watcher.rows("select uuid, run_at from wakeboard.job_runs where id = %s", run)
    if is_cancelled:
        workers.watcher.do("select wakeboard.cancel(array[%s::bigint])", run)
        await workers.is_now(run, "cancelled")
    asked, resumed, created = asyncio.Event(), asyncio.Event(), asyncio.Event()
    request = ApiClient.request

    async def suspended(client: ApiClient, method: str, *words: Any, **named: Any) -> Any:
        if method == "POST":
            asked.set()
            await resumed.wait()
        found = await request(client, method, *words, **named)
        if method == "POST":
            created.set()
        return found

    monkeypatch.setattr(ApiClient, "request", suspended)
    handler = workers.pool.process(dsn=workers.dsn)
    attempt = workers.pool.start(stale := workers.pool.run(id=run, uuid=uuid, run_at=run_at), handler)
    await asked.wait()
    stale.lose_lease()
    assert (await attempt).status == "lease lost"
    resumed.set()
    await created.wait()
    assert handler.cluster is not None
    await asyncio.gather(*handler.cluster.checks)
    while is_cancelled and await workers.pool.pods.jobs():  # noqa: ASYNC110
        await asyncio.sleep(0.05)
    assert len(await workers.pool.pods.jobs()) == (0 if is_cancelled else 1)
