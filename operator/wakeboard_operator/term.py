"""What only the leader runs: the tasks of one term.

A term first resyncs from a complete list. Then it syncs changes as they come, runs the maintenance tasks every second,
writes statuses, collects metrics, and delivers notifications about alerts while no worker does. Each task has its own
database connection, and begins again over a new one when it fails. When the term ends, its tasks are cancelled.
"""

from __future__ import annotations

import asyncio
import logging
import os
import time
from contextlib import suppress
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final

from wakeboard.alerts.file import AlertFile
from wakeboard.alerts.rules.alert_rules import NO_RULES
from wakeboard.declared.reloaded_file import ReloadedFile
from wakeboard.engine.retention import Retention
from wakeboard.errors import DatabaseUnavailable, LeadershipLost, WakeboardError
from wakeboard.health.conditions import problems
from wakeboard.health.queries.facts import read_measured
from wakeboard.kube.client import ApiError
from wakeboard.limits.file import load_limit_file
from wakeboard.limits.rules.declared_limits import NO_LIMITS
from wakeboard.maintenance import MaintenanceLoop
from wakeboard.process.failure_log import SAME_OUTAGE_S, FailureLog
from wakeboard.schedules import calls
from wakeboard.schedules.leader_api import LeaderStore
from wakeboard.views.queries.backlog import read_queues
from wakeboard.views.queries.finished_runs import finished_since
from wakeboard.views.rules.thresholds import NO_WORKER_AFTER
from wakeboard_operator.alert_deliveries import AlertDeliveries
from wakeboard_operator.leadership import RETRY_S, outages
from wakeboard_operator.metrics import BACKLOG_WITHIN_S
from wakeboard_operator.reconcile_loop import ReconcileLoop
from wakeboard_operator.status_writer import StatusWriter
from wakeboard_operator.wake_cleanup import not_started_in_time
from wakeboard_operator.worker_pods import EndedWorkers

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence

    from wakeboard.store.connection import AsyncConnection
    from wakeboard_operator.kube_client import Cluster
    from wakeboard_operator.metrics import Metrics
    from wakeboard_operator.reconciler import Reconciler
    from wakeboard_operator.replica import OperatorReplica

log = logging.getLogger("wakeboard.operator")

MAINTENANCE_INTERVAL_S: Final = 1.0
STATUS_INTERVAL_S: Final = 0.5
METRICS_INTERVAL_S: Final = 15.0
WAKE_CLEANUP_INTERVAL_S: Final = 30.0
SILENT_OWNER: Final = (
    "schedules of another database that do not run because its operator does not answer: %d. If that database is gone,"
    " take them over: helm upgrade with --set operator.adoptForeignSchedules=true"
    " (WAKEBOARD_ADOPT_FOREIGN_SCHEDULES=true)"
)


class LeaderTerm:
    """The term `number` of this replica. Its maintenance loop lasts for the whole term, whatever fails."""

    def __init__(self, replica: OperatorReplica, number: int, reconciler: Reconciler) -> None:
        self._replica, self._number, self._reconciler = replica, number, reconciler
        settings = replica.settings
        alerts, log_alerts = settings.alerts_file, partial(_log_problems, "alert rules")
        limits, log_limits = settings.limits_file, partial(_log_problems, "limits")
        # Without a file there are no rules and no limits: those of an earlier file are removed.
        self._alerts = AlertFile(Path(alerts), log_alerts).alerts if alerts else lambda: NO_RULES
        self._maintenance = MaintenanceLoop(
            misfire_grace=settings.misfire_grace,
            retention=Retention.from_settings(settings),
            decides_retention=True,
            sets_misfire_grace=settings.has_misfire_grace,
            alerts=self._alerts,
            limits=ReloadedFile(Path(limits), load_limit_file, log_limits).content if limits else lambda: NO_LIMITS,
            source=replica.source,
        )
        self._failures = FailureLog(log, what="the maintenance task", outages=outages)

    def start(self) -> list[asyncio.Task[None]]:
        """Starts the tasks."""
        replica, settings = self._replica, self._replica.settings
        writer = StatusWriter(
            replica.cluster,
            self._reconciler,
            replica.metrics,
            replica.leadership.is_leader,
            per_second=settings.status_writes_per_second,
            min_interval_s=settings.status_min_interval_seconds,
            errors=settings.status_errors,
        )
        works: dict[str, Callable[[LeaderStore], Awaitable[None]]] = {
            "reconcile": ReconcileLoop(replica, self._reconciler).run,
            "maintenance": self._run_maintenance,
            "statuses": lambda store: self._write_statuses(store, writer),
            "metrics": lambda store: _collect_metrics(store.conn, replica.cluster, self._reconciler, replica.metrics),
        }
        if settings.alerts_file:
            works["alert deliveries"] = AlertDeliveries(settings, self._alerts).run
        others = [("wake cleanup", _clean_up_wakes(replica.cluster))]
        namespace = os.environ.get("POD_NAMESPACE")
        if namespace and settings.watch_worker_pods:
            ended = EndedWorkers()
            works["terminations"] = lambda store: ended.report(store, replica.metrics.record_termination)
            others.append(("worker pods", replica.cluster.watch_worker_pods(namespace, ended).run()))
        tasks = [asyncio.create_task(self._keep_running(name, work), name=name) for name, work in works.items()]
        return [*tasks, *(asyncio.create_task(work, name=name) for name, work in others)]

    async def _keep_running(self, name: str, work: Callable[[LeaderStore], Awaitable[None]]) -> None:
        """Runs `work` over a connection of its own, and restarts it over a new one whenever it fails."""
        logged = ""
        connection = self._replica.connection(name)
        while True:
            works: asyncio.TimerHandle | None = None
            try:
                store = await connection.store()
                await store.now()
                works = asyncio.get_running_loop().call_later(SAME_OUTAGE_S, outages.recovered, name)
                await work(LeaderStore(store.conn, self._replica.source, self._number))
            except asyncio.CancelledError:
                outages.remove(name)
                raise
            except DatabaseUnavailable as error:
                outages.lost(name, error)
            except LeadershipLost as error:
                log.info("%s: %s", name, error)
                self._replica.leadership.check_now()
            except WakeboardError as error:
                if str(error) != logged:
                    log.warning("%s: %s", name, error)
                logged = str(error)
            except Exception:
                log.exception("%s failed and is restarted", name)
            finally:
                if works is not None:
                    works.cancel()  # a server that is read-only answers, too
                await connection.close()
            await asyncio.sleep(RETRY_S)

    async def _run_maintenance(self, store: LeaderStore) -> None:
        """Runs the tasks that are due. A task that fails has a line in the log and a count in the metrics.

        Raises LeadershipLost, and DatabaseUnavailable if the connection was lost: other tasks have run in that pass.
        """
        while True:
            done = await self._maintenance.run_due(store, time.monotonic())
            self._replica.metrics.record_maintenance(done)
            for error in done.failures.values():
                if isinstance(error, LeadershipLost) or (isinstance(error, DatabaseUnavailable) and store.conn.closed):
                    raise error
            self._failures.update(self._maintenance.failing)
            await asyncio.sleep(MAINTENANCE_INTERVAL_S)

    async def _write_statuses(self, store: LeaderStore, writer: StatusWriter) -> None:
        reconciler = self._reconciler
        while True:
            reconciler.mark_pending(reconciler.cache.keys_for(await calls.pop_changed_definitions(store)))
            await writer.write(store.conn)
            await asyncio.sleep(STATUS_INTERVAL_S)


def _log_problems(what: str, problems: Sequence[str]) -> None:
    """Logs what is wrong with a file."""
    for problem in problems:
        log.warning("%s: %s", what, problem)


async def _collect_metrics(conn: AsyncConnection, cluster: Cluster, reconciler: Reconciler, metrics: Metrics) -> None:
    """Updates metrics. Logs and emits one NoWorker event for each outage of the workers."""
    no_worker = False
    silent = 0
    started_at: datetime | None = None
    until: datetime | None = None
    while True:
        health = await read_measured(conn)
        now = health.now
        finished = await finished_since(conn, until)
        until = finished.until
        metrics.record_health(health)
        metrics.record_backlog(await read_queues(conn, BACKLOG_WITHIN_S))
        metrics.record_finished(finished)
        metrics.count_conditions(reconciler.cache)
        foreign = reconciler.ownership.counts(time.monotonic())
        metrics.count_foreign(foreign)
        if foreign["silent"] > silent:
            log.warning(SILENT_OWNER, foreign["silent"])
        silent = foreign["silent"]
        started_at = started_at or now
        was_no_worker = no_worker
        no_worker = bool(len(reconciler.cache)) and no_worker_seen(health.maintenance.last_worker, started_at, now)
        if no_worker and not was_no_worker:
            (text,) = (f"{each.text} {each.hint}" for each in problems(health) if each.check == "workers")
            await _report_no_worker(cluster, text, now)
        await asyncio.sleep(METRICS_INTERVAL_S)


async def _report_no_worker(cluster: Cluster, text: str, at: datetime) -> None:
    log.warning("%s", text)
    pod, namespace = os.environ.get("POD_NAME"), os.environ.get("POD_NAMESPACE")
    if pod and namespace:
        with suppress(ApiError):
            await cluster.post_pod_event(namespace, pod, "NoWorker", text, at)


def no_worker_seen(last_worker: datetime | None, started_at: datetime, now: datetime) -> bool:
    """Whether no worker has been seen for three minutes since `started_at`. Times are the database's.

    The current number of workers is no indication, because a worker that a wake starts runs only for seconds.
    """
    return now - max(last_worker or started_at, started_at) >= NO_WORKER_AFTER


async def _clean_up_wakes(cluster: Cluster) -> None:
    """Deletes Jobs of waking workers whose pods cannot start. See wake_cleanup.py."""
    namespace, failures = os.environ.get("POD_NAMESPACE"), FailureLog(log)
    while namespace:
        await asyncio.sleep(WAKE_CLEANUP_INTERVAL_S)
        try:
            for job in not_started_in_time(await cluster.worker_jobs(namespace), datetime.now(UTC)):
                log.warning("deleted the Job %s/%s: its pod did not start in time", namespace, job.name)
                await cluster.delete_job(namespace, job)
            failures.succeeded("wake cleanup")
        except ApiError as error:
            failures.failed("wake cleanup", error)
