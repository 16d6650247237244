"""What Prometheus is told. Only the leader tells about schedules and runs; nothing is labelled by schedule."""

from __future__ import annotations

import time
from collections import Counter as Counts
from typing import TYPE_CHECKING

from prometheus_client import CollectorRegistry, Counter, Gauge, disable_created_metrics, generate_latest

if TYPE_CHECKING:
    from collections.abc import Mapping
    from datetime import datetime

    from wakeboard.maintenance.loop import MaintenancePass
    from wakeboard.store.queries.health_checks import HealthFacts
    from wakeboard_operator.cache import ResourceCache
    from wakeboard_operator.leadership import Leadership
    from wakeboard_operator.watch import Supervisor


class Metrics:
    """Every metric of this process. Names and meanings are public: alerts stand on them."""

    def __init__(self) -> None:
        disable_created_metrics()
        registry = self.registry = CollectorRegistry()
        self.leader = Gauge("wakeboard_leader", "1 while this operator leads.", registry=registry)
        self.term = Gauge("wakeboard_leader_term", "The term in which it leads, or led last.", registry=registry)
        self.database_up = Gauge("wakeboard_database_up", "1 while the database answers.", registry=registry)
        self.api_up = Gauge("wakeboard_api_server_up", "1 while the API server lists JobSchedules.", registry=registry)
        self.last_reconcile = Gauge(
            "wakeboard_last_reconcile_timestamp_seconds", "When the last complete list was synced.", registry=registry
        )
        self.reconcile_s = Gauge("wakeboard_reconcile_seconds", "What the last complete sync took.", registry=registry)
        self.sync_lag_s = Gauge(
            "wakeboard_sync_lag_seconds", "From hearing of the last batch of changes to its commit.", registry=registry
        )
        self.stream_age_s = Gauge(
            "wakeboard_watch_last_event_age_seconds", "Since the stream showed anything.", registry=registry
        )
        self.stream_restarts = Counter(
            "wakeboard_watch_restarts", "How often the stream was started again.", registry=registry
        )
        self.stream_deaf = Counter("wakeboard_watch_stalled", "How often the stream was found deaf.", registry=registry)
        self.status_writes = Counter("wakeboard_status_writes", "Statuses written.", registry=registry)
        self.status_conflicts = Counter(
            "wakeboard_status_conflicts", "Status writes that met a newer version.", registry=registry
        )
        self.status_repairs = Counter(
            "wakeboard_status_repairs",
            "Statuses that another client had overwritten and that were repaired.",
            registry=registry,
        )
        self.duty_failures = Counter(
            "wakeboard_maintenance_failures", "Maintenance tasks that failed.", ["task"], registry=registry
        )
        self.lease_expiries = Counter(
            "wakeboard_leases_expired", "Leases taken back by this operator.", ["kind"], registry=registry
        )
        self.ticks = Counter("wakeboard_ticks_enqueued", "Ticks that this operator made into runs.", registry=registry)
        self.finished = Counter(
            "wakeboard_runs_finished", "Runs that ended while this operator led.", ["outcome"], registry=registry
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
            "wakeboard_due_runs", "Due runs that nobody has taken (bounded look).", ["queue"], registry=registry
        )
        self.oldest_due_s = Gauge(
            "wakeboard_oldest_due_seconds",
            "Age of the oldest of them, 0 where they are paused.",
            ["queue"],
            registry=registry,
        )
        self.running = Gauge("wakeboard_running_runs", "Runs that are being executed.", registry=registry)
        self.dead = Gauge("wakeboard_dead_runs", "Dead runs that wait for a person.", registry=registry)
        self.late = Gauge("wakeboard_late_schedules", "Schedules whose tick is five minutes late.", registry=registry)
        self.workers = Gauge("wakeboard_workers", "Workers seen in the last three minutes.", registry=registry)
        self.worker_age_s = Gauge(
            "wakeboard_last_worker_age_seconds",
            "Since any worker was seen, or since this operator began to look: the dead-man switch.",
            registry=registry,
        )
        self.held = Gauge("wakeboard_pending_removals", "Removals that wait for a person's yes.", registry=registry)
        self.of_leaders = (
            *(
                self.schedules,
                self.foreign,
                self.due,
                self.oldest_due_s,
                self.running,
                self.dead,
                self.late,
                self.workers,
            ),
            *(self.worker_age_s, self.held),
            *(self.api_up, self.last_reconcile, self.reconcile_s, self.sync_lag_s),
        )
        self._restarts_seen = self._deaf_seen = 0
        self._looked_first: datetime | None = None

    def text(self, leadership: Leadership, supervisor: Supervisor) -> bytes:
        """The page that Prometheus reads."""
        self.leader.set(leadership.is_leader())
        self.term.set(leadership.term)
        self.database_up.set(leadership.database_error is None)
        self.stream_age_s.set(time.monotonic() - supervisor.changes.last_at)
        self.stream_restarts.inc(supervisor.restarts - self._restarts_seen)
        self.stream_deaf.inc(supervisor.deaf - self._deaf_seen)
        self._restarts_seen, self._deaf_seen = supervisor.restarts, supervisor.deaf
        if leadership.is_leader():
            return generate_latest(self.registry)
        hidden = {family for metric in self.of_leaders for family in _names(metric)}
        return generate_latest(_Without(self.registry, hidden))  # pyright: ignore[reportArgumentType]

    def round_made(self, done: MaintenancePass) -> None:
        """A round of duties is over."""
        for name in done.failures:
            self.duty_failures.labels(name).inc()
        self.ticks.inc(done.ticks.runs)
        for kind in ("crashed", "timed_out", "cancelled"):
            self.lease_expiries.labels(kind).inc(getattr(done.reaped, kind))

    def ended(self, runs: Mapping[str, int]) -> None:
        """So many runs have ended since the last look, by how they ended."""
        for outcome, count in runs.items():
            self.finished.labels(outcome).inc(count)

    def look(self, vitals: HealthFacts) -> None:
        """What the board says of itself."""
        now = vitals.server.now
        runs: Counts[str] = Counts()
        oldest: dict[str, float] = {}
        for due in vitals.due:
            runs[due.queue] += due.runs
            age_s = 0.0 if due.paused else (now - due.oldest).total_seconds()
            oldest[due.queue] = max(oldest.get(due.queue, 0.0), age_s)
        self.due.clear()
        self.oldest_due_s.clear()
        for queue, count in runs.items():
            self.due.labels(queue).set(count)
            self.oldest_due_s.labels(queue).set(oldest[queue])
        self.running.set(vitals.runs.running)
        self.dead.set(vitals.runs.dead)
        self.late.set(vitals.definitions.late)
        self.workers.set(vitals.maintenance.workers)
        self._looked_first = self._looked_first or now
        self.worker_age_s.set((now - (vitals.maintenance.last_worker or self._looked_first)).total_seconds())
        self.held.set(sum(removal.confirmed_at is None for removal in vitals.removals))

    def count_foreign(self, counts: Mapping[str, int]) -> None:
        """Sets the number of schedules of other installations, by whether an operator of theirs answers."""
        for operator, count in counts.items():
            self.foreign.labels(operator).set(count)

    def count_conditions(self, cache: ResourceCache) -> None:
        """How many schedules are Ready, Healthy, and so on."""
        counts: Counts[tuple[str, str]] = Counts()
        for known in cache.all():
            counts.update(known.conditions)
        self.schedules.clear()
        for (condition, status), count in counts.items():
            self.schedules.labels(condition, status).set(count)


class _Without:
    """A registry without some of its families."""

    def __init__(self, registry: CollectorRegistry, hidden: set[str]) -> None:
        self.registry, self._hidden = registry, hidden

    def collect(self) -> list[object]:
        return [family for family in self.registry.collect() if family.name not in self._hidden]


def _names(metric: Gauge) -> set[str]:
    return {family.name for family in metric.collect()}
