"""Which duty is due when, and that none waits for another that fails."""

from __future__ import annotations

import subprocess
import sys
from datetime import timedelta
from typing import TYPE_CHECKING

import pytest

from tests.maintenance.stories import connected, declared, make_due, put, rows, runs
from wakeboard.maintenance.loop import PARTITIONS_EVERY, REAP_EVERY, MaintenanceLoop
from wakeboard.maintenance.retention import BATCHES_AT_ONCE, Retention

if TYPE_CHECKING:
    from wakeboard.store.maintenance_api import Store

pytestmark = pytest.mark.anyio

EVERYTHING = ["ticks", "reaping", "partitions", "tidying"]


def maintenance() -> MaintenanceLoop:
    return MaintenanceLoop(misfire_grace=timedelta(minutes=5), retention=Retention())


async def test_the_first_round_does_everything_and_the_next_one_only_ticks(store: Store):
    ours = maintenance()
    assert ours.due(1000.0) == EVERYTHING
    assert not (await ours.make(store, 1000.0)).failures
    assert ours.due(1000.0) == ["ticks"]
    assert ours.due(1000.0 + REAP_EVERY - 0.001) == ["ticks"]
    assert ours.due(1000.0 + REAP_EVERY) == ["ticks", "reaping"]
    assert ours.due(1000.0 + PARTITIONS_EVERY) == EVERYTHING


async def test_a_round_makes_ticks_takes_back_what_lapsed_and_says_what_it_did(store: Store):
    await put(store, declared("a"))
    await make_due(store)
    await rows(store, "select enqueue('ping')")
    await rows(store, "update job_runs set status = 'running', locked_by = 7, locked_until = now() - interval '1 s'")
    made = await maintenance().make(store, 0.0)
    assert made.ticks.runs == 1
    assert made.taken_back.crashed == 1
    assert made.partitions_made == 0
    assert made.failures == {}
    assert await runs(store) == ["queued", "queued"]


async def test_a_duty_that_fails_stops_no_other_and_comes_again_soon(store: Store):
    await put(store, declared("a"))
    await make_due(store)
    await rows(store, "alter function reap rename to reap_away")
    await rows(store, "alter function create_partitions rename to make_partitions_away")
    ours = maintenance()
    made = await ours.make(store, 0.0)
    assert set(made.failures) == {"reaping", "partitions"}
    assert "wakeboard migrate" in str(made.failures["reaping"])
    assert made.ticks.runs == 1
    assert ours.due(60.0) == ["ticks", "reaping", "partitions"]
    await rows(store, "alter function reap_away rename to reap")
    await rows(store, "alter function make_partitions_away rename to create_partitions")
    assert (await ours.make(store, 60.0)).failures == {}


async def test_a_lost_connection_is_said_for_each_duty_and_the_next_round_works(store: Store, database: str):
    ours = maintenance()
    async with connected(database) as lost:
        (pid,) = (await rows(lost, "select pg_backend_pid()"))[0]
        await rows(store, "select pg_terminate_backend(%s)", pid)
        assert set((await ours.make(lost, 0.0)).failures) == set(EVERYTHING)
    assert (await ours.make(store, 100.0)).failures == {}


async def test_tidying_that_is_not_done_goes_on_in_the_next_round(store: Store):
    await rows(
        store,
        "insert into job_attempts (run_id, lease_epoch, attempt, outcome, locked_by, started_at, ended_at)"
        " select -n, 1, 1, 'failed', 1, now(), now() - interval '40 days' from generate_series(1, %s) as n",
        1000 * BATCHES_AT_ONCE + 1,
    )
    ours = maintenance()
    assert (await ours.make(store, 0.0)).tidied.more
    assert ours.due(0.1) == ["ticks", "tidying"]
    assert (await ours.make(store, 0.1)).tidied.rows == 1
    assert ours.due(0.2) == ["ticks"]


def test_a_waking_worker_imports_rounds_without_what_it_seldom_needs():
    heavy = {"croniter", "pydantic", "tzdata", "yaml", "wakeboard.rules.dst_ticks", "wakeboard.rules.job_schedule"}
    script = f"import sys, wakeboard.maintenance.loop; print({heavy!r} & set(sys.modules))"
    said = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert said.stdout.strip() == "set()"
