"""One wake of a worker, from its first connection to its deregister_worker.

    connect → register → duties (ticks, lapsed leases) → claim, run, complete … → deregister_worker

Four things go on side by side: claiming (connection 1), running, telling outcomes (connection 2), and the heartbeat
(a thread, connection 3). Handlers that make steps or effects share a fourth, opened when the first one does.
"""

from __future__ import annotations

import asyncio
import math
import os
import socket
import time
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Any

from wakeboard import __version__
from wakeboard.errors import DatabaseUnavailable, LoginRefused, WakeboardError
from wakeboard.handlers import load_handlers
from wakeboard.maintenance.loop import MaintenanceLoop
from wakeboard.maintenance.retention import Retention
from wakeboard.rules.humanize import counted
from wakeboard.run import SHUTDOWN
from wakeboard.store.connection import describe_dsn, require_schema
from wakeboard.store.reconnecting import ReconnectingConnection
from wakeboard.store.worker_api import Release, Worker, WorkerStore
from wakeboard_worker.attempt import AttemptContext
from wakeboard_worker.builtin import builtin_handlers, close_builtin
from wakeboard_worker.completer import Completer
from wakeboard_worker.coroutine_executor import CoroutineExecutor
from wakeboard_worker.fetcher import Fetcher
from wakeboard_worker.heartbeat import Heartbeat
from wakeboard_worker.in_flight import InFlightBuffer
from wakeboard_worker.logs import log, outages
from wakeboard_worker.signals import INSISTED
from wakeboard_worker.thread_executor import ThreadExecutor

if TYPE_CHECKING:
    from collections.abc import Coroutine, Sequence

    from wakeboard.settings import Settings
    from wakeboard.store.maintenance_api import Store
    from wakeboard_worker.signals import StopSignal

CONNECT_FOR_S = 10.0  # a draining worker's patience with a database that is away
SWEEP_EVERY_S = 0.5
BETWEEN_ROUNDS_S = 1.0
UNWIND_S = 2.0  # for handlers that were cancelled at the end
BLOCKED_S = 2.0  # for outcomes whose runs are locked, at the end
UNDER_WAY_S = 1.0  # a statement that the database had when its answer was given up may be done so much later


async def run_worker(settings: Settings, stay_s: float, stopping: StopSignal) -> int:
    """One wake; its exit code. Raises WakeboardError when it could not work at all."""
    builtin = builtin_handlers(settings)
    handlers = load_handlers(settings.handlers, builtin)
    worker = _introduce(settings)
    dsn = settings.dsn.get_secret_value()
    claims, outcomes, blocked, effects = (
        ReconnectingConnection(
            dsn,
            f"wakeboard {purpose} {worker.name}",
            partial(WorkerStore, worker=worker),
            prepared_statements=settings.prepared_statements,
        )
        for purpose in ("claims", "outcomes", "blocked outcomes", "handlers")
    )
    try:
        if not await _unless_stopped(_registered(claims, list(handlers), stay_s), stopping):
            return 0
        if stay_s == math.inf:
            _tell_start(settings, dsn, list(handlers))
        context = AttemptContext(asyncio.get_running_loop(), worker.worker_id, effects.store)
        in_flight = InFlightBuffer(handlers, context, settings.concurrency, settings.threads)
        code = await _Wake(settings, stay_s, stopping, worker, in_flight, claims, outcomes, blocked).run()
        if (
            in_flight.lost_sight_at is None
        ):  # otherwise leases of it may be left: its silence tells others to look for them
            await _say_goodbye(claims)
        return code
    finally:
        for line in (claims, outcomes, blocked, effects):
            with suppress(Exception):
                await line.close()
        await close_builtin(builtin)


def _introduce(settings: Settings) -> Worker:
    host = socket.gethostname()
    worker_id = (int.from_bytes(os.urandom(8), "big") >> 1) or 1
    return Worker(
        worker_id=worker_id,
        name=os.environ.get("WAKEBOARD_WORKER_NAME") or f"{host}-{os.getpid()}",
        pool=settings.pool,
        host=host,
        version=__version__,
        queues=settings.queues,
        capacity=settings.concurrency,
        lease_s=settings.lease_seconds,
        max_timeout_s=settings.max_timeout_seconds,
        max_workers=settings.max_workers,
    )


def _tell_start(settings: Settings, dsn: str, job_types: Sequence[str]) -> None:
    """Logs what a staying worker serves: without runs it may log nothing more for hours."""
    log.info(
        "ready: %s; pool %s, %s, up to %s at once; knows %s",
        describe_dsn(dsn),
        settings.pool,
        f"queues {', '.join(settings.queues)}" if len(settings.queues) > 1 else f"queue {settings.queues[0]}",
        counted(settings.concurrency, "run"),
        ", ".join(sorted(job_types)),
    )


async def _unless_stopped(work: Coroutine[Any, Any, bool], stopping: StopSignal) -> bool:
    """What it answers, or False when somebody says stop: a database that is silent keeps nobody from leaving."""
    task, loop = asyncio.ensure_future(work), asyncio.get_running_loop()
    stopping.tell(lambda: loop.call_soon_threadsafe(task.cancel))
    try:
        return await task
    except asyncio.CancelledError:
        if stopping.asked:
            return False
        raise


async def _registered(line: ReconnectingConnection[WorkerStore], job_types: Sequence[str], stay_s: float) -> bool:
    """Connects, and says who works here; a draining worker tries for ten seconds, others for ever.

    False: the pool has workers enough. Raises LoginRefused at once: a worker that is started anew reads a new password.
    """
    give_up_at = time.monotonic() + CONNECT_FOR_S
    while True:
        try:
            worker_store = await line.store()
            await require_schema(worker_store.conn)
            registered = await worker_store.register_worker(job_types)
        except LoginRefused:
            raise
        except DatabaseUnavailable as error:
            if stay_s < math.inf and time.monotonic() > give_up_at:
                raise
            outages.lost("start", error)
            await line.pause()
        else:
            outages.recovered("start")
            if registered:
                return True
            me = worker_store.worker
            log.info("pool %s has %s already; this worker exits", me.pool, counted(me.max_workers or 0, "worker"))
            return False


async def first_end(tasks: Sequence[asyncio.Task[None]]) -> None:
    """Waits until one of them ends, and raises what ended it: without its fellows none of them is of any use."""
    ended, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    for task in ended:
        task.result()


async def _say_goodbye(line: ReconnectingConnection[WorkerStore]) -> None:
    try:
        async with asyncio.timeout(5):
            await (await line.store()).deregister_worker()
    except (WakeboardError, TimeoutError) as error:
        log.warning("could not say deregister_worker: %s", error)


class _Wake:
    """The parts of a running worker, put together."""

    def __init__(
        self,
        settings: Settings,
        stay_s: float,
        stopping: StopSignal,
        worker: Worker,
        in_flight: InFlightBuffer,
        claims: ReconnectingConnection[WorkerStore],
        outcomes: ReconnectingConnection[WorkerStore],
        blocked: ReconnectingConnection[WorkerStore],
    ) -> None:
        self._settings, self._stay_s, self._stopping, self._desk = settings, stay_s, stopping, in_flight
        self._claims = claims
        self._heartbeat = Heartbeat(settings.dsn.get_secret_value(), worker, in_flight)
        self._slots, self._threads = CoroutineExecutor(in_flight), ThreadExecutor(in_flight)
        self._settling = Completer(in_flight, outcomes, blocked, self._heartbeat, settings.lease_seconds)
        self._rounds = _rounds(settings)
        self._next_round = 0.0
        self._claiming = Fetcher(
            in_flight, self._slots, self._threads, claims, self._heartbeat, settings, stay_s, self._make_rounds
        )

    async def run(self) -> int:
        began = time.monotonic()
        loop = asyncio.get_running_loop()
        self._heartbeat.start()
        beside = self._settling.run(), self._settling.run_blocked(), self._look_after()
        background = [asyncio.create_task(each) for each in beside]
        if self._settings.listen and self._stay_s:
            background.append(asyncio.create_task(self._listen()))
        self._stopping.tell(lambda: loop.call_soon_threadsafe(self._claiming.stop))
        work = asyncio.create_task(self._work())
        try:
            await first_end([work, *background])
        finally:
            self._heartbeat.stop()
            self._threads.stop()
            for task in (work, *background):
                task.cancel()
            await asyncio.gather(work, *background, return_exceptions=True)
            await self._slots.stop()
        seconds = time.monotonic() - began
        log.info("wake over after %.1f s: %s", seconds, self._desk.counts, extra={"counts": str(self._desk.counts)})
        if self._threads.exhausted:
            log.error("half of the places are lost to handlers that cannot be stopped; this worker ends")
        return int(self._threads.exhausted or self._desk.stuck)

    async def _work(self) -> None:
        await self._claiming.run()
        await self._finish()

    # -- the end -------------------------------------------------------------------------------------------------------

    async def _finish(self) -> None:
        """Lets runs finish, only for the grace period if it must stop. Then it releases the rest in one call."""
        in_flight = self._desk
        grace_until = float("inf")
        while in_flight.running or in_flight.waiting or (in_flight.blocked and not in_flight.stuck):
            if (self._stopping.asked or in_flight.stuck) and grace_until == float("inf"):
                grace_until = time.monotonic() + self._settings.grace_seconds
                self._release_what_waits()
            if time.monotonic() >= grace_until or self._stopping.asked >= INSISTED:
                await self._give_back()
                break
            await self._wait_for_room(0.1)
        blocked_until = time.monotonic() + BLOCKED_S
        # Bounded: outcomes that cannot be sent before the leases lapse are dropped.
        while in_flight.untold or (in_flight.blocked and not in_flight.stuck and time.monotonic() < blocked_until):
            in_flight.flush.set()
            await self._wait_for_room(0.05)
        if in_flight.blocked:  # their leases lapse
            in_flight.lose_sight()

    def _release_what_waits(self) -> None:
        self._desk.release_waiting()
        self._threads.give_back_reserve()

    async def _give_back(self) -> None:
        in_flight = self._desk
        attempts = [attempt for executor in in_flight.executors for attempt in executor.running.values()]
        for attempt in attempts:
            attempt.stop(SHUTDOWN)
        unwound_at = time.monotonic() + UNWIND_S
        while in_flight.running and time.monotonic() < unwound_at:
            await self._wait_for_room(0.05)
        for attempt in attempts:
            if not attempt.settled:
                in_flight.settle(attempt, Release(attempt.id, attempt.epoch))

    async def _wait_for_room(self, seconds: float) -> None:
        self._desk.room.clear()
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._desk.room.wait()

    # -- beside --------------------------------------------------------------------------------------------------------

    async def _look_after(self) -> None:
        """Timeouts, handlers that do not stop, rows that wait for too long; raises what broke a part of this worker."""
        while True:
            await asyncio.sleep(SWEEP_EVERY_S)
            if self._desk.broken is not None:
                raise self._desk.broken
            self._desk.sweep()
            self._threads.sweep()

    async def _listen(self) -> None:
        """Wakes the claiming at each notice."""
        from wakeboard.store.notifications import notifications

        dsn = self._settings.dsn.get_secret_value()
        while True:
            try:
                async for _ in notifications(dsn):
                    self._desk.room.set()
            except WakeboardError as error:
                log.debug("not listening: %s", error)
            await asyncio.sleep(1.0)

    async def _make_rounds(self, conn: Any, at_once: bool = False) -> None:  # noqa: FBT001, FBT002 - one meaning
        """The duties that are due: ticks, lapsed leases, tidying; one round a second, and one `at_once` if need be."""
        from wakeboard.store.maintenance_api import Store

        now = time.monotonic()
        if now < self._next_round and not at_once:
            return
        self._next_round = now + BETWEEN_ROUNDS_S
        await self._take_back_my_own(Store(conn), now)
        done = await self._rounds.run_due(Store(conn), now)
        if done.ticks.runs or done.ticks.skipped:
            runs, skipped = counted(done.ticks.runs, "run"), counted(done.ticks.skipped, "tick")
            log.info("scheduled %s, skipped %s", runs, skipped)
        if conn.closed:  # nothing was done: the next connection makes this round
            self._next_round = 0.0
            log.info("the connection was lost during maintenance: %s", next(iter(done.failures.values()), ""))
            return
        for duty, error in done.failures.items():
            if isinstance(error, DatabaseUnavailable):
                outages.lost(f"duty {duty}", error)
                outages.remove(f"duty {duty}")  # claims report when the database answers again
            else:
                log.warning("the duty %s failed: %s", duty, error)

    async def _take_back_my_own(self, store: Store, now: float) -> None:
        """Leases that this living worker lost sight of lapse unseen: nobody is silent. So it asks for a walk itself."""
        from wakeboard.maintenance.reaper import reap

        lost_at = self._desk.lost_sight_at
        if lost_at is not None and now > lost_at + self._settings.lease_seconds + UNDER_WAY_S:
            self._desk.lost_sight_at = None
            await reap(store, always=True)


def _rounds(settings: Settings) -> MaintenanceLoop:
    return MaintenanceLoop(misfire_grace=settings.misfire_grace, retention=Retention.from_settings(settings))
