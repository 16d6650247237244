"""Serves /healthz, /readyz and /metrics on one port."""

from __future__ import annotations

import json
import time
from typing import TYPE_CHECKING, Final

from aiohttp import web

if TYPE_CHECKING:
    from wakeboard_operator.leadership import Leadership
    from wakeboard_operator.metrics import Metrics
    from wakeboard_operator.reconciler import Reconciler
    from wakeboard_operator.watch import WatchSupervisor

HEARTBEAT_TIMEOUT_S: Final = 30.0  # the event loop records a heartbeat every second
RESYNC_TIMEOUT_INTERVALS: Final = 3  # times reconcile_seconds


class OperatorHealth:
    """The health of this process. `reconciler` is that of the current term."""

    def __init__(
        self, leadership: Leadership, supervisor: WatchSupervisor, metrics: Metrics, reconcile_seconds: float
    ) -> None:
        self._leadership, self._supervisor, self._metrics = leadership, supervisor, metrics
        self._reconcile_seconds = reconcile_seconds
        self._began = self._heartbeat_at = time.monotonic()
        self.reconciler: Reconciler | None = None
        self.port = 0

    def heartbeat(self) -> None:
        """Records that the event loop runs."""
        self._heartbeat_at = time.monotonic()

    async def serve(self, port: int) -> web.AppRunner:
        """Serves on `port` until the runner is cleaned up. 0: a free port on loopback, see `port`. Raises OSError."""
        app = web.Application()
        app.router.add_get("/healthz", self._healthz)
        app.router.add_get("/readyz", self._readyz)
        app.router.add_get("/metrics", self._metrics_page)
        runner = web.AppRunner(app, access_log=None)
        await runner.setup()
        await web.TCPSite(runner, None if port else "127.0.0.1", port).start()
        self.port = runner.addresses[0][1]
        return runner

    def problems(self) -> list[str]:
        """Returns why this process is not ready, one sentence each. Empty: it is ready."""
        now = time.monotonic()
        leadership = self._leadership
        if leadership.database_error is not None:
            return [f"the database does not answer: {leadership.database_error}"]
        if leadership.state is None:
            return ["the leader is not known yet"]
        if (release := leadership.blocked_by()) is not None:
            return [f"an operator of release {release} leads"]
        if not leadership.is_leader():
            return []
        found: list[str] = []
        if leadership.problem is not None:
            found.append(leadership.problem)
        last = self.reconciler.last_resync_at if self.reconciler else None
        allowed_s = RESYNC_TIMEOUT_INTERVALS * self._reconcile_seconds
        if last is None:
            found.append("the first resync of this term has not finished")
        elif now - last > allowed_s:
            found.append(f"the last resync was {now - last:.0f} s ago")
        return found

    async def _healthz(self, _: web.Request) -> web.Response:
        still_s = time.monotonic() - self._heartbeat_at
        if still_s > HEARTBEAT_TIMEOUT_S:
            return web.Response(status=500, text=f"no event loop heartbeat for {still_s:.0f} s\n")
        return web.Response(text="ok\n")

    async def _readyz(self, _: web.Request) -> web.Response:
        problems = self.problems()
        leadership, reconciler = self._leadership, self.reconciler
        now = time.monotonic()
        last = reconciler.last_resync_at if reconciler else None
        document = {
            "ready": not problems,
            "problems": problems,
            "isLeader": leadership.is_leader(),
            "leader": leadership.state.leader if leadership.state else None,
            "term": leadership.term,
            "lastReconcileSecondsAgo": None if last is None else round(now - last, 1),
            "watchLastEventSecondsAgo": round(now - self._supervisor.changes.last_at, 1),
            "watchRestarts": self._supervisor.restarts,
        }
        return web.Response(
            status=503 if problems else 200, text=json.dumps(document) + "\n", content_type="application/json"
        )

    async def _metrics_page(self, _: web.Request) -> web.Response:
        page = self._metrics.text(self._leadership, self._supervisor)
        return web.Response(body=page, headers={"Content-Type": "text/plain; version=0.0.4; charset=utf-8"})
