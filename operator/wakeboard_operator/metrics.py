"""The metrics of the operator. Only the leader exports those of schedules and runs. No label names a schedule."""

from __future__ import annotations

import time
from collections import Counter as Counts
from typing import TYPE_CHECKING

from prometheus_client import CollectorRegistry, Counter, Gauge, disable_created_metrics, generate_latest

from wakeboard.health.conditions import CONDITIONS
from wakeboard_operator.run_histogram import MAX_PAIRS, RunHistogram

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from wakeboard.health.queries.facts import Health
    from wakeboard.maintenance import MaintenancePass
    from wakeboard.views.queries.backlog import QueueRow
    from wakeboard.views.queries.finished_runs import Finished
    from wakeboard_operator.cache import ResourceCache
    from wakeboard_operator.leadership import Leadership
    from wakeboard_operator.watch import WatchSupervisor

BACKLOG_WITHIN_S = 60
"""What becomes due within as many seconds counts as work: a pod needs them to start."""


class Metrics:
    """All metrics of this process. Their names are public: alerts and dashboards use them."""

    def __init__(self) -> None:
        disable_created_metrics()
        registry = self.registry = CollectorRegistry()
        self.leader = Gauge("wakeboard_leader", "1 if this operator is the leader.", registry=registry)
        self.term = Gauge("wakeboard_leader_term", "The current term of the leader election.", registry=registry)
        self.database_up = Gauge("wakeboard_database_up", "1 if the database answers.", registry=registry)
        self.api_up = Gauge("wakeboard_api_server_up", "1 if the API server lists JobSchedules.", registry=registry)
        self.last_reconcile = Gauge(
            "wakeboard_last_reconcile_timestamp_seconds",
            "Time of the last resync from a complete list.",
            registry=registry,
        )
        self.reconcile_s = Gauge("wakeboard_reconcile_seconds", "Duration of the last resync.", registry=registry)
        self.sync_lag_s = Gauge(
            "wakeboard_sync_lag_seconds",
            "Time from the watch event of the last change to its commit.",
            registry=registry,
        )
        self.watch_age_s = Gauge(
            "wakeboard_watch_last_event_age_seconds", "Time since the last watch event.", registry=registry
        )
        self.watch_restarts = Counter("wakeboard_watch_restarts", "Restarts of the watch.", registry=registry)
        self.watch_stalls = Counter("wakeboard_watch_stalled", "Stalled watches.", registry=registry)
        self.status_writes = Counter("wakeboard_status_writes", "Written statuses.", registry=registry)
        self.status_conflicts = Counter(
            "wakeboard_status_conflicts", "Status writes that conflicted with a newer version.", registry=registry
        )
        self.status_repairs = Counter(
            "wakeboard_status_repairs",
            "Repaired statuses that another client had overwritten.",
            registry=registry,
        )
        self.maintenance_failures = Counter(
            "wakeboard_maintenance_failures", "Failed maintenance tasks.", ["task"], registry=registry
        )
        self.lease_expiries = Counter(
            "wakeboard_leases_expired", "Expired leases that this operator reaped.", ["kind"], registry=registry
        )
        self.terminated = Counter(
            "wakeboard_attempts_terminated",
            "Attempts that ended because the process of their worker did, by cause. Reported by this operator.",
            ["cause"],
            registry=registry,
        )
        self.ticks = Counter(
            "wakeboard_ticks_enqueued", "Ticks for which this operator enqueued a run.", registry=registry
        )
        self.finished = Counter(
            "wakeboard_runs_finished",
            "Runs that finished while this operator led.",
            ["outcome"],
            registry=registry,
        )
        self.durations = RunHistogram(
            "wakeboard_run_duration_seconds",
            "Durations of runs that succeeded while this operator led: from the start of the last attempt to its end."
            f" At most {MAX_PAIRS} pairs of labels, then `other`.",
            registry,
        )
        self.lateness = RunHistogram(
            "wakeboard_run_lateness_seconds",
            "How late runs started that succeeded while this operator led.",
            registry,
        )
        self.schedules = Gauge(
            "wakeboard_schedules", "Schedules by condition.", ["condition", "status"], registry=registry
        )
        self.foreign = Gauge(
            "wakeboard_foreign_schedules",
            "Schedules of another database: its operator `answers`, or is `silent` and no operator runs them.",
            ["operator"],
            registry=registry,
        )
        self.due = Gauge(
            "wakeboard_due_runs", "Due runs that no worker has claimed (bounded scan).", ["queue"], registry=registry
        )
        self.backlog = Gauge(
            "wakeboard_backlog_runs",
            f"Runs that execute, are due, or become due within {BACKLOG_WITHIN_S} seconds, with ticks (bounded scan).",
            ["queue"],
            registry=registry,
        )
        self.running = Gauge("wakeboard_running_runs", "Running runs.", registry=registry)
        self.workers = Gauge("wakeboard_workers", "Workers seen in the last three minutes.", registry=registry)
        self.conditions = [
            (metric, Gauge(metric.name, metric.help, [metric.label] if metric.label else [], registry=registry))
            for condition in CONDITIONS
            if (metric := condition.metric)
        ]
        self.leader_only = (
            *(self.schedules, self.foreign, self.due, self.backlog, self.running, self.workers),
            *(gauge for _, gauge in self.conditions),
            *(self.api_up, self.last_reconcile, self.reconcile_s, self.sync_lag_s),
        )
        self._restarts_counted = self._stalls_counted = 0

    def text(self, leadership: Leadership, supervisor: WatchSupervisor) -> bytes:
        """Returns the page in the Prometheus format."""
        self.leader.set(leadership.is_leader())
        self.term.set(leadership.term)
        self.database_up.set(leadership.database_error is None)
        self.watch_age_s.set(time.monotonic() - supervisor.changes.last_at)
        self.watch_restarts.inc(supervisor.restarts - self._restarts_counted)
        self.watch_stalls.inc(supervisor.stalled - self._stalls_counted)
        self._restarts_counted, self._stalls_counted = supervisor.restarts, supervisor.stalled
        if leadership.is_leader():
            return generate_latest(self.registry)
        hidden = {family for metric in self.leader_only for family in _names(metric)}
        return generate_latest(_FilteredRegistry(self.registry, hidden))  # pyright: ignore[reportArgumentType]

    def record_maintenance(self, done: MaintenancePass) -> None:
        """Counts what a maintenance pass did."""
        for name in done.failures:
            self.maintenance_failures.labels(name).inc()
        self.ticks.inc(done.ticks.runs)
        for kind in ("crashed", "timed_out", "cancelled"):
            self.lease_expiries.labels(kind).inc(getattr(done.reaped, kind))

    def record_termination(self, cause: str, attempts: int) -> None:
        """Counts the attempts that the end of a worker's process ended."""
        self.terminated.labels(cause).inc(attempts)

    def record_finished(self, finished: Finished) -> None:
        """Counts finished runs by outcome, and those that succeeded by duration and lateness."""
        for outcome, count in finished.runs.items():
            self.finished.labels(outcome).inc(count)
        for each in finished.groups:
            if each.duration is not None and each.lateness is not None:
                self.durations.add(each.namespace, each.queue, each.duration, each.runs, each.durations_s)
                self.lateness.add(each.namespace, each.queue, each.lateness, each.runs, each.latenesses_s)

    def record_health(self, health: Health) -> None:
        """Sets the metrics of runs and workers, and those of the conditions of health."""
        runs: Counts[str] = Counts()
        for due in health.due:
            runs[due.queue] += due.runs
        self.due.clear()
        for queue, count in runs.items():
            self.due.labels(queue).set(count)
        self.running.set(health.runs.running)
        self.workers.set(health.maintenance.workers)
        for metric, gauge in self.conditions:
            value = metric.value(health)
            if isinstance(value, dict):
                gauge.clear()
                for label, of_label in value.items():
                    gauge.labels(label).set(of_label)
            else:
                gauge.set(value)

    def record_backlog(self, queues: Iterable[QueueRow]) -> None:
        """Sets the work of each queue, for autoscalers."""
        self.backlog.clear()
        for row in queues:
            self.backlog.labels(row.queue).set(row.due + row.soon + row.ticks)

    def count_foreign(self, counts: Mapping[str, int]) -> None:
        """Sets the number of schedules of other installations, by whether an operator of theirs answers."""
        for operator, count in counts.items():
            self.foreign.labels(operator).set(count)

    def count_conditions(self, cache: ResourceCache) -> None:
        """Sets the number of schedules by condition."""
        counts: Counts[tuple[str, str]] = Counts()
        for known in cache.all():
            counts.update(known.conditions)
        self.schedules.clear()
        for (condition, status), count in counts.items():
            self.schedules.labels(condition, status).set(count)


class _FilteredRegistry:
    """A registry without some of its families."""

    def __init__(self, registry: CollectorRegistry, hidden: set[str]) -> None:
        self.registry, self._hidden = registry, hidden

    def collect(self) -> list[object]:
        return [family for family in self.registry.collect() if family.name not in self._hidden]


def _names(metric: Gauge) -> set[str]:
    return {family.name for family in metric.collect()}
