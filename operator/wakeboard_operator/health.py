"""One port for those who ask: /healthz (restart me?), /readyz (send me work?), /metrics."""

from __future__ import annotations

import json
import time
from typing import TYPE_CHECKING, Final

from aiohttp import web

if TYPE_CHECKING:
    from wakeboard_operator.leadership import Leadership
    from wakeboard_operator.metrics import Metrics
    from wakeboard_operator.reconciler import Reconciler
    from wakeboard_operator.watch import Supervisor

BEAT_WITHIN_S: Final = 30.0  # the loop beats every second; restarting helps when it does not
RECONCILED_WITHIN: Final = 3  # times the interval


class Health:
    """What this process says of itself. `reconciler` is that of the term, while it leads."""

    def __init__(
        self, leadership: Leadership, supervisor: Supervisor, metrics: Metrics, reconcile_seconds: float
    ) -> None:
        self._leadership, self._supervisor, self._metrics = leadership, supervisor, metrics
        self._reconcile_seconds = reconcile_seconds
        self._began = self._beat_at = time.monotonic()
        self.reconciler: Reconciler | None = None
        self.trouble: str | None = None
        self.port = 0

    def beat(self) -> None:
        """The loop lives."""
        self._beat_at = time.monotonic()

    async def serve(self, port: int) -> web.AppRunner:
        """Answers on `port` (0: any free one; see `port`) until the runner is cleaned up. Raises OSError."""
        app = web.Application()
        app.router.add_get("/healthz", self._healthz)
        app.router.add_get("/readyz", self._readyz)
        app.router.add_get("/metrics", self._metrics_page)
        runner = web.AppRunner(app, access_log=None)
        await runner.setup()
        await web.TCPSite(runner, None if port else "127.0.0.1", port).start()  # a free port: one, on loopback
        self.port = runner.addresses[0][1]
        return runner

    def troubles(self) -> list[str]:
        """Why it is not ready, a sentence each; none: it is."""
        now = time.monotonic()
        leadership = self._leadership
        if leadership.database_error is not None:
            return [f"the database is away: {leadership.database_error}"]
        if leadership.state is None:
            return ["nobody has answered yet who leads"]
        if (release := leadership.blocked_by()) is not None:
            return [f"an operator of release {release} leads"]
        if not leadership.is_leader():
            return []
        found: list[str] = []
        if self.trouble is not None:
            found.append(self.trouble)
        last = self.reconciler.last_full_at if self.reconciler else None
        allowed_s = RECONCILED_WITHIN * self._reconcile_seconds
        if last is None:
            found.append("no complete list has been synced in this term yet")
        elif now - last > allowed_s:
            found.append(f"no complete list has been synced for {now - last:.0f} s")
        return found

    async def _healthz(self, _: web.Request) -> web.Response:
        still_s = time.monotonic() - self._beat_at
        if still_s > BEAT_WITHIN_S:
            return web.Response(status=500, text=f"the loop has not beaten for {still_s:.0f} s\n")
        return web.Response(text="ok\n")

    async def _readyz(self, _: web.Request) -> web.Response:
        troubles = self.troubles()
        leadership, reconciler = self._leadership, self.reconciler
        now = time.monotonic()
        last = reconciler.last_full_at if reconciler else None
        document = {
            "ready": not troubles,
            "troubles": troubles,
            "leads": leadership.is_leader(),
            "leader": leadership.state.leader if leadership.state else None,
            "term": leadership.term,
            "lastReconcileSecondsAgo": None if last is None else round(now - last, 1),
            "streamLastEventSecondsAgo": round(now - self._supervisor.changes.last_at, 1),
            "streamRestarts": self._supervisor.restarts,
        }
        return web.Response(
            status=503 if troubles else 200, text=json.dumps(document) + "\n", content_type="application/json"
        )

    async def _metrics_page(self, _: web.Request) -> web.Response:
        page = self._metrics.text(self._leadership, self._supervisor)
        return web.Response(body=page, headers={"Content-Type": "text/plain; version=0.0.4; charset=utf-8"})
