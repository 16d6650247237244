"""Spawns workers: at each minute boundary, as the cluster's CronJob does, and as soon as a run becomes due.

Workers run in drain mode: a worker exits when no run is due or will be due within seconds. While a worker runs, no
other one is spawned, unless the first has reached its maximum lifetime and claims no more. Between two boundaries, the
spawner asks the store once a second, and after each notification, whether a run has *become* due since its last query.
So a run that no worker can claim (its queue is paused, its job type has no handler) causes one spawn, not one a second.
A notification that arrives while a worker runs counts when this worker has exited: it may claim no more.

When handlers, settings or alert rules change, the spawner stops idle workers and spawns a new one. A worker with
running runs finishes them first.
"""

from __future__ import annotations

import asyncio
import math
import signal
import sys
import time
from contextlib import suppress
from typing import TYPE_CHECKING, Final

from wakeboard.errors import WakeboardError
from wakeboard.local.child_process import ChildProcess
from wakeboard.local.messages import STARTUP_ERROR_PREFIX, UP, UpLine, worker_message

if TYPE_CHECKING:
    from collections.abc import Callable
    from datetime import datetime

    from wakeboard.local.messages import Problems
    from wakeboard.local.worker_settings import WorkerSettings
    from wakeboard.store.reconnecting import ReconnectingConnection
    from wakeboard.views.queries.recent_events import EventQueries

CHECK_INTERVAL_S: Final = 1.0
HEALTHY_AFTER_S: Final = 1.5  # a worker that still runs by then has imported its handlers


class WorkerSpawner:
    """Spawns and stops the workers. Calls `on_killed` when a signal has ended a worker."""

    def __init__(
        self,
        settings: WorkerSettings,
        connection: ReconnectingConnection[EventQueries],
        problems: Problems,
        *,
        emit: Callable[[UpLine], None],
        on_killed: Callable[[], None],
        wake_interval_s: float,
    ) -> None:
        self._settings, self._connection, self._problems = settings, connection, problems
        self._emit, self._on_killed = emit, on_killed
        self._wake_interval_s = wake_interval_s
        self._max_lifetime_s = settings.settings.max_lifetime_seconds
        self._workers: dict[ChildProcess, asyncio.Task[None]] = {}
        self._stopping: set[ChildProcess] = set()
        self._check_requested = asyncio.Event()
        self._unanswered = False  # a check was requested, and no worker was spawned and no query made since
        self._restart_requested = False
        self._checked_at: datetime | None = None
        self._next_wake_at = next_boundary(time.time(), wake_interval_s)
        self._startup_error = ""  # printed by the newest worker
        self.queues: list[str] = []  # that workers serve

    @property
    def worker_count(self) -> int:
        """How many workers run."""
        return len(self._running())

    @property
    def next_wake_s(self) -> float:
        """Seconds until the next minute boundary."""
        return self._next_wake_at - time.time()

    def request_check(self) -> None:
        """Asks whether runs are due now, without waiting for the next interval."""
        self._check_requested.set()

    def request_restart(self) -> None:
        """Replaces the workers, because handlers, settings or alert rules have changed."""
        self._restart_requested = True
        self._check_requested.set()

    async def run(self) -> None:
        """Spawns a worker at once, and others as the module docstring says, until cancelled."""
        await self._spawn()
        while True:
            await self._wait_for_check(min(self.next_wake_s, CHECK_INTERVAL_S))
            if self.next_wake_s <= 0:
                self._next_wake_at = next_boundary(time.time(), self._wake_interval_s)
                if not any(worker.age_s < self._max_lifetime_s for worker in self._running()):
                    await self._spawn()
            elif self._restart_requested:
                await self._restart()
            elif not self._running() and await self._is_due():
                await self._spawn()

    async def stop(self, timeout_s: float, force: asyncio.Event) -> None:
        """Asks the workers to finish. Kills those that still run after `timeout_s`, or when `force` is set."""
        for worker in self._running():
            worker.terminate()
        tasks = list(self._workers.values())
        forcing = asyncio.create_task(force.wait())
        pending = set(tasks)
        deadline = time.monotonic() + timeout_s
        while pending and time.monotonic() < deadline and not force.is_set():
            _, pending = await asyncio.wait(
                {*pending, forcing}, timeout=deadline - time.monotonic(), return_when=asyncio.FIRST_COMPLETED
            )
            pending.discard(forcing)
        for worker in self._running():
            worker.kill()
        forcing.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def _running(self) -> list[ChildProcess]:
        return [worker for worker in self._workers if worker.running]

    async def _wait_for_check(self, timeout_s: float) -> None:
        """Waits until the timeout or a request."""
        with suppress(TimeoutError):
            async with asyncio.timeout(max(0.0, timeout_s)):
                await self._check_requested.wait()
        self._unanswered = self._unanswered or self._check_requested.is_set()
        self._check_requested.clear()

    async def _is_due(self) -> bool:
        """After a request: whether any run is due. Otherwise: whether one became due since the last query."""
        requested, first = self._unanswered, self._checked_at is None
        try:
            live = await self._connection.store()
            answer = await live.due_since(None if requested else self._checked_at, self.queues)
        except WakeboardError:
            return False  # the event poller reports an unavailable database
        self._unanswered, self._checked_at = False, answer.at
        return answer.due and (requested or not first)

    async def _restart(self) -> None:
        if not self._running():
            self._restart_requested = False
            await self._spawn()
            return
        try:
            busy = await (await self._connection.store()).running(self.queues)
        except WakeboardError:
            return
        for worker in self._running():
            if not busy and worker not in self._stopping:
                self._stopping.add(worker)
                worker.terminate()

    async def _spawn(self) -> None:
        self._startup_error = ""
        try:
            worker = await ChildProcess.start(
                [sys.executable, "-P", "-m", "wakeboard_worker"],
                environment=self._settings.environment(self.queues),
                folder=self._settings.folder.cwd(),
                on_line=self._on_line,
            )
        except (WakeboardError, OSError) as error:
            self._set_problem(str(error))
            return
        self._unanswered = False  # it claims what is due
        self._workers[worker] = asyncio.create_task(self._supervise(worker))

    def _on_line(self, line: str) -> None:
        if line.startswith(STARTUP_ERROR_PREFIX):
            self._startup_error = line.removeprefix(STARTUP_ERROR_PREFIX)
        elif message := worker_message(line):
            self._emit(message)

    def _set_problem(self, problem: str = "") -> None:
        self._problems.update("workers", [problem] if problem else [])

    async def _supervise(self, worker: ChildProcess) -> None:
        exit_code = asyncio.create_task(worker.wait())
        await asyncio.wait([exit_code], timeout=HEALTHY_AFTER_S)
        if not exit_code.done():
            self._set_problem()
        await exit_code
        del self._workers[worker]
        self._stopping.discard(worker)
        self._report_exit(exit_code.result())
        if self._restart_requested:
            self._check_requested.set()

    def _report_exit(self, code: int) -> None:
        if code == 0:
            self._set_problem()
        elif code < 0:
            name = signal.Signals(-code).name
            text = f"A worker was killed by {name}. Its runs are queued again when their leases expire."
            self._emit(UpLine(UP, text, "warning"))
            self._on_killed()
        else:
            self._set_problem(self._startup_error or f"A worker exited with code {code}.")


def next_boundary(now: float, interval_s: float) -> float:
    """The next multiple of the interval, in seconds since the epoch."""
    return (math.floor(now / interval_s) + 1) * interval_s
