"""What concurrencyPolicy makes of a tick while an earlier run is unfinished."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from typing import TYPE_CHECKING

import pytest

from tests.schedules.schedules import (
    DAY,
    HOUR,
    connected,
    declared,
    definition,
    history,
    hourly,
    make_due,
    put,
    rows,
    runs,
)
from wakeboard.actions.admin_api import AdminStore
from wakeboard.schedules.scheduler import schedule_due_ticks

if TYPE_CHECKING:
    from wakeboard.engine.maintenance_api import MaintenanceStore
    from wakeboard.schedules.calls import EnqueuedTicks

pytestmark = pytest.mark.anyio


async def make_ticks(store: MaintenanceStore) -> EnqueuedTicks:
    return await schedule_due_ticks(store, misfire_grace=DAY)


async def tick(store: MaintenanceStore) -> EnqueuedTicks:
    """One more tick of the schedule `a`, a moment later than the last one."""
    await rows(
        store,
        "update job_definitions set next_run_at ="
        " greatest(last_tick_at + interval '1 s', date_trunc('second', now() - interval '1 minute')) where name = 'a'",
    )
    return await make_ticks(store)


# -- Allow


# -- Forbid


# -- Replace


async def test_ticks_that_are_all_skipped_replace_nothing(store: MaintenanceStore):
    await put(store, declared("a", concurrencyPolicy="Replace", catchUp={"policy": "Skip"}))
    await tick(store)
    await make_due(store, ago=HOUR)
    await rows(store, "update job_definitions set last_tick_at = 'epoch'")
    made = await schedule_due_ticks(store, misfire_grace=timedelta(minutes=5))
    assert (made.skipped, made.replaced) == (1, 0)
    assert await runs(store) == ["queued"]


# -- Queue


# -- races


@pytest.mark.parametrize(("policy", "made"), [("Allow", {2, 3}), ("Forbid", {1}), ("Replace", {1}), ("Queue", {2, 3})])
async def test_two_schedulers_with_two_ticks_between_them_keep_the_policy(
    store: MaintenanceStore, database: str, policy: str, made: set[int]
):
    await put(store, declared("a", schedule=hourly(), concurrencyPolicy=policy))
    await make_due(store, ago=2 * HOUR)
    async with connected(database) as other:
        await asyncio.gather(make_ticks(store), make_ticks(other))
    assert len(await runs(store)) in made
    assert len(await runs(store)) + sum(count for _, _, count in await history(store)) in {2, 3}


async def test_forbid_sees_a_run_that_a_user_enqueues_at_the_same_time(store: MaintenanceStore, database: str):
    await put(store, declared("a", concurrencyPolicy="Forbid"))
    await make_due(store)
    async with connected(database) as admin:
        async with admin.conn.transaction():
            await AdminStore(admin.conn).run_now(await definition(store, "a", "id"))
            assert (await make_ticks(store)).definitions == 0  # the schedule is locked: later
        made = await make_ticks(store)
    assert (made.runs, made.skipped) == (0, 1)
