"""The operator process: what every replica runs, and what only the leader runs.

Every replica takes part in the leader election, watches JobSchedules, and serves probes and metrics. The leader of a
term first resyncs from a complete list. Then it syncs changes as they come, runs the maintenance tasks every second,
writes statuses, and delivers notifications about alerts while no worker does. When the term ends, its tasks are
cancelled. The next term starts from a complete list again.

During an outage of the database, failed work is retried. The process exits only when it is asked to stop, or when
a restart would help (an invalid setting, a refused login).
"""

from __future__ import annotations

import asyncio
import logging
import os
import time
from contextlib import AsyncExitStack, suppress
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final

from wakeboard.alerts.file import AlertFile
from wakeboard.alerts.rules.alert_rules import NO_RULES
from wakeboard.declared.reloaded_file import ReloadedFile
from wakeboard.engine.retention import Retention
from wakeboard.errors import DatabaseUnavailable, LeadershipLost, WakeboardError
from wakeboard.limits.file import load_limit_file
from wakeboard.limits.rules.declared_limits import NO_LIMITS
from wakeboard.maintenance import MaintenanceLoop
from wakeboard.process.failure_log import FailureLog
from wakeboard.schedules.leader_api import LeaderStore, OperatorStore
from wakeboard.store.connection import require_schema
from wakeboard.store.reconnecting import ReconnectingConnection
from wakeboard.views.queries.finished_runs import finished_since
from wakeboard.views.queries.health_checks import read_health_facts
from wakeboard.views.queries.queue_backlog import read_queues
from wakeboard.views.rules.health_conditions import NO_WORKER
from wakeboard_operator.alert_deliveries import AlertDeliveries
from wakeboard_operator.cache import ResourceCache
from wakeboard_operator.health import Health
from wakeboard_operator.kube_client import Cluster, ListFailed, WriteFailed, logged_in
from wakeboard_operator.leadership import Leadership, outages
from wakeboard_operator.metrics import BACKLOG_WITHIN_S, Metrics
from wakeboard_operator.reconciler import Reconciler
from wakeboard_operator.status_writer import StatusWriter
from wakeboard_operator.tracing import span
from wakeboard_operator.wake_cleanup import not_started_in_time
from wakeboard_operator.watch import PendingChanges, WatchSupervisor
from wakeboard_operator.worker_pods import EndedWorkers, WorkerPodWatch

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping, Sequence

    from wakeboard.alerts.rules.alert_rules import AlertSpec
    from wakeboard.limits.rules.declared_limits import Limits
    from wakeboard.store.connection import AsyncConnection
    from wakeboard_operator.resources import Key, Resource
    from wakeboard_operator.settings import OperatorSettings
    from wakeboard_operator.watch import Deleted

log = logging.getLogger("wakeboard.operator")

COALESCE_S: Final = 0.1  # changes within this time are synced together
MIN_RESYNC_S: Final = 1.0  # between two resyncs
MAINTENANCE_INTERVAL_S: Final = 1.0
STATUS_INTERVAL_S: Final = 0.5
METRICS_INTERVAL_S: Final = 15.0
WAKE_CLEANUP_INTERVAL_S: Final = 30.0
RETRY_S: Final = 1.0
LEADERSHIP_POLL_S: Final = 0.2
CONFIRMATION_POLL_S: Final = 1.0  # while a removal is pending
NOT_SEEN: Final = "No worker has been seen for three minutes: nothing runs. Is the wake CronJob suspended or failing?"
SILENT_OWNER: Final = (
    "schedules of another database that do not run because its operator does not answer: %d. If that database is gone,"
    " take them over: helm upgrade with --set operator.adoptForeignSchedules=true"
    " (WAKEBOARD_ADOPT_FOREIGN_SCHEDULES=true)"
)


async def operate(settings: OperatorSettings, stop: asyncio.Event) -> None:
    """Runs an operator until `stop` is set. Raises WakeboardError when a restart would help."""
    async with AsyncExitStack() as stack:
        cluster = await stack.enter_async_context(logged_in(settings.namespaces, settings.source))
        source = await _source_of(cluster, stop)
        if source is None:
            return
        leadership = Leadership(
            settings.dsn.get_secret_value(), source, settings.leader_lease_seconds, settings.release
        )
        supervisor = WatchSupervisor(settings.namespaces, PendingChanges(asyncio.get_running_loop()))
        metrics = Metrics()
        health = Health(leadership, supervisor, metrics, settings.reconcile_seconds)
        try:
            runner = await health.serve(settings.operator_port)
        except OSError as error:
            raise WakeboardError(
                f"cannot listen on port {settings.operator_port} (WAKEBOARD_OPERATOR_PORT): {error}"
            ) from error
        stack.push_async_callback(runner.cleanup)
        log.info("operator of %s, listening on port %d", source, health.port)
        stack.push_async_callback(leadership.release)
        operator = Operator(settings, cluster, source, leadership, supervisor, metrics, health)
        tasks = [
            asyncio.create_task(work, name=name)
            for name, work in (
                ("leadership", leadership.run()),
                ("watch", supervisor.run()),
                ("terms", operator.run_terms()),
                ("heartbeat", _record_heartbeats(health)),
            )
        ]
        tasks.append(asyncio.create_task(_wait_for(stop), name="stop"))
        try:
            done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        finally:
            await _release_leadership(tasks[0], leadership)
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
        for task in done:
            task.result()  # raises the error that ended the task


async def _source_of(cluster: Cluster, stop: asyncio.Event) -> str | None:
    """Returns the name of the cluster. Retries while the API server does not answer. None: `stop` is set."""
    while not stop.is_set():
        try:
            return await cluster.source()
        except ListFailed as error:
            log.warning("cannot read the uid of the cluster (or set WAKEBOARD_SOURCE): %s", error)
            with suppress(TimeoutError):
                async with asyncio.timeout(2 * RETRY_S):
                    await stop.wait()
    return None


async def _release_leadership(election: asyncio.Task[None], leadership: Leadership) -> None:
    """Lets a standby lead while this process stops. The store refuses later writes of this process."""
    election.cancel()
    await asyncio.gather(election, return_exceptions=True)
    await leadership.release()


async def _wait_for(stop: asyncio.Event) -> None:
    await stop.wait()


async def _record_heartbeats(health: Health) -> None:
    while True:
        health.heartbeat()
        await asyncio.sleep(1.0)


class Operator:
    """Runs one term after another."""

    def __init__(
        self,
        settings: OperatorSettings,
        cluster: Cluster,
        source: str,
        leadership: Leadership,
        supervisor: WatchSupervisor,
        metrics: Metrics,
        health: Health,
    ) -> None:
        self._settings, self._cluster, self._source = settings, cluster, source
        self._leadership, self._supervisor, self._metrics, self._health = leadership, supervisor, metrics, health
        self._failures = FailureLog(log, what="the maintenance task")

    async def run_terms(self) -> None:
        """Starts the leader's tasks when this process becomes the leader, and cancels them when the term ends."""
        logged = ""
        while True:
            await self._until(self._leadership.is_leader)
            term = self._leadership.term
            tasks: list[asyncio.Task[None]] = []
            try:
                tasks = await self._start_term(term)
                log.info("term %d started", term)
                outages.recovered("term")
                await self._until(partial(self._is_over, term))
            except (WakeboardError, TimeoutError) as error:
                if isinstance(error, DatabaseUnavailable | TimeoutError):
                    outages.lost("term", error)
                elif str(error) != logged:
                    log.warning("cannot start term %d: %s", term, error)
                logged = self._leadership.problem = str(error)
                await asyncio.sleep(RETRY_S)
            finally:
                for task in tasks:
                    task.cancel()
                await asyncio.gather(*tasks, return_exceptions=True)
                self._health.reconciler = None
                if tasks:
                    log.info("term %d ended", term)

    def _is_over(self, term: int) -> bool:
        return not self._leadership.is_leader() or self._leadership.term != term

    async def _until(self, condition: Callable[[], bool]) -> None:
        while not condition():
            self._leadership.changed.clear()
            with suppress(TimeoutError):
                async with asyncio.timeout(LEADERSHIP_POLL_S):
                    await self._leadership.changed.wait()

    async def _start_term(self, term: int) -> list[asyncio.Task[None]]:
        settings = self._settings
        connection = self._connection("start")
        try:
            store = await connection.store()
            await require_schema(store.conn)
            installation = await store.installation()
        finally:
            await connection.close()
        cache = ResourceCache()
        reconciler = Reconciler(settings, self._source, installation, cache, self._cluster)
        writer = StatusWriter(
            self._cluster,
            reconciler,
            self._metrics,
            self._leadership.is_leader,
            per_second=settings.status_writes_per_second,
            min_interval_s=settings.status_min_interval_seconds,
            errors=settings.status_errors,
        )
        self._health.reconciler, self._leadership.problem = reconciler, None

        def leader_store(conn: AsyncConnection) -> LeaderStore:
            return LeaderStore(conn, self._source, term)

        alerts = self._alerts()
        maintenance = self._maintenance(alerts)  # for the whole term, whatever fails
        works: dict[str, Callable[[AsyncConnection], Awaitable[None]]] = {
            "reconcile": lambda conn: self._reconcile(leader_store(conn), reconciler),
            "maintenance": lambda conn: self._run_maintenance(leader_store(conn), maintenance),
            "statuses": lambda conn: self._write_statuses(leader_store(conn), reconciler, writer),
            "metrics": lambda conn: self._collect_metrics(conn, reconciler),
        }
        if settings.alerts_file:
            deliveries = AlertDeliveries(settings, alerts)
            works["alert deliveries"] = lambda conn: deliveries.run(leader_store(conn))
        others = [("wake cleanup", self._clean_up_wakes())]
        namespace = os.environ.get("POD_NAMESPACE")
        if namespace and settings.watch_worker_pods:
            ended = EndedWorkers()
            works["terminations"] = lambda conn: ended.report(leader_store(conn), self._metrics.record_termination)
            others.append(("worker pods", WorkerPodWatch(self._cluster, namespace, ended).run()))
        tasks = [asyncio.create_task(self._keep_running(name, work), name=name) for name, work in works.items()]
        return [*tasks, *(asyncio.create_task(work, name=name) for name, work in others)]

    def _connection(self, purpose: str) -> ReconnectingConnection[OperatorStore]:
        return ReconnectingConnection(
            self._settings.dsn.get_secret_value(),
            f"wakeboard operator {purpose}",
            OperatorStore,
            prepared_statements=self._settings.prepared_statements,
        )

    async def _keep_running(self, name: str, work: Callable[[AsyncConnection], Awaitable[None]]) -> None:
        """Runs `work` over a connection of its own, and restarts it over a new one whenever it fails."""
        logged = ""
        connection = self._connection(name)
        while True:
            try:
                store = await connection.store()
                await store.now()
                outages.recovered(name)
                await work(store.conn)
            except asyncio.CancelledError:
                outages.remove(name)
                raise
            except DatabaseUnavailable as error:
                outages.lost(name, error)
            except LeadershipLost as error:
                log.info("%s: %s", name, error)
                self._leadership.check_now()
            except WakeboardError as error:
                if str(error) != logged:
                    log.warning("%s: %s", name, error)
                logged = str(error)
            except Exception:
                log.exception("%s failed and is restarted", name)
            finally:
                await connection.close()
            await asyncio.sleep(RETRY_S)

    # -- reconcile -----------------------------------------------------------------------------------------------------

    async def _reconcile(self, store: LeaderStore, reconciler: Reconciler) -> None:
        changes = self._supervisor.changes
        resync_at = 0.0  # time.monotonic()
        while True:
            if time.monotonic() >= resync_at:
                changes.take()  # the list contains them
                changes.take_gap()
                self._record_deletions(reconciler)
                done = await self._resync(store, reconciler)
                resync_at = time.monotonic() + (self._resync_interval_s(reconciler) if done else 2 * RETRY_S)
            is_pending = reconciler.pending_removal is not None
            received_at = await self._wait_for_change(resync_at - time.monotonic(), removal_is_pending=is_pending)
            batch = changes.take()
            self._record_deletions(reconciler)
            needs_list = bool(batch) and await self._apply(store, reconciler, batch)
            if changes.take_gap() or needs_list:
                resync_at = min(resync_at, max(time.monotonic(), (reconciler.last_resync_at or 0.0) + MIN_RESYNC_S))
            if batch and received_at is not None:
                self._metrics.sync_lag_s.set(time.monotonic() - received_at)
            if reconciler.pending_removal is not None and await store.is_removal_confirmed(self._source):
                resync_at = time.monotonic()

    async def _apply(self, store: LeaderStore, reconciler: Reconciler, batch: Mapping[Key, Resource | Deleted]) -> bool:
        with span("reconcile changes", {"wakeboard.schedules": len(batch)}):
            return await reconciler.apply_changes(store, batch)

    def _record_deletions(self, reconciler: Reconciler) -> None:
        for uid in self._supervisor.changes.take_deleted():
            reconciler.missing.record_deletion(uid, time.monotonic())

    def _resync_interval_s(self, reconciler: Reconciler) -> float:
        early_s = reconciler.resync_in_s
        interval_s = self._settings.reconcile_seconds
        return interval_s if early_s is None else min(interval_s, max(early_s, MIN_RESYNC_S))

    async def _wait_for_change(self, within_s: float, *, removal_is_pending: bool) -> float | None:
        """Returns when the watch delivered a change (time.monotonic()), or None if there was none `within_s`."""
        changes = self._supervisor.changes
        received_at = None
        with suppress(TimeoutError):
            wait_s = min(within_s, CONFIRMATION_POLL_S) if removal_is_pending else within_s
            async with asyncio.timeout(max(0.0, wait_s)):
                await changes.wait()
                received_at = time.monotonic()
                await asyncio.sleep(COALESCE_S)
        return received_at

    async def _resync(self, store: LeaderStore, reconciler: Reconciler) -> bool:
        """Lists and syncs all JobSchedules. False: the list failed."""
        began = time.monotonic()
        listed_at = await store.now()
        try:
            listing = await self._cluster.listed()
        except ListFailed as error:
            if self._leadership.problem is None:
                log.warning("%s", error)
            self._leadership.problem = str(error)
            self._metrics.api_up.set(0)
            self._supervisor.list_failed()
            if error.reason == "missing":
                reconciler.missing.clear()
            return False
        with span("reconcile", {"wakeboard.schedules": len(listing.resources)}):
            report = await reconciler.resync(store, listing, listed_at)
        self._supervisor.expect(listing.resources)  # starts the watch, so that it does not slow down the first sync
        if report.pending_removal:
            log.warning("%s", report.pending_removal)
        self._leadership.problem = self._supervisor.problem
        self._metrics.api_up.set(1)
        self._metrics.last_reconcile.set_to_current_time()
        self._metrics.reconcile_s.set(time.monotonic() - began)
        return True

    # -- maintenance, statuses, metrics --------------------------------------------------------------------------------

    def _maintenance(self, alerts: Callable[[], AlertSpec | None]) -> MaintenanceLoop:
        settings = self._settings
        return MaintenanceLoop(
            misfire_grace=settings.misfire_grace,
            retention=Retention.from_settings(settings),
            sets_retention=True,
            alerts=alerts,
            limits=self._declared_limits(),
            source=self._source,
        )

    async def _run_maintenance(self, store: LeaderStore, maintenance: MaintenanceLoop) -> None:
        """Runs the tasks that are due. A task that fails has a line in the log and a count in the metrics.

        Raises LeadershipLost, and DatabaseUnavailable if the connection was lost: other tasks have run in that pass.
        """
        while True:
            done = await maintenance.run_due(store, time.monotonic())
            self._metrics.record_maintenance(done)
            for error in done.failures.values():
                if isinstance(error, LeadershipLost) or (isinstance(error, DatabaseUnavailable) and store.conn.closed):
                    raise error
            self._failures.update(maintenance.failing)
            await asyncio.sleep(MAINTENANCE_INTERVAL_S)

    def _alerts(self) -> Callable[[], AlertSpec | None]:
        """Reads the alert rules: NO_RULES without a file, to remove those of an earlier one; None: not valid yet."""
        path = self._settings.alerts_file
        if not path:
            return lambda: NO_RULES
        return AlertFile(Path(path), partial(log_problems, "alert rules")).alerts

    def _declared_limits(self) -> Callable[[], Limits | None]:
        """Reads the limits that the installation declares: none without a file, unknown while the file is invalid."""
        path = self._settings.limits_file
        if not path:
            return lambda: NO_LIMITS
        return ReloadedFile(Path(path), load_limit_file, partial(log_problems, "limits")).content

    async def _write_statuses(self, store: LeaderStore, reconciler: Reconciler, writer: StatusWriter) -> None:
        while True:
            reconciler.mark_pending(reconciler.cache.keys_for(await store.pop_changed_definitions()))
            pending = reconciler.pending_keys
            try:
                await writer.write(store.conn)
            except BaseException:
                reconciler.mark_pending(pending)
                raise
            await asyncio.sleep(STATUS_INTERVAL_S)

    async def _collect_metrics(self, conn: AsyncConnection, reconciler: Reconciler) -> None:
        """Updates metrics. Logs and emits one NoWorker event for each outage of the workers."""
        no_worker = False
        silent = 0
        started_at: datetime | None = None
        until: datetime | None = None
        while True:
            facts = await read_health_facts(conn)
            now = facts.server.now
            finished = await finished_since(conn, until)
            until = finished.until
            self._metrics.record_health(facts)
            self._metrics.record_backlog(await read_queues(conn, BACKLOG_WITHIN_S))
            self._metrics.record_finished(finished)
            self._metrics.count_conditions(reconciler.cache)
            foreign = reconciler.ownership.counts(time.monotonic())
            self._metrics.count_foreign(foreign)
            if foreign["silent"] > silent:
                log.warning(SILENT_OWNER, foreign["silent"])
            silent = foreign["silent"]
            started_at = started_at or now
            was_no_worker = no_worker
            no_worker = bool(len(reconciler.cache)) and no_worker_seen(facts.maintenance.last_worker, started_at, now)
            if no_worker and not was_no_worker:
                await self._report_no_worker(now)
            await asyncio.sleep(METRICS_INTERVAL_S)

    async def _report_no_worker(self, at: datetime) -> None:
        log.warning("%s", NOT_SEEN)
        pod, namespace = os.environ.get("POD_NAME"), os.environ.get("POD_NAMESPACE")
        if pod and namespace:
            with suppress(WriteFailed):
                await self._cluster.post_pod_event(namespace, pod, "NoWorker", NOT_SEEN, at)

    async def _clean_up_wakes(self) -> None:
        """Deletes Jobs of waking workers whose pods cannot start. See wake_cleanup.py."""
        namespace = os.environ.get("POD_NAMESPACE")
        logged = ""
        while namespace:
            await asyncio.sleep(WAKE_CLEANUP_INTERVAL_S)
            try:
                for job in not_started_in_time(await self._cluster.worker_jobs(namespace), datetime.now(UTC)):
                    log.warning("deleted the Job %s/%s: its pod did not start in time", namespace, job.name)
                    await self._cluster.delete_job(namespace, job)
            except (ListFailed, WriteFailed) as error:
                if str(error) != logged:
                    log.warning("wake cleanup: %s", error)
                logged = str(error)


def log_problems(what: str, problems: Sequence[str]) -> None:
    """Logs what is wrong with a file."""
    for problem in problems:
        log.warning("%s: %s", what, problem)


def no_worker_seen(last_worker: datetime | None, started_at: datetime, now: datetime) -> bool:
    """Whether no worker has been seen for three minutes since `started_at`. Times are the database's.

    The current number of workers is no indication, because a worker that a wake starts runs only for seconds.
    """
    return NO_WORKER.severity_after(now - max(last_worker or started_at, started_at)) is not None
