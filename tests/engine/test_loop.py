"""When each maintenance task is due, and that a failed task delays no other."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING

import pytest

from tests.schedules.schedules import MISFIRE_GRACE, connected, declared, make_due, put, rows, runs
from wakeboard.engine.retention import MAX_BATCHES, Retention
from wakeboard.maintenance import (
    BACKFILLS_INTERVAL_S,
    PARTITIONS_INTERVAL_S,
    REAP_INTERVAL_S,
    UNNEEDED_S,
    MaintenanceLoop,
)
from wakeboard.settings import read_settings

if TYPE_CHECKING:
    from wakeboard.engine.maintenance_api import MaintenanceStore

pytestmark = pytest.mark.anyio

FIRST = ["scheduler", "dependencies", "reaper", "partitions", "retention"]
EVERYTHING = [
    "scheduler",
    "dependencies",
    "reaper",
    "partitions",
    "circuits",
    "expectations",
    "pauses",
    "backfills",
    "rollups",
    "retention",
]

WORK = {
    "scheduler": ("update job_definitions set next_run_at = now()",),
    "dependencies": (
        "insert into ended_runs (run_id, scheduled_for, outcome) values (1, now(), 'ended')",
        "insert into schedule_ticks (definition_id, scheduled_for, waits_for) values (1, now(), 'run')",
        "insert into schedule_ticks (definition_id, scheduled_for, waits_for) values (1, now(), 'check')",
    ),
    "reaper": (
        "update installation set reap_completed_at = now() - interval '61 s'",
        "update installation set reap_completed_at = reap_started_at - interval '1 s'",
        "update installation set reap_started_at = now() + interval '1 hour'",
        "update workers set last_seen = now() - interval '61 s'",
        "update workers set last_seen = now() + interval '1 hour'",
        "update job_runs set start_before = now() - interval '1 s'",
    ),
    "circuits": ("update job_definitions set suspend_after_dead = 3",),
    "expectations": (
        "update job_definitions set success_due_at = now()",
        "update job_definitions set success_missed_at = now()",
    ),
    "pauses": ("insert into pauses (scope, until) values ('all', now())",),
    "backfills": (
        """insert into backfills (definition_id, schedule, range_begin, range_end, again, at_once, total, actor, source)
           values (1, 'team/a', 'epoch', now(), false, 1, 1, 'me', 'sql')""",
    ),
}


def maintenance() -> MaintenanceLoop:
    return MaintenanceLoop(misfire_grace=MISFIRE_GRACE, retention=Retention.from_settings(read_settings()))


async def test_the_first_pass_does_what_is_urgent(store: MaintenanceStore):
    ours = maintenance()
    assert ours.due_tasks(1000.0) == FIRST
    assert not (await ours.run_due(store, 1000.0)).failures
    assert ours.due_tasks(1000.0) == [
        "scheduler",
        "dependencies",
        "circuits",
        "expectations",
        "pauses",
        "backfills",
        "rollups",
    ]
    assert not (await ours.run_due(store, 1000.0)).failures
    assert ours.due_tasks(1000.0) == ["scheduler", "dependencies"]
    assert ours.due_tasks(1000.0 + BACKFILLS_INTERVAL_S) == ["scheduler", "dependencies", "pauses", "backfills"]
    assert ours.due_tasks(1000.0 + REAP_INTERVAL_S - 0.001) == ["scheduler", "dependencies", "pauses", "backfills"]
    assert ours.due_tasks(1000.0 + REAP_INTERVAL_S) == [
        "scheduler",
        "dependencies",
        "reaper",
        "circuits",
        "expectations",
        "pauses",
        "backfills",
    ]
    assert ours.due_tasks(1000.0 + PARTITIONS_INTERVAL_S) == EVERYTHING


async def test_a_process_stores_only_a_misfire_grace_that_was_set_and_once(store: MaintenanceStore):
    stored: list[timedelta] = []
    for given in ({"misfire_grace_seconds": 3600}, {}):
        settings = read_settings(**given)
        loop = MaintenanceLoop(
            misfire_grace=settings.misfire_grace,
            retention=Retention.from_settings(settings),
            decides_retention=True,
            sets_misfire_grace=settings.has_misfire_grace,
        )
        assert not (await loop.run_due(store, 1000.0)).failures
        stored += (await rows(store, "select misfire_grace from installation"))[0]
        await store.set_misfire_grace(timedelta(hours=2))
        assert not (await loop.run_due(store, 1000.0 + 2 * PARTITIONS_INTERVAL_S)).failures
        stored += (await rows(store, "select misfire_grace from installation"))[0]
    assert stored == [timedelta(hours=1), *[timedelta(hours=2)] * 3]


async def test_work_of_each_task_that_is_spared_is_announced(store: MaintenanceStore):
    ours = maintenance()
    for _ in range(3):
        await ours.run_due(store, 1000.0)
    assert set(WORK) == set(ours.due_tasks(1030.0)) - set(ours.due_tasks(1030.0, []))
    assert set(WORK) <= set(ours.due_tasks(1010.0 + UNNEEDED_S, []))
    await put(store, declared("a"))
    await rows(store, "select enqueue('ping')")
    await rows(
        store, "insert into workers (worker_id, name, pool, queues, capacity, lease_s) values (1, '', '', '{}', 1, 60)"
    )
    await rows(store, "update installation set reap_started_at = now(), reap_completed_at = now()")
    assert await rows(store, "select maintenance_due()") == [([],)]
    for task, statement in ((task, each) for task, statements in WORK.items() for each in statements):
        await rows(store, "begin")
        await rows(store, statement)
        assert await rows(store, "select maintenance_due()") == [([task],)], statement
        await rows(store, "rollback")


async def test_a_pass_enqueues_ticks_reaps_leases_and_reports_both(store: MaintenanceStore):
    await put(store, declared("a"))
    await make_due(store)
    await rows(store, "select enqueue('ping')")
    await rows(store, "update job_runs set status = 'running', locked_by = 7, locked_until = now() - interval '1 s'")
    made = await maintenance().run_due(store, 0.0)
    assert made.ticks.runs == 1
    assert made.reaped.crashed == 1
    assert made.partitions_created == 0
    assert made.failures == {}
    assert await runs(store) == ["queued", "queued"]


async def test_a_failed_maintenance_task_stops_no_other_and_is_retried(store: MaintenanceStore):
    await put(store, declared("a"))
    await make_due(store)
    await rows(store, "alter function reap rename to reap_away")
    await rows(store, "alter function create_partitions rename to make_partitions_away")
    ours = maintenance()
    made = await ours.run_due(store, 0.0)
    assert set(made.failures) == {"reaper", "partitions"}
    assert "wakeboard migrate" in str(made.failures["reaper"])
    assert made.ticks.runs == 1
    assert set(ours.failing) == {"reaper", "partitions"}
    assert ours.due_tasks(60.0) == [
        "scheduler",
        "dependencies",
        "reaper",
        "partitions",
        "circuits",
        "expectations",
        "pauses",
        "backfills",
        "rollups",
    ]
    await rows(store, "alter function reap_away rename to reap")
    await rows(store, "alter function make_partitions_away rename to create_partitions")
    assert (await ours.run_due(store, 60.0)).failures == {}
    assert ours.failing == {}


async def test_a_lost_connection_is_no_failure_of_a_task(store: MaintenanceStore, database: str):
    ours = maintenance()
    async with connected(database) as lost:
        (pid,) = (await rows(lost, "select pg_backend_pid()"))[0]
        await rows(store, "select pg_terminate_backend(%s)", pid)
        assert set((await ours.run_due(lost, 0.0)).failures) == {FIRST[0]}
    assert ours.failing == {}
    assert (await ours.run_due(store, 100.0)).failures == {}


async def test_unfinished_retention_continues_in_the_next_pass(store: MaintenanceStore):
    await rows(
        store,
        "insert into job_attempts (run_id, lease_epoch, attempt, outcome, locked_by, started_at, ended_at)"
        " select -n, 1, 1, 'failed', 1, now(), now() - interval '40 days' from generate_series(1, %s) as n",
        1000 * MAX_BATCHES + 1,
    )
    ours = maintenance()
    assert (await ours.run_due(store, 0.0)).deleted.more
    assert ours.due_tasks(0.1) == [
        "scheduler",
        "dependencies",
        "circuits",
        "expectations",
        "pauses",
        "backfills",
        "rollups",
        "retention",
    ]
    assert (await ours.run_due(store, 0.1)).deleted.rows == 1
    assert ours.due_tasks(0.2) == ["scheduler", "dependencies"]
