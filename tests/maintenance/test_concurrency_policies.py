"""What concurrencyPolicy makes of a tick while an earlier run is unfinished."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from typing import TYPE_CHECKING

import pytest

from tests.maintenance.schedules import (
    DAY,
    HOUR,
    claim,
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
    from wakeboard.engine.maintenance_api import EnqueuedTicks, MaintenanceStore

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


async def succeed(store: MaintenanceStore, leased: list[tuple[int, int]], worker: int = 7) -> None:
    for run, epoch in leased:
        assert not await rows(store, "select complete(%s, array[%s]::bigint[], %s)", worker, run, epoch)


async def fail(store: MaintenanceStore, leased: list[tuple[int, int]]) -> None:
    for run, epoch in leased:
        await rows(
            store,
            "update job_runs set status = 'failed', locked_by = 0, locked_until = 'epoch', holds_slot = false,"
            " run_at = now() + interval '1 hour' where id = %s and lease_epoch = %s",
            run,
            epoch,
        )


# -- Allow


async def test_allow_enqueues_every_tick(store: MaintenanceStore):
    await put(store, declared("a"))
    await tick(store)
    await claim(store)
    await tick(store)
    await tick(store)
    assert await runs(store, columns="status::text, limit_key") == [
        ("running", None),
        ("queued", None),
        ("queued", None),
    ]


# -- Forbid


@pytest.mark.parametrize("unfinished", ["queued", "running", "failed"])
async def test_forbid_makes_no_run_while_one_is_unfinished(store: MaintenanceStore, unfinished: str):
    await put(store, declared("a", concurrencyPolicy="Forbid"))
    await tick(store)
    if unfinished != "queued":
        leased = await claim(store, limited=True)
        if unfinished == "failed":
            await fail(store, leased)
    made = await tick(store)
    assert (made.runs, made.skipped) == (0, 1)
    assert await runs(store) == [unfinished]
    assert await history(store) == [("skipped", "Forbidden", 1)]


@pytest.mark.parametrize("finished", ["succeeded", "dead"])
async def test_forbid_makes_a_run_when_the_last_one_is_over(store: MaintenanceStore, finished: str):
    await put(store, declared("a", concurrencyPolicy="Forbid"))
    await tick(store)
    leased = await claim(store, limited=True)
    if finished == "succeeded":
        await succeed(store, leased)
    else:
        await rows(store, "update job_runs set status = 'dead', dead_at = now(), locked_by = 0, holds_slot = false")
    assert (await tick(store)).runs == 1


async def test_forbid_makes_the_first_of_several_ticks_and_records_the_others_as_one_stretch(store: MaintenanceStore):
    await put(store, declared("a", schedule=hourly(), concurrencyPolicy="Forbid"))
    first = await make_due(store, ago=5 * HOUR)
    made = await make_ticks(store)
    assert made.runs == 1
    assert await runs(store, columns="scheduled_for") == [first]
    assert await history(store, columns="reason, scheduled_for, skipped_until, skipped_count") == [
        ("Forbidden", first + HOUR, first + made.skipped * HOUR, made.skipped)
    ]
    assert made.skipped in (4, 5)


# -- Replace


@pytest.mark.parametrize("waiting", ["queued", "failed"])
async def test_replace_cancels_what_waits_at_once(store: MaintenanceStore, waiting: str):
    await put(store, declared("a", concurrencyPolicy="Replace"))
    await tick(store)
    if waiting == "failed":
        await fail(store, await claim(store, limited=True))
    made = await tick(store)
    assert (made.runs, made.replaced) == (1, 1)
    assert await runs(store) == ["queued"]
    assert await history(store, columns="status::text, reason") == [("cancelled", "Replaced")]


async def test_replace_asks_what_runs_to_stop_and_the_new_run_waits_for_that_lease_to_end(store: MaintenanceStore):
    await put(store, declared("a", concurrencyPolicy="Replace"))
    await tick(store)
    old = await claim(store, limited=True)
    assert (await tick(store)).runs == 1
    assert await runs(store, columns="status::text, cancel_requested_at is not null") == [
        ("running", True),
        ("queued", False),
    ]
    assert await claim(store, limited=True) == []
    await succeed(store, old)  # a success that comes first wins
    assert len(await claim(store, limited=True)) == 1


async def test_replace_makes_the_last_of_several_ticks(store: MaintenanceStore):
    await put(store, declared("a", schedule=hourly(), concurrencyPolicy="Replace"))
    first = await make_due(store, ago=5 * HOUR)
    made = await make_ticks(store)
    assert (made.runs, made.replaced) == (1, 0)
    assert await runs(store, columns="scheduled_for") == [first + made.skipped * HOUR]
    assert await history(store, columns="reason, scheduled_for, skipped_until, skipped_count") == [
        ("Replaced", first, first + (made.skipped - 1) * HOUR, made.skipped)
    ]


async def test_replace_leaves_the_dead_and_the_runs_of_others_alone(store: MaintenanceStore):
    await put(store, declared("a", concurrencyPolicy="Replace"), declared("b", concurrencyPolicy="Replace"))
    await tick(store)
    await rows(store, "update job_runs set status = 'dead', dead_at = now()")
    await make_due(store, "b")
    await make_ticks(store)
    made = await tick(store)
    assert (made.runs, made.replaced) == (1, 0)
    assert sorted(await runs(store)) == ["dead", "queued", "queued"]


async def test_ticks_that_are_all_skipped_replace_nothing(store: MaintenanceStore):
    await put(store, declared("a", concurrencyPolicy="Replace", catchUp={"policy": "Skip"}))
    await tick(store)
    await make_due(store, ago=HOUR)
    await rows(store, "update job_definitions set last_tick_at = 'epoch'")
    made = await schedule_due_ticks(store, misfire_grace=timedelta(minutes=5))
    assert (made.skipped, made.replaced) == (1, 0)
    assert await runs(store) == ["queued"]


# -- Queue


async def test_queue_makes_every_tick_and_runs_them_one_after_the_other(store: MaintenanceStore):
    await put(store, declared("a", concurrencyPolicy="Queue"))
    for _ in range(3):
        await tick(store)
    key = f"schedule:{await definition(store, 'a', 'id')}"
    assert await runs(store, columns="status::text, limit_key::text") == [("queued", key)] * 3
    ticks = await runs(store, columns="id")
    done: list[int] = []
    while leased := await claim(store, limited=True):
        assert len(leased) == 1
        assert await claim(store, worker=8, limited=True) == []
        done.append(leased[0][0])
        await succeed(store, leased)
    assert done == ticks


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
