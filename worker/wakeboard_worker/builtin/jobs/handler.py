"""The job type `job`: runs what a CronJob of the schedule's namespace defines, as one Kubernetes Job per attempt.

    payload: {cronJob: nightly-report, env: {REGION: eu}, args: [--all]}

No pod spec comes from a payload. WAKEBOARD_JOBS_NAMESPACES names the namespaces whose CronJobs a pool may run, and
WAKEBOARD_JOBS_ALLOW_OVERRIDES whether payloads may set `env` and `args`.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress
from contextvars import Context
from pathlib import Path
from typing import TYPE_CHECKING, Any

from wakeboard.errors import Discard, WakeboardError
from wakeboard.jobs.queries import JobRunStore
from wakeboard.kube.api_server import SERVICE_ACCOUNT, ApiServer
from wakeboard.kube.client import METADATA_LIST, ApiClient, ApiError
from wakeboard.store.reconnecting import ReconnectingConnection
from wakeboard_worker.builtin.jobs.attempt import JobAttempt
from wakeboard_worker.builtin.jobs.cluster import CreationRate, JobCluster
from wakeboard_worker.builtin.jobs.orphans import sweep_forever
from wakeboard_worker.builtin.jobs.outcomes import JobRefused
from wakeboard_worker.builtin.jobs.payload import payload_of
from wakeboard_worker.builtin.jobs.tracker import ALL_NAMESPACES, JOBS_API, Tracker

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from wakeboard.engine.run import Run
    from wakeboard.jobs.queries import RunState
    from wakeboard.settings import Settings

OFFER_S = 3.0  # a registration waits for the lists of CronJobs
MAX_NAMES = 300  # of CronJobs that a worker offers; all of them fit into 64 KiB
STOP_GRACE_S = 8.0  # after the timeout, for the end of the pods; the lease holds for ten seconds


class JobHandler:
    """The handler of the job type `job`. Its watches start with the first run, as `cluster`; `close` ends them."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._server = ApiServer.from_settings(
            settings.jobs_api_server,
            settings.jobs_ca_file,
            "`job` needs a Kubernetes API server: run the worker in a cluster, or name a server in"
            " WAKEBOARD_JOBS_API_SERVER.",
        )
        token = settings.jobs_token_file or ("" if settings.jobs_api_server else str(SERVICE_ACCOUNT / "token"))
        self._token_file = Path(token) if token else None
        self._namespaces = [ALL_NAMESPACES] if ALL_NAMESPACES in settings.jobs_namespaces else settings.jobs_namespaces
        self._api: ApiClient | None = None
        self.cluster: JobCluster | None = None
        self._sweeper: asyncio.Task[None] | None = None
        self._runs = ReconnectingConnection(
            settings.dsn.get_secret_value(), f"wakeboard jobs {settings.pool}", JobRunStore
        )

    async def __call__(self, run: Run) -> Any:
        """Run the Job of this attempt and return its result. Raises Discard, JobFailed and its kin, and TimedOut."""
        payload = payload_of(run.payload, allow_overrides=self._settings.jobs_allow_overrides)
        if run.schedule is None:
            raise Discard("a job runs in the namespace of its schedule, and this run has none: create a JobSchedule")
        namespace = run.schedule.partition("/")[0]
        if namespace not in self._namespaces and self._namespaces != [ALL_NAMESPACES]:
            raise JobRefused(  # a retry may meet a worker that serves the namespace
                f"this pool runs no CronJobs of {namespace}: add it to WAKEBOARD_JOBS_NAMESPACES, or use another queue"
            )
        return await JobAttempt(run, payload, namespace, self._open()).execute()

    async def offered(self) -> list[str]:
        """Return `namespace/name` of each CronJob that it may run; only the namespace where their names are unknown."""
        if self._namespaces == [ALL_NAMESPACES]:
            return ["*"]
        offered, api = list(self._namespaces), self._client()
        with suppress(TimeoutError):
            async with asyncio.timeout(OFFER_S):
                for namespace in self._namespaces:
                    path = f"{JOBS_API}/namespaces/{namespace}/cronjobs"
                    try:
                        found = await api.request("GET", path, {"limit": str(MAX_NAMES)}, accept=METADATA_LIST)
                    except ApiError:
                        continue
                    items: list[dict[str, Any]] = found["items"] or []  # null if there are none
                    names: list[str] = [each["metadata"]["name"] for each in items]
                    if not found["metadata"].get("continue") and len(offered) + len(names) <= MAX_NAMES:
                        offered.remove(namespace)
                        offered += [f"{namespace}/{name}" for name in names or [""]]
        return offered

    async def close(self) -> None:
        """End the watches and close the connections. Call it in the event loop of the runs."""
        if self.cluster is not None:
            assert self._sweeper is not None
            tasks = [self._sweeper, *self.cluster.checks]
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            await self.cluster.tracker.stop()
            self.cluster = None
        if self._api is not None:
            await self._api.close()
            self._api = None
        await self._runs.close()

    def _client(self) -> ApiClient:
        self._api = self._api or ApiClient(self._server, self._token_file, agent="wakeboard-jobs")
        return self._api

    def _open(self) -> JobCluster:
        if self.cluster is None:
            settings, api = self._settings, self._client()
            tracker = Tracker(api, self._namespaces)
            self.cluster = JobCluster(
                api,
                tracker,
                CreationRate(settings.jobs_per_second),
                start_s=settings.jobs_start_seconds,
                ttl_s=settings.jobs_ttl_seconds,
                generation=self._generation,
                run_states=self.run_states,
            )
            tracker.start()
            self._sweeper = asyncio.create_task(sweep_forever(api, tracker, self.run_states), context=Context())
        return self.cluster

    async def run_states(self, ids: Sequence[int]) -> Mapping[int, RunState]:
        """The states of those runs that exist, by id. Raises WakeboardError."""
        return await (await self._runs.store()).run_states(ids)

    async def _generation(self, run_id: int) -> int | None:
        """The generation of the schedule that made the run; None: unknown. It is only shown."""
        with suppress(WakeboardError):
            state = (await self.run_states([run_id])).get(run_id)
            return state.generation if state else None
        return None
