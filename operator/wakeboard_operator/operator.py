"""The operator as a whole: what runs all the time, and what only the leader does.

All the time: leadership, the stream of changes, the page for probes and Prometheus. In a term: a complete list, then
changes as they come, duties every second, statuses. When leadership ends, the term's tasks end with it, and a new term
begins from a complete list. The database being away ends nothing: what failed is tried again. The process ends only
when it is asked to, or where starting again would help (a setting that cannot be honoured, no way to log in).
"""

from __future__ import annotations

import asyncio
import logging
import os
import time
from contextlib import AsyncExitStack, suppress
from datetime import UTC, datetime
from functools import partial
from typing import TYPE_CHECKING, Final

from wakeboard.errors import DatabaseUnavailable, LeadershipLost, WakeboardError
from wakeboard.maintenance.loop import MaintenanceLoop
from wakeboard.maintenance.retention import Retention
from wakeboard.store.connection import require_schema
from wakeboard.store.leader_api import LeaderStore, OperatorStore
from wakeboard.store.queries.finished_runs import finished_since
from wakeboard.store.queries.health_checks import NO_WORKER_AFTER, read_health_facts
from wakeboard.store.reconnecting import ReconnectingConnection
from wakeboard_operator.cache import ResourceCache
from wakeboard_operator.health import Health
from wakeboard_operator.kube_client import Cluster, ListFailed, WriteFailed, logged_in
from wakeboard_operator.leadership import Leadership, outages
from wakeboard_operator.metrics import Metrics
from wakeboard_operator.reconciler import Reconciler
from wakeboard_operator.status_writer import StatusWriter
from wakeboard_operator.wake_cleanup import not_started_in_time
from wakeboard_operator.watch import PendingChanges, Supervisor

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from wakeboard.store.connection import AsyncConnection
    from wakeboard_operator.settings import OperatorSettings

log = logging.getLogger("wakeboard.operator")

COALESCE_S: Final = 0.1  # changes that come together are synced together
SOON_S: Final = 1.0  # a list after a deletion, and at the earliest so long after the last one
ROUND_EVERY_S: Final = 1.0
STATUS_EVERY_S: Final = 0.5
LOOK_EVERY_S: Final = 15.0
WAKES_EVERY_S: Final = 30.0
PAUSE_S: Final = 1.0  # after something went wrong
LEADERLESS_POLL_S: Final = 0.2
CONFIRMED_EVERY_S: Final = 1.0  # while a removal is held
ELSEWHERE: Final = (
    "schedules of another database that do not run because its operator does not answer: %d. If that database is gone,"
    " take them over: helm upgrade with --set operator.adoptForeignSchedules=true"
    " (WAKEBOARD_ADOPT_FOREIGN_SCHEDULES=true)"
)


async def operate(settings: OperatorSettings, stop: asyncio.Event) -> None:
    """Runs an operator until `stop` is set. Raises WakeboardError where starting again would help."""
    async with AsyncExitStack() as stack:
        cluster = await stack.enter_async_context(logged_in(settings.namespaces, settings.source))
        source = await _patiently(cluster.source, stop)
        if source is None:
            return
        leadership = Leadership(
            settings.dsn.get_secret_value(), source, settings.leader_lease_seconds, settings.release
        )
        supervisor = Supervisor(settings.namespaces, PendingChanges(asyncio.get_running_loop()))
        metrics = Metrics()
        health = Health(leadership, supervisor, metrics, settings.reconcile_seconds)
        try:
            runner = await health.serve(settings.operator_port)
        except OSError as error:
            raise WakeboardError(
                f"port {settings.operator_port} cannot be had (WAKEBOARD_OPERATOR_PORT): {error}"
            ) from error
        stack.push_async_callback(runner.cleanup)
        log.info("operator of %s, answering on port %d", source, health.port)
        stack.push_async_callback(leadership.release)
        whole = _Operator(settings, cluster, source, leadership, supervisor, metrics, health)
        tasks = [
            asyncio.create_task(work, name=name)
            for name, work in (
                ("leadership", leadership.run()),
                ("stream", supervisor.run()),
                ("terms", whole.terms()),
                ("beat", _beat(health)),
            )
        ]
        tasks.append(asyncio.create_task(_stopped(stop), name="stop"))
        try:
            done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        finally:
            await _hand_over(tasks[0], leadership)
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
        for task in done:
            task.result()  # raises what ended it


async def _hand_over(leading: asyncio.Task[None], leadership: Leadership) -> None:
    """Resigns before anything else, so that a standby leads while this process stops. Its later writes are refused."""
    leading.cancel()
    await asyncio.gather(leading, return_exceptions=True)
    await leadership.release()


async def _patiently(ask: Callable[[], Awaitable[str]], stop: asyncio.Event) -> str | None:
    """The answer of an API server that may be away or not allow it yet; None: we are to stop."""
    while not stop.is_set():
        try:
            return await ask()
        except ListFailed as error:
            log.warning("the cluster's uid cannot be read (WAKEBOARD_SOURCE would name it): %s", error)
            with suppress(TimeoutError):
                async with asyncio.timeout(2 * PAUSE_S):
                    await stop.wait()
    return None


async def _stopped(stop: asyncio.Event) -> None:
    await stop.wait()


async def _beat(health: Health) -> None:
    while True:
        health.beat()
        await asyncio.sleep(1.0)


def no_worker_seen(last_worker: datetime | None, first: datetime, now: datetime) -> bool:
    """Whether no worker has been seen for three minutes, since this operator first looked. Times are the database's.

    A pod that wakes lives for seconds and then leaves: how many workers there are at this moment says nothing.
    """
    return now - max(last_worker or first, first) > NO_WORKER_AFTER


class _Operator:
    """Terms, one after another."""

    def __init__(
        self,
        settings: OperatorSettings,
        cluster: Cluster,
        source: str,
        leadership: Leadership,
        supervisor: Supervisor,
        metrics: Metrics,
        health: Health,
    ) -> None:
        self._settings, self._cluster, self._source = settings, cluster, source
        self._leadership, self._supervisor, self._metrics, self._health = leadership, supervisor, metrics, health

    async def terms(self) -> None:
        """Acts whenever this process leads."""
        told = ""
        while True:
            await self._until(self._leadership.is_leader)
            term = self._leadership.term
            tasks: list[asyncio.Task[None]] = []
            try:
                tasks = await self._begin(term)
                log.info("term %d begins", term)
                outages.recovered("term")
                await self._until(partial(self._is_over, term))
            except (WakeboardError, TimeoutError) as error:
                if isinstance(error, DatabaseUnavailable | TimeoutError):
                    outages.lost("term", error)
                elif str(error) != told:
                    log.warning("term %d cannot begin: %s", term, error)
                told = self._health.trouble = str(error)
                await asyncio.sleep(PAUSE_S)
            finally:
                for task in tasks:
                    task.cancel()
                await asyncio.gather(*tasks, return_exceptions=True)
                self._health.reconciler = None
                if tasks:
                    log.info("term %d is over", term)

    def _is_over(self, term: int) -> bool:
        return not self._leadership.is_leader() or self._leadership.term != term

    async def _until(self, true: Callable[[], bool]) -> None:
        while not true():
            self._leadership.changed.clear()
            with suppress(TimeoutError):
                async with asyncio.timeout(LEADERLESS_POLL_S):
                    await self._leadership.changed.wait()

    async def _begin(self, term: int) -> list[asyncio.Task[None]]:
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
            moving_s=settings.status_min_interval_seconds,
            errors=settings.status_errors,
        )
        self._health.reconciler, self._health.trouble = reconciler, None

        def led(conn: AsyncConnection) -> LeaderStore:
            return LeaderStore(conn, self._source, term)

        works: dict[str, Callable[[AsyncConnection], Awaitable[None]]] = {
            "reconcile": lambda conn: self._reconcile(led(conn), reconciler),
            "duties": lambda conn: self._duties(led(conn)),
            "statuses": lambda conn: self._statuses(led(conn), reconciler, writer),
            "look": lambda conn: self._look(conn, reconciler),
        }
        tasks = [asyncio.create_task(self._keep_at(name, work), name=name) for name, work in works.items()]
        return [*tasks, asyncio.create_task(self._clean_up_wakes(), name="wake cleanup")]

    def _connection(self, purpose: str) -> ReconnectingConnection[OperatorStore]:
        return ReconnectingConnection(
            self._settings.dsn.get_secret_value(),
            f"wakeboard operator {purpose}",
            OperatorStore,
            prepared_statements=self._settings.prepared_statements,
        )

    async def _keep_at(self, name: str, work: Callable[[AsyncConnection], Awaitable[None]]) -> None:
        """Does `work` over a connection of its own, and begins anew whenever that breaks."""
        told = ""
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
                if str(error) != told:
                    log.warning("%s: %s", name, error)
                told = str(error)
            except Exception:
                log.exception("%s broke, and is begun anew", name)
            finally:
                await connection.close()
            await asyncio.sleep(PAUSE_S)

    # -- what a leader does --------------------------------------------------------------------------------------------

    async def _reconcile(self, store: LeaderStore, reconciler: Reconciler) -> None:
        changes = self._supervisor.changes
        list_at = 0.0  # time.monotonic()
        while True:
            if time.monotonic() >= list_at:
                changes.take()  # the list shows them all
                self._note_deletions(reconciler)
                done = await self._full(store, reconciler)
                list_at = time.monotonic() + (self._next_list_s(reconciler) if done else 2 * PAUSE_S)
            heard_at = await self._heard_at(list_at - time.monotonic(), held=reconciler.held is not None)
            batch = changes.take()
            self._note_deletions(reconciler)
            if batch and await reconciler.changes(store, batch):
                list_at = min(list_at, max(time.monotonic(), (reconciler.last_full_at or 0.0) + SOON_S))
            if batch and heard_at is not None:
                self._metrics.sync_lag_s.set(time.monotonic() - heard_at)
            if reconciler.held is not None and await store.is_removal_confirmed(self._source):
                list_at = time.monotonic()

    def _note_deletions(self, reconciler: Reconciler) -> None:
        for uid in self._supervisor.changes.take_deleted():
            reconciler.absences.report(uid, time.monotonic())

    def _next_list_s(self, reconciler: Reconciler) -> float:
        again_s = reconciler.again_s
        every_s = self._settings.reconcile_seconds
        return every_s if again_s is None else min(every_s, max(again_s, SOON_S))

    async def _heard_at(self, within_s: float, *, held: bool) -> float | None:
        """When the stream delivered a change (time.monotonic()); None if it delivered none within `within_s`."""
        changes = self._supervisor.changes
        heard_at = None
        with suppress(TimeoutError):
            async with asyncio.timeout(max(0.0, min(within_s, CONFIRMED_EVERY_S) if held else within_s)):
                await changes.wait()
                heard_at = time.monotonic()
                await asyncio.sleep(COALESCE_S)
        return heard_at

    async def _full(self, store: LeaderStore, reconciler: Reconciler) -> bool:
        began = time.monotonic()
        listed_at = await store.now()
        try:
            listing = await self._cluster.listed()
        except ListFailed as error:
            if self._health.trouble is None:
                log.warning("%s", error)
            self._health.trouble = str(error)
            self._metrics.api_up.set(0)
            self._supervisor.not_served()
            if error.reason == "missing" and self._health.reconciler is not None:
                self._health.reconciler.absences.not_served()
            return False
        report = await reconciler.full(store, listing, listed_at)
        self._supervisor.expect(listing.resources)  # the first time it begins the stream: after what it would slow down
        if report.pending_removal:
            log.warning("%s", report.pending_removal)
        self._health.trouble = None
        self._metrics.api_up.set(1)
        self._metrics.last_reconcile.set_to_current_time()
        self._metrics.reconcile_s.set(time.monotonic() - began)
        return True

    async def _duties(self, store: LeaderStore) -> None:
        settings = self._settings
        maintenance = MaintenanceLoop(
            misfire_grace=settings.misfire_grace, retention=Retention.from_settings(settings), sets_retention=True
        )
        while True:
            done = await maintenance.run_due(store, time.monotonic())
            self._metrics.round_made(done)
            for name, error in done.failures.items():
                if not isinstance(error, DatabaseUnavailable):
                    log.warning("%s: %s", name, error)
                if isinstance(error, WakeboardError):
                    raise error
            await asyncio.sleep(ROUND_EVERY_S)

    async def _statuses(self, store: LeaderStore, reconciler: Reconciler, writer: StatusWriter) -> None:
        while True:
            reconciler.dirty |= reconciler.cache.keys_of(await store.pop_changed_definitions())
            waiting = set(reconciler.dirty)
            try:
                await writer.write(store.conn)
            except BaseException:
                reconciler.dirty |= waiting
                raise
            await asyncio.sleep(STATUS_EVERY_S)

    async def _clean_up_wakes(self) -> None:
        """Deletes Jobs of waking workers whose pods cannot start. See wake_cleanup.py."""
        namespace = os.environ.get("POD_NAMESPACE")
        logged = ""
        while namespace:
            await asyncio.sleep(WAKES_EVERY_S)
            try:
                for job in not_started_in_time(await self._cluster.worker_jobs(namespace), datetime.now(UTC)):
                    log.warning("deleted the Job %s/%s: its pod did not start in time", namespace, job.name)
                    await self._cluster.delete_job(namespace, job)
            except (ListFailed, WriteFailed) as error:
                if str(error) != logged:
                    log.warning("wake cleanup: %s", error)
                logged = str(error)

    async def _look(self, conn: AsyncConnection, reconciler: Reconciler) -> None:
        """For the metrics; and the dead-man switch, which is told once each time."""
        missed = False
        cache, silent = reconciler.cache, 0
        first: datetime | None = None
        until: datetime | None = None
        while True:
            vitals = await read_health_facts(conn)
            finished = await finished_since(conn, until)
            until = finished.until
            self._metrics.look(vitals)
            self._metrics.ended(finished.runs)
            self._metrics.count_conditions(cache)
            foreign = reconciler.ownership.counts(time.monotonic())
            self._metrics.count_foreign(foreign)
            if foreign["silent"] > silent:
                log.warning(ELSEWHERE, foreign["silent"])
            silent = foreign["silent"]
            first = first or vitals.server.now
            nobody = bool(len(cache)) and no_worker_seen(vitals.maintenance.last_worker, first, vitals.server.now)
            if nobody and not missed:
                await self._tell_that_nobody_works(vitals.server.now)
            missed = nobody
            await asyncio.sleep(LOOK_EVERY_S)

    async def _tell_that_nobody_works(self, at: datetime) -> None:
        message = "No worker has been seen for three minutes: nothing runs. Is the wake CronJob suspended or failing?"
        log.warning("%s", message)
        pod, namespace = os.environ.get("POD_NAME"), os.environ.get("POD_NAMESPACE")
        if pod and namespace:
            with suppress(WriteFailed):
                await self._cluster.post_pod_event(namespace, pod, "NoWorker", message, at)
