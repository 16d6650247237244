"""Handlers of the job type `job` in one namespace, and the pods that they start."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from testbed.cluster.job_pods import JobPods
from wakeboard.settings import read_settings
from wakeboard.testing import FakeRun, Outcome, run_handler
from wakeboard_worker.builtin.jobs.handler import JobHandler

if TYPE_CHECKING:
    from pathlib import Path

    from testbed.cluster.cluster import Cluster
    from wakeboard_worker.builtin.jobs.tracker import Tracker


class Pool:
    """Handlers of one pool, and the pods that they start."""

    def __init__(self, cluster: Cluster, namespace: str, token_file: Path) -> None:
        self.cluster, self.namespace, self.token_file = cluster, namespace, token_file
        self.pods = JobPods(cluster, namespace)
        self.handlers: list[JobHandler] = []
        self._attempts: dict[int, asyncio.Task[Outcome]] = {}
        self.handler = self.process()

    def process(self, **settings: Any) -> JobHandler:
        """The handler of another worker process."""
        self.handlers.append(JobHandler(read_settings(**self.settings(), **settings)))
        return self.handlers[-1]

    def settings(self) -> dict[str, str]:
        """The settings of its workers."""
        return {
            "jobs_namespaces": self.namespace,
            "jobs_api_server": self.cluster.url,
            "jobs_ca_file": str(self.cluster.folder / "pki" / "ca.crt"),
            "jobs_token_file": str(self.token_file),
        }

    def run(self, payload: Any = None, **fields: Any) -> FakeRun:
        """A run of a schedule in the namespace."""
        return FakeRun(payload or {"cronJob": "report"}, schedule=f"{self.namespace}/nightly", **fields)

    @property
    def tracker(self) -> Tracker:
        """What the first process follows."""
        assert self.handler.cluster is not None
        return self.handler.cluster.tracker

    async def close(self) -> None:
        """Ends all processes."""
        for handler in self.handlers:
            await handler.close()

    def start(self, run: FakeRun, handler: JobHandler | None = None) -> asyncio.Task[Outcome]:
        """Starts an attempt."""
        self._attempts[run.id] = asyncio.create_task(run_handler(handler or self.handler, run))
        return self._attempts[run.id]

    async def recorded(self, run: FakeRun, step: str) -> None:
        """Waits until the newest attempt of a run has recorded a step."""
        while step not in run.steps:
            attempt = self._attempts[run.id]
            assert not attempt.done(), f"the attempt ended before {step!r}: {attempt.result()}"
            await asyncio.sleep(0.01)
