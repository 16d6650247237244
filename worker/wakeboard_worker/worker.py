"""Runs one worker, from its registration to its deregistration.

    connect → register → maintain (ticks, expired leases) → claim, run, complete … → deregister

The worker has a connection for each of these: claims and maintenance, outcomes, blocked outcomes, notifications,
heartbeats (in a thread), and the steps and effects of handlers. Each is opened when it is first needed.
"""

from __future__ import annotations

import asyncio
import logging
import math
import os
import socket
import time
from contextlib import ExitStack, suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, cast

from wakeboard import __version__
from wakeboard.dependencies.dependents import may_have_more
from wakeboard.engine.handlers import load_handlers
from wakeboard.engine.retention import Retention
from wakeboard.engine.run import SHUTDOWN
from wakeboard.engine.worker_api import Release, Worker, WorkerStore
from wakeboard.errors import DatabaseUnavailable, LoginRefused, WakeboardError
from wakeboard.maintenance import MaintenanceLoop
from wakeboard.process.failure_log import FailureLog
from wakeboard.process.telemetry import is_configured
from wakeboard.store.connection import describe_dsn, require_schema
from wakeboard.store.reconnecting import ReconnectingConnection
from wakeboard.text.humanize import counted, named_runs
from wakeboard_worker.attempt import AttemptContext
from wakeboard_worker.builtin import builtin_handlers, close_builtin, offers
from wakeboard_worker.completer import Completer
from wakeboard_worker.coroutine_executor import CoroutineExecutor
from wakeboard_worker.fetcher import Fetcher
from wakeboard_worker.heartbeat import Heartbeat
from wakeboard_worker.in_flight import InFlightBuffer, lease_of
from wakeboard_worker.log_capture import captured
from wakeboard_worker.logs import log, outages, run_lines
from wakeboard_worker.ready_file import ReadyFile
from wakeboard_worker.signals import STOP_NOW
from wakeboard_worker.termination_message import write_worker_id
from wakeboard_worker.thread_executor import ThreadExecutor

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Mapping, Sequence

    from wakeboard.alerts.rules.alert_rules import AlertSpec
    from wakeboard.engine.handlers import Handler
    from wakeboard.engine.maintenance_api import MaintenanceStore
    from wakeboard.settings import Settings
    from wakeboard_worker.builtin.http import Http
    from wakeboard_worker.signals import StopSignal
    from wakeboard_worker.tracing import Tracing

CONNECT_WITHIN_S = 10.0  # for a draining worker; others try until the database is available
CHECK_EVERY_S = 0.5
MAINTAIN_EVERY_S = 1.0
LISTEN_AGAIN_S = 3.0  # without notifications, the worker polls
ENDED = "ended"  # the payload of a notification
UNWIND_S = 2.0  # how long the shutdown waits for handlers that were stopped
BLOCKED_S = 2.0  # the shutdown waits for blocked outcomes for a lease and this, and then for this again
MAX_LABEL = 256  # characters
FLUSH_S = 3.0  # how long the end of the worker waits until spans and metrics are sent
MIN_CLAIM_REPLY_S = 10.0  # maintenance uses the connection of claims, too
LATE_STATEMENT_S = 1.0  # the database may execute a statement this long after the worker stopped waiting for the reply


async def run_worker(settings: Settings, stay_s: float, stop_signal: StopSignal) -> int:
    """Run a worker until nothing is due, but for `stay_s` at least. Returns the exit code.

    Raises WakeboardError if the worker could not start, or lost the database for too long.
    """
    ready_file = ReadyFile(settings.ready_file)
    builtin = builtin_handlers(settings)
    handlers = load_handlers(settings.handlers, builtin)
    worker = _describe_worker(settings, builtin)
    tracing = _start_tracing(worker, builtin) if is_configured(os.environ) else None
    dsn, lease_s = settings.dsn.get_secret_value(), settings.lease_seconds
    claims, outcomes, blocked, effects = (
        ReconnectingConnection(
            dsn,
            f"wakeboard {purpose} {worker.name}",
            partial(WorkerStore, worker=worker, after_claim=tracing.load if tracing is not None else None),
            prepared_statements=settings.prepared_statements,
            reply_s=reply_s,
        )
        for purpose, reply_s in (
            ("claims", max(lease_s, MIN_CLAIM_REPLY_S)),
            ("outcomes", lease_s / 2),  # which leaves time to report them again
            ("blocked outcomes", lease_s / 2),
            ("handlers", lease_s),
        )
    )
    captures = ExitStack()
    try:
        if not await _unless_stopped(_register(claims, list(handlers), stay_s), stop_signal):
            return 0
        write_worker_id(worker.worker_id)
        ready_file.create()
        stop_signal.add_listener(ready_file.remove)
        if stay_s == math.inf:
            _log_ready(settings, dsn, list(handlers))
        context = AttemptContext(asyncio.get_running_loop(), worker.worker_id, effects.store, tracing)
        context.logs = captures.enter_context(captured(settings, worker.name, handlers))
        if tracing is not None:
            handlers = tracing.traced_handlers(handlers)
        in_flight = InFlightBuffer(handlers, context, settings.concurrency, settings.threads)
        connections = _Connections(claims, outcomes, blocked)
        code = await _WorkerTasks(settings, stay_s, stop_signal, worker, in_flight, connections, ready_file).run()
        await asyncio.to_thread(captures.close)
        if in_flight.orphans_since is None:  # otherwise it stays registered until the reaper has found its leases
            await _deregister(claims)
        return code
    finally:
        captures.close()
        ready_file.remove()
        for connection in (claims, outcomes, blocked, effects):
            with suppress(Exception):
                await connection.close()
        await close_builtin(builtin)
        if tracing is not None:
            tracing.flush(FLUSH_S)


def _start_tracing(worker: Worker, builtin: Mapping[str, Handler]) -> Tracing | None:
    """Start OpenTelemetry. None: it does not start, and the log says why. Its import takes longer than a short wake."""
    from wakeboard.process import telemetry

    started = telemetry.start(
        "wakeboard-worker",
        {
            "service.version": worker.version,
            "service.instance.id": f"{worker.worker_id:016x}",
            "host.name": worker.host,
            "wakeboard.pool": worker.pool,
            **({"k8s.pod.uid": worker.pod_uid} if worker.pod_uid else {}),
        },
    )
    if started is None:
        return None
    from wakeboard_worker.tracing import Tracing

    tracing = Tracing(started)
    if "http" in builtin:
        cast("Http", builtin["http"].function).start_span = tracing.request
    return tracing


def _describe_worker(settings: Settings, builtin: Mapping[str, Handler]) -> Worker:
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
        pod_uid=os.environ.get("WAKEBOARD_POD_UID", "")[:MAX_LABEL],
        offers=partial(offers, settings, builtin),
    )


def _log_ready(settings: Settings, dsn: str, job_types: Sequence[str]) -> None:
    """Log what this worker serves. Without runs, a worker that stays may log nothing else for hours."""
    log.info(
        "ready: %s; pool %s, %s, up to %s at once; job types %s",
        describe_dsn(dsn),
        settings.pool,
        f"queues {', '.join(settings.queues)}" if len(settings.queues) > 1 else f"queue {settings.queues[0]}",
        counted(settings.concurrency, "run"),
        ", ".join(sorted(job_types)),
    )


async def _unless_stopped(work: Coroutine[Any, Any, bool], stop_signal: StopSignal) -> bool:
    """Return the result of `work`, or False after a stop signal, even if the database does not answer."""
    task, loop = asyncio.ensure_future(work), asyncio.get_running_loop()
    stop_signal.add_listener(lambda: loop.call_soon_threadsafe(task.cancel))
    try:
        return await task
    except asyncio.CancelledError:
        if stop_signal.count:
            return False
        raise


async def _register(connection: ReconnectingConnection[WorkerStore], job_types: Sequence[str], stay_s: float) -> bool:
    """Connect and register this worker. Returns False if the pool has enough workers.

    A draining worker tries for ten seconds, others until the database is available. Raises LoginRefused at once: the
    next worker process reads the new password.
    """
    deadline = time.monotonic() + CONNECT_WITHIN_S
    while True:
        try:
            store = await connection.store()
            await require_schema(store.conn)
            registered = await store.register_worker(job_types)
        except LoginRefused:
            raise
        except DatabaseUnavailable as error:
            if stay_s < math.inf and time.monotonic() > deadline:
                raise
            outages.lost("start", error)
            await connection.pause()
        else:
            outages.recovered("start")
            if not registered:
                workers = counted(store.worker.max_workers or 0, "worker")
                log.info("pool %s has %s already; this worker exits", store.worker.pool, workers)
            return registered


async def wait_for_first(tasks: Sequence[asyncio.Task[None]]) -> None:
    """Wait until one of the tasks ends, and raise its error. No task can work without the others."""
    ended, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    for task in ended:
        task.result()


async def _deregister(connection: ReconnectingConnection[WorkerStore]) -> None:
    try:
        async with asyncio.timeout(5):
            await (await connection.store()).deregister_worker()
    except (WakeboardError, TimeoutError) as error:
        log.warning("could not deregister the worker: %s", error)


def _alerts(settings: Settings) -> Callable[[], AlertSpec | None] | None:
    if not settings.alerts_file:
        return None
    from wakeboard.alerts.file import AlertFile  # imported late: most workers have no rules

    def log_problems(problems: Sequence[str]) -> None:
        for problem in problems:
            log.warning("alert rules: %s", problem)

    return AlertFile(Path(settings.alerts_file), log_problems).alerts


class _Connections(NamedTuple):
    claims: ReconnectingConnection[WorkerStore]
    outcomes: ReconnectingConnection[WorkerStore]
    blocked: ReconnectingConnection[WorkerStore]


class _WorkerTasks:
    """The tasks of a registered worker."""

    def __init__(
        self,
        settings: Settings,
        stay_s: float,
        stop_signal: StopSignal,
        worker: Worker,
        in_flight: InFlightBuffer,
        connections: _Connections,
        ready_file: ReadyFile,
    ) -> None:
        self._settings, self._stay_s, self._stop_signal, self._in_flight = settings, stay_s, stop_signal, in_flight
        self._worker, self._ready_file = worker, ready_file
        self._heartbeat = Heartbeat(settings.dsn.get_secret_value(), worker, in_flight)
        self._coroutines, self._threads = CoroutineExecutor(in_flight), ThreadExecutor(in_flight)
        self._completer = Completer(
            in_flight, connections.outcomes, connections.blocked, self._heartbeat, settings.lease_seconds
        )
        retention = Retention.from_settings(settings)
        self._maintenance = MaintenanceLoop(
            misfire_grace=settings.misfire_grace, retention=retention, alerts=_alerts(settings), between_claims=True
        )
        self._failures = FailureLog(log, what="the maintenance task", outages=outages)
        self._exhausted = False  # why the worker claims no more runs
        self._maintain_at = 0.0
        self._maintenance_spared = False  # in the last pass, because nothing was to be done
        self._runs_ended = False  # other runs may have waited for them
        self._fetcher = Fetcher(
            in_flight,
            self._coroutines,
            self._threads,
            connections.claims,
            self._heartbeat,
            settings,
            stay_s,
            self._maintain,
        )

    async def run(self) -> int:
        """Run all tasks until the worker is done. Returns the exit code."""
        began = time.monotonic()
        loop = asyncio.get_running_loop()
        self._heartbeat.start()
        coroutines = [self._completer.run(), self._completer.run_blocked(), self._check_periodically()]
        if self._settings.listen and self._stay_s:
            coroutines.append(self._listen())
        background = [asyncio.create_task(each) for each in coroutines]
        self._stop_signal.add_listener(lambda: loop.call_soon_threadsafe(self._fetcher.stop))
        work = asyncio.create_task(self._work())
        try:
            await wait_for_first([work, *background])
        finally:
            self._heartbeat.stop()
            self._threads.stop()
            for task in (work, *background):
                task.cancel()
            await asyncio.gather(work, *background, return_exceptions=True)
            await self._coroutines.stop()
        run_lines.count_omitted()
        seconds, counts = time.monotonic() - began, str(self._in_flight.counts)
        level = logging.INFO if self._in_flight.counts.claimed else logging.DEBUG  # a wake that found nothing is usual
        log.log(level, "worker finished after %.1f s: %s", seconds, counts, extra={"counts": counts})
        if self._exhausted:
            log.error("handlers that do not stop occupy half of the slots: this worker exits")
        return int(self._exhausted or self._in_flight.blocked_too_long)

    async def _work(self) -> None:
        try:
            await self._fetcher.run()
        except WakeboardError as error:  # such as a right that was revoked: the runs in flight did not cause it
            log.error("this worker claims no more runs, finishes the others and exits: %s", error)
            await self._drain()
            raise
        self._exhausted = self._threads.exhausted  # a handler may end while the others drain
        await self._drain()

    # -- shutdown ------------------------------------------------------------------------------------------------------

    async def _drain(self) -> None:
        """Claim no more runs, and wait until all have ended and their outcomes are reported, or must be given up."""
        self._in_flight.await_ends()
        self._ready_file.remove()
        await self._wait_for_runs()
        self._completer.ending = True
        await self._wait_for_reports()
        self._note_lost()

    async def _wait_for_runs(self) -> None:
        """Wait until all runs have ended. After a stop signal they have the grace period; then they are stopped.

        The same holds once an outcome is blocked too long: the worker must exit.
        """
        in_flight, stop_at = self._in_flight, math.inf
        while in_flight.running or in_flight.waiting or (self._blocked_lately() and not in_flight.blocked_too_long):
            if stop_at == math.inf and (self._stop_signal.count or in_flight.blocked_too_long):
                stop_at = time.monotonic() + self._settings.grace_seconds
                in_flight.release_waiting()
                self._threads.release_prefetched()
            if time.monotonic() >= stop_at or self._stop_signal.count >= STOP_NOW:
                await self._stop_running()
                break
            await self._wait(0.1)

    async def _wait_for_reports(self) -> None:
        """Wait a lease at most for outcomes that could not be sent, and BLOCKED_S for blocked ones."""
        in_flight, began = self._in_flight, time.monotonic()
        while (in_flight.unreported and time.monotonic() < began + self._settings.lease_seconds) or (
            in_flight.blocked and not in_flight.blocked_too_long and time.monotonic() < began + BLOCKED_S
        ):
            in_flight.flush.set()
            await self._wait(0.05)

    def _blocked_lately(self) -> bool:
        """Whether an outcome has been blocked for less than a lease and BLOCKED_S: a worker does not wait longer."""
        since = time.monotonic() - self._settings.lease_seconds - BLOCKED_S  # `blocked_too_long` is set before that
        return any(each.since > since for each in self._in_flight.blocked.values())

    def _note_lost(self) -> None:
        """Log and count the outcomes that are not stored when the worker ends. Their leases are left to expire."""
        in_flight = self._in_flight
        blocked = [each.outcome.id for each in in_flight.blocked.values()]
        unreported = in_flight.unreported - sum(lease_of(each) in in_flight.blocked for each in in_flight.reporting)
        if unreported:
            log.error(
                "lost: no answer confirms %s; the runs of those that are not stored will be executed again",
                counted(unreported, "outcome"),
            )
        if blocked:
            log.error(
                "lost: a lock of another transaction kept %s from being stored: %s will be executed again",
                counted(len(blocked), "outcome"),
                named_runs(blocked),
            )
        if blocked or unreported:
            in_flight.counts.lost += len(blocked) + unreported
            in_flight.note_orphaned_leases()

    async def _stop_running(self) -> None:
        """Stop all attempts, and release those whose handlers do not end within two seconds."""
        in_flight = self._in_flight
        attempts = [attempt for executor in in_flight.executors for attempt in executor.running.values()]
        for attempt in attempts:
            attempt.stop(SHUTDOWN)
        unwound_at = time.monotonic() + UNWIND_S
        while in_flight.running and time.monotonic() < unwound_at:
            await self._wait(0.05)
        for attempt in attempts:
            if not attempt.has_outcome:
                in_flight.end(attempt, Release(attempt.id, attempt.epoch))

    async def _wait(self, seconds: float) -> None:
        self._in_flight.wakeup.clear()
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._in_flight.wakeup.wait()

    # -- background tasks ----------------------------------------------------------------------------------------------

    async def _check_periodically(self) -> None:
        """Enforce timeouts, prefetch limits and the validity of leases. Raises the error that ended a slot."""
        while True:
            await asyncio.sleep(CHECK_EVERY_S)
            if self._in_flight.fatal_error is not None:
                raise self._in_flight.fatal_error
            self._in_flight.enforce_limits()
            self._heartbeat.drop_invalid_leases()
            self._threads.check()

    async def _listen(self) -> None:
        """Wake the fetcher at each notification from the database."""
        from wakeboard.store.notifications import notifications

        dsn = self._settings.dsn.get_secret_value()
        while True:
            try:
                async for payload in notifications(dsn):
                    self._runs_ended |= payload == ENDED
                    self._in_flight.wakeup.set()
            except WakeboardError as error:
                log.debug("not listening: %s", error)
            await asyncio.sleep(LISTEN_AGAIN_S)

    async def _maintain(self, conn: Any, at_once: bool, needed: Sequence[str] | None) -> None:  # noqa: FBT001
        """Run the maintenance tasks that are due (ticks, expired leases, retention), once a second or `at_once`.

        `needed`: those that may have work, as the last fetch has said; None: unknown.
        When runs have ended that others may have waited for, only these others are looked for. Raises
        DatabaseUnavailable if the connection was lost.
        """
        from wakeboard.engine.maintenance_api import MaintenanceStore

        now = time.monotonic()
        ended, self._runs_ended = self._runs_ended, False
        spares = needed == [] and not (at_once or ended)
        all_due = now >= self._maintain_at or at_once or (self._maintenance_spared and not spares)
        if not (all_due or ended):
            return
        if all_due:
            self._maintain_at, self._maintenance_spared = now + MAINTAIN_EVERY_S, spares
            if (spans := self._in_flight.context.spans) is not None:
                await spans.observe(conn, self._worker, self._in_flight.counts)
        done = await self._maintenance.run_due(
            MaintenanceStore(conn), now, only_dependencies=not all_due, needed=None if at_once or ended else needed
        )
        self._runs_ended |= may_have_more(done.dependents)
        if done.ticks.runs or done.ticks.skipped:
            runs, skipped = counted(done.ticks.runs, "run"), counted(done.ticks.skipped, "tick")
            log.info("scheduled %s, skipped %s", runs, skipped)
        if done.more_ticks:  # claim, and continue
            self._maintain_at = 0.0
            self._in_flight.wakeup.set()
        if conn.closed:  # repeat it on the next connection
            self._maintain_at = 0.0
            raise DatabaseUnavailable(str(next(iter(done.failures.values()), "the connection was lost in maintenance")))
        self._failures.update(self._maintenance.failing)
        if all_due:
            await self._reap_orphaned_leases(MaintenanceStore(conn), now)

    async def _reap_orphaned_leases(self, store: MaintenanceStore, now: float) -> None:
        """Request a full reap once the orphaned leases of this worker have expired.

        A lost reply may have left leases that this worker does not know about. Its heartbeats hide them from the
        reaper's fast path, which considers only workers without heartbeats.
        """
        from wakeboard.engine.reaper import reap

        since = self._in_flight.orphans_since
        if since is not None and now > since + self._settings.lease_seconds + LATE_STATEMENT_S:
            await reap(store, always=True)
            self._in_flight.orphans_since = None
