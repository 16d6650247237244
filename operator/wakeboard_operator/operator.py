"""The operator process: what every replica runs. term.py has what only the leader runs.

Every replica takes part in the leader election, watches JobSchedules, and serves probes and metrics. The one that leads
runs the tasks of its term until the term ends. The next term starts from a complete list again.

During an outage of the database, failed work is retried. The process exits only when it is asked to stop, or when
a restart would help (an invalid setting, a refused login).
"""

from __future__ import annotations

import asyncio
import logging
from contextlib import AsyncExitStack, suppress
from typing import TYPE_CHECKING, Any, Final

from wakeboard.errors import DatabaseUnavailable, WakeboardError
from wakeboard.kube.client import ApiError
from wakeboard_operator.cache import ResourceCache
from wakeboard_operator.health import OperatorHealth
from wakeboard_operator.kube_client import Cluster, login
from wakeboard_operator.leadership import RETRY_S, Leadership, outages
from wakeboard_operator.metrics import Metrics
from wakeboard_operator.reconciler import Reconciler
from wakeboard_operator.replica import OperatorReplica
from wakeboard_operator.term import LeaderTerm
from wakeboard_operator.watch import PendingChanges, WatchSupervisor

if TYPE_CHECKING:
    from collections.abc import Callable

    from wakeboard_operator.settings import OperatorSettings

log = logging.getLogger("wakeboard.operator")

LEADERSHIP_POLL_S: Final = 0.2
API_RETRY_S: Final = 2.0


async def operate(settings: OperatorSettings, stop: asyncio.Event) -> None:
    """Runs an operator until `stop` is set. Raises WakeboardError when a restart would help."""
    async with AsyncExitStack() as stack:
        cluster = Cluster(await stack.enter_async_context(login()), settings.namespaces, settings.source)
        source = await _source_of(cluster, stop)
        if source is None:
            return
        leadership = Leadership(
            settings.dsn.get_secret_value(), source, settings.leader_lease_seconds, settings.release
        )
        supervisor = WatchSupervisor(settings.namespaces, PendingChanges(asyncio.get_running_loop()))
        metrics = Metrics()
        health = OperatorHealth(leadership, supervisor, metrics, settings.reconcile_seconds)
        try:
            runner = await health.serve(settings.operator_port)
        except OSError as error:
            raise WakeboardError(
                f"cannot listen on port {settings.operator_port} (WAKEBOARD_OPERATOR_PORT): {error}"
            ) from error
        stack.push_async_callback(runner.cleanup)
        log.info("operator of %s, listening on port %d", source, health.port)
        stack.push_async_callback(leadership.release)
        replica = OperatorReplica(settings, cluster, source, leadership, supervisor, metrics)
        tasks: list[asyncio.Task[Any]] = [
            asyncio.create_task(work, name=name)
            for name, work in (
                ("leadership", leadership.run()),
                ("watch", supervisor.run()),
                ("terms", _run_terms(replica, health)),
                ("heartbeat", _record_heartbeats(health)),
                ("stop", stop.wait()),
            )
        ]
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
        except ApiError as error:
            log.warning("cannot read the uid of the cluster (or set WAKEBOARD_SOURCE): %s", error)
            with suppress(TimeoutError):
                async with asyncio.timeout(API_RETRY_S):
                    await stop.wait()
    return None


async def _release_leadership(election: asyncio.Task[None], leadership: Leadership) -> None:
    """Lets a standby lead while this process stops. The store refuses later writes of this process."""
    election.cancel()
    await asyncio.gather(election, return_exceptions=True)
    await leadership.release()


async def _record_heartbeats(health: OperatorHealth) -> None:
    while True:
        health.heartbeat()
        await asyncio.sleep(1.0)


async def _run_terms(replica: OperatorReplica, health: OperatorHealth) -> None:
    """Starts the leader's tasks when this process becomes the leader, and cancels them when the term ends."""
    leadership, logged = replica.leadership, ""
    while True:
        await _until(leadership, leadership.is_leader)
        term = leadership.term
        tasks: list[asyncio.Task[None]] = []
        try:
            installation = await replica.installation()
            health.reconciler = Reconciler(
                replica.settings, replica.source, installation, ResourceCache(), replica.cluster
            )
            leadership.problem = None
            tasks = LeaderTerm(replica, term, health.reconciler).start()
            log.info("term %d started", term)
            outages.recovered("term")
            await _until(leadership, lambda: not leadership.is_leader() or leadership.term != term)  # noqa: B023 - at once
        except (WakeboardError, TimeoutError) as error:
            if isinstance(error, DatabaseUnavailable | TimeoutError):
                outages.lost("term", error)
            elif str(error) != logged:
                log.warning("cannot start term %d: %s", term, error)
            logged = leadership.problem = str(error)
            await asyncio.sleep(RETRY_S)
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            health.reconciler = None
            if tasks:
                log.info("term %d ended", term)


async def _until(leadership: Leadership, condition: Callable[[], bool]) -> None:
    while not condition():
        leadership.changed.clear()
        with suppress(TimeoutError):
            async with asyncio.timeout(LEADERSHIP_POLL_S):
                await leadership.changed.wait()
