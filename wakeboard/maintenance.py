"""The maintenance loop: runs each maintenance task at its own interval.

Workers, the operator and `wakeboard up` may call `run_due` at any time. The store records when each task last ran,
so several loops do not repeat each other's work. A task that fails does not stop the others; `failing` has it until
its next run succeeds. A task that lost its connection is due again at once. A process keeps its loop when it connects
again, because some tasks begin in the second pass: a new loop at each connection might never reach it.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass, field
from datetime import timedelta
from typing import TYPE_CHECKING, Final

from wakeboard.dependencies.dependents import NOTHING, enqueue_dependents
from wakeboard.engine.partitions import create_partitions
from wakeboard.engine.reaper import ReapCounts, reap
from wakeboard.engine.retention import DeletedCounts, Retention, delete_expired
from wakeboard.errors import DatabaseUnavailable, Locked
from wakeboard.limits.calls import declare_limits, locked_limits
from wakeboard.schedules.calls import update_circuits, update_expectations
from wakeboard.schedules.scheduler import NO_TICKS, schedule_slice

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Collection

    from wakeboard.alerts.rules.alert_rules import AlertSpec
    from wakeboard.dependencies.calls import EnqueuedDependents
    from wakeboard.engine.maintenance_api import MaintenanceStore
    from wakeboard.limits.rules.declared_limits import Limits
    from wakeboard.schedules.calls import EnqueuedTicks
    from wakeboard.schedules.scheduler import ScanPosition

EVERY_PASS_S: Final = 0.0
BATCHES_PER_SLICE: Final = 2  # of ticks, some 0.2 s, in a process that claims runs between two passes
REAP_INTERVAL_S: Final = 5.0
PARTITIONS_INTERVAL_S: Final = 3600.0
RETENTION_INTERVAL_S: Final = 3600.0
ROLLUPS_INTERVAL_S: Final = 60.0
BACKFILLS_INTERVAL_S: Final = 1.0
PAUSES_INTERVAL_S: Final = 1.0
ALERTS_INTERVAL_S: Final = 5.0  # of this process; the store decides which rules are due
CIRCUITS_INTERVAL_S: Final = 5.0
EXPECTATIONS_INTERVAL_S: Final = 5.0
LIMITS_INTERVAL_S: Final = 5.0
ONCE_S: Final = float("inf")
UNNEEDED_S: Final = 300.0  # after which a task runs that has no work, as the store has just said
SEEN_BY_STORE: Final = {"scheduler", "dependencies", "reaper", "circuits", "expectations", "pauses", "backfills"}
WORKER_ROLLUPS_INTERVAL_S: Final = 150.0  # longer, so that the operator counts the runs if there is one
MAX_RETRY_S: Final = 60.0  # after a failure
OUTAGE_RETRY_S: Final = 5.0  # after a failure of the database


@dataclass(slots=True)
class MaintenancePass:
    """What one pass did. `failures`: by the name of the task."""

    ticks: EnqueuedTicks = NO_TICKS
    more_ticks: bool = False  # are due, and wait for the next pass
    dependents: EnqueuedDependents = NOTHING
    reaped: ReapCounts = field(default_factory=ReapCounts)
    partitions_created: int = 0
    deleted: DeletedCounts = field(default_factory=DeletedCounts)
    failures: dict[str, Exception] = field(default_factory=dict[str, Exception])


@dataclass(slots=True)
class _Task:
    """A maintenance task. `run` may record what it did in the pass. It returns True when more work is waiting."""

    name: str
    interval_s: float
    run: Callable[[MaintenanceStore, MaintenancePass], Awaitable[object]]
    due_at: float = float("-inf")
    at_once: bool = True  # False: not in the first pass

    def due(self, now: float, needed: Collection[str] | None) -> bool:
        """Whether a pass at `now` runs it."""
        spared = needed is not None and self.name in SEEN_BY_STORE.difference(needed)
        return self.due_at + (UNNEEDED_S if spared else 0.0) <= now


class MaintenanceLoop:
    """The maintenance tasks of one process. `now` is a reading of any monotonic clock, in seconds.

    `decides_retention`: this process decides the retention of the installation. Workers do not. `sets_misfire_grace`:
    it stores the misfire grace once, for edits by applications, because its settings have one.
    `alerts` returns the alert rules that this process evaluates; None: it evaluates none. `limits` returns the limits
    that `source` declares, or None while they are not known. `between_claims`: this process claims runs between two
    passes, so a pass enqueues only some ticks, and consumes only one batch of the ends of runs. `failing`: the tasks
    whose last run failed, with the error.
    """

    def __init__(
        self,
        *,
        misfire_grace: timedelta,
        retention: Retention,
        decides_retention: bool = False,
        sets_misfire_grace: bool = False,
        alerts: Callable[[], AlertSpec | None] | None = None,
        limits: Callable[[], Limits | None] | None = None,
        source: str = "",
        between_claims: bool = False,
    ) -> None:
        self._misfire_grace = misfire_grace
        self._between_claims = between_claims
        self._ticks_after: ScanPosition | None = None  # where the next slice continues
        self._retention = retention
        self._decides_retention = decides_retention
        self._alerts = alerts
        self._limits, self._source = limits, source
        self.failing: dict[str, Exception] = {}
        self._rollups_interval_s = ROLLUPS_INTERVAL_S if decides_retention else WORKER_ROLLUPS_INTERVAL_S
        self._tasks = (
            _Task("scheduler", EVERY_PASS_S, self._schedule),
            _Task("dependencies", EVERY_PASS_S, self._enqueue_dependents),
            _Task("reaper", REAP_INTERVAL_S, self._reap),
            _Task("partitions", PARTITIONS_INTERVAL_S, self._create_partitions),
            # A worker's first pass delays its first run, and its second one nothing.
            _Task("circuits", CIRCUITS_INTERVAL_S, lambda store, _: update_circuits(store), at_once=False),
            _Task(
                "expectations",
                EXPECTATIONS_INTERVAL_S,
                lambda store, _: update_expectations(store),
                at_once=False,
            ),
            _Task("pauses", PAUSES_INTERVAL_S, lambda store, _: store.end_pauses(), at_once=False),
            _Task("backfills", BACKFILLS_INTERVAL_S, lambda store, _: store.continue_backfills(), at_once=False),
            _Task("rollups", ROLLUPS_INTERVAL_S, self._roll_up, at_once=False),
            _Task("retention", RETENTION_INTERVAL_S, self._delete_expired),
            *([_Task("misfire grace", ONCE_S, self._set_misfire_grace)] if sets_misfire_grace else []),
            *([_Task("alerts", ALERTS_INTERVAL_S, self._evaluate_alerts, at_once=False)] if alerts is not None else []),
            *([_Task("limits", LIMITS_INTERVAL_S, self._declare_limits)] if limits is not None else []),
        )

    def due_tasks(self, now: float, needed: Collection[str] | None = None) -> list[str]:
        """The names of the tasks that a pass at `now` would run, in order.

        The first pass ends no pauses, and runs neither backfills nor rollups nor alerts.
        """
        return [task.name for task in self._tasks if task.due(now, needed) and task.at_once]

    async def run_due(
        self,
        store: MaintenanceStore,
        now: float,
        *,
        only_dependencies: bool = False,
        needed: Collection[str] | None = None,
    ) -> MaintenancePass:
        """Runs the tasks that are due. Errors of tasks do not raise; they are in `failures`.

        `needed`: of the tasks whose work the store sees, only these have any, as it has just said (`fetch_runs`). The
        others are spared for some minutes, unless they failed. None: it has not said anything.
        """
        done = MaintenancePass()
        for task in self._tasks:
            if only_dependencies and task.name != "dependencies":
                continue
            if not task.at_once:
                task.at_once = True
            elif task.due(now, None if task.name in self.failing else needed):
                task.due_at = now + await self._run(task, store, done)
            if store.conn.closed:
                break
        return done

    async def _run(self, task: _Task, store: MaintenanceStore, done: MaintenancePass) -> float:
        """Runs one task and returns the seconds until it is due again."""
        try:
            due_in_s = EVERY_PASS_S if await task.run(store, done) is True else task.interval_s
        except Exception as error:  # noqa: BLE001 - the other tasks still run; the caller reports the error
            done.failures[task.name] = error
            if store.conn.closed:  # no failure of the task
                return EVERY_PASS_S
            self.failing[task.name] = error
            return min(task.interval_s, OUTAGE_RETRY_S if isinstance(error, DatabaseUnavailable) else MAX_RETRY_S)
        self.failing.pop(task.name, None)
        return due_in_s

    async def _schedule(self, store: MaintenanceStore, done: MaintenancePass) -> None:
        batches = BATCHES_PER_SLICE if self._between_claims else sys.maxsize
        done.ticks, self._ticks_after = await schedule_slice(
            store, misfire_grace=self._misfire_grace, batches=batches, after=self._ticks_after
        )
        done.more_ticks = self._ticks_after is not None

    async def _enqueue_dependents(self, store: MaintenanceStore, done: MaintenancePass) -> None:
        done.dependents = await enqueue_dependents(store, one_batch=self._between_claims)

    async def _reap(self, store: MaintenanceStore, done: MaintenancePass) -> None:
        done.reaped = await reap(store)

    async def _create_partitions(self, store: MaintenanceStore, done: MaintenancePass) -> None:
        done.partitions_created = await create_partitions(store)

    async def _roll_up(self, store: MaintenanceStore, _: MaintenancePass) -> bool:
        return await store.roll_up(timedelta(seconds=self._rollups_interval_s))

    async def _evaluate_alerts(self, store: MaintenanceStore, _: MaintenancePass) -> None:
        if self._alerts is not None and (alerts := self._alerts()):
            from wakeboard.alerts.evaluate import run_alerts  # late: most workers have no rules

            await run_alerts(store, alerts)

    async def _declare_limits(self, store: MaintenanceStore, _: MaintenancePass) -> None:
        if self._limits is not None and (limits := self._limits()):
            changed = await declare_limits(store, self._source, limits.rows(), actor=self._source, program="kubectl")
            if "locked" in changed.values():
                raise Locked(locked_limits(changed))  # the others are set; the next call sets these

    async def _set_misfire_grace(self, store: MaintenanceStore, _: MaintenancePass) -> None:
        await store.set_misfire_grace(self._misfire_grace)

    async def _delete_expired(self, store: MaintenanceStore, done: MaintenancePass) -> bool:
        done.deleted = await delete_expired(store, self._retention, sets_minimum=self._decides_retention)
        return done.deleted.more
