"""Edits of an application's schedule in one transaction: only its last times count, and no tick is lost."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import pytest

import wakeboard
from tests.schedules.schedules import connected, hourly, rows, until
from tests.schedules.test_application_schedules import add, make_ticks

if TYPE_CHECKING:
    from wakeboard.engine.maintenance_api import MaintenanceStore

pytestmark = pytest.mark.anyio


async def has_one_tick_a_second(store: MaintenanceStore) -> bool:
    """Whether the schedules tick each second, when all due ticks are runs: several seconds, none left out or double."""
    while any(await make_ticks(store)):
        pass
    counted = "select count(distinct scheduled_for) > 2 and count(*) = 1 + extract(epoch from max(scheduled_for)"
    (row,) = await rows(store, f"{counted} - min(scheduled_for)) from all_runs")
    return row[0]


async def test_edits_of_when_in_one_transaction_leave_at_most_one_former_timing(store: MaintenanceStore):
    await add(store, cron="*/5 * * * *")
    lines = ["*/7 * * * *", "*/5 * * * *"] * 50
    await wakeboard.schedule_many(store.conn, [wakeboard.Schedule("team/a", "ping", cron=line) for line in lines])
    async with store.conn.transaction():
        for line in lines:
            await rows(store, "update job_definitions set schedule = %s", line)
    assert await rows(store, "select coalesce(jsonb_array_length(former_timings), 0) < 2 from job_definitions") == [
        (True,)
    ]


@pytest.mark.parametrize("first", ["update", "update in a savepoint", "suspend", "delete", "unschedule"])
async def test_a_transaction_that_changes_nothing_in_the_end_loses_no_tick(store: MaintenanceStore, first: str):
    await add(store, cron=None, every=timedelta(seconds=1), catch_up="All")
    await make_ticks(store)
    await rows(store, "update job_definitions set next_run_at = date_trunc('second', now()) + interval '1 s'")
    async with store.conn.transaction():
        match first:
            case "update":
                await rows(store, "update job_definitions set schedule = 'every 366d'")
            case "update in a savepoint":
                async with store.conn.transaction():
                    await rows(store, "update job_definitions set schedule = 'every 366d'")
            case "suspend":
                await rows(store, "update job_definitions set suspended = true")
            case "delete":
                await rows(store, "delete from job_definitions")
            case _:
                await wakeboard.unschedule(store.conn, "team/a")
        await until(store, "select true where clock_timestamp() > now() + interval '3 s'")
        if first == "delete":
            insert = "insert into job_definitions (namespace, name, job_type, schedule, catch_up) values"
            await rows(store, f"{insert} ('team', 'a', 'ping', 'every 1s', 'All')")
        else:
            await add(store, cron=None, every=timedelta(seconds=1), catch_up="All")
    assert await has_one_tick_a_second(store)


@pytest.mark.parametrize("is_new", [True, False])
@pytest.mark.parametrize("last", ["'every 1h'", "null"])
async def test_times_that_only_their_transaction_saw_have_no_tick(store: MaintenanceStore, is_new: bool, last: str):
    if not is_new:
        await add(store, cron=None, every=timedelta(hours=1))
        await make_ticks(store)
    async with store.conn.transaction():
        if is_new:
            await add(store, cron=None, every=timedelta(hours=1))
        await add(store, cron=None, at=datetime.now(UTC) - timedelta(hours=2))
        await rows(store, f"update job_definitions set schedule = {last}")
    while any(await make_ticks(store)):
        pass
    assert await rows(store, "select true from all_runs") == []


@pytest.mark.parametrize("touch", ["resume", "unschedule", "unschedule after another one"])
async def test_an_older_transaction_edits_what_others_have_seen(store: MaintenanceStore, database: str, touch: str):
    """It began before the schedule was created, or removed, and writes the row before it edits it."""
    options: dict[str, Any] = {"expect_success_within_s": 60, "catch_up": "All"}
    async with connected(database) as other:
        if touch == "unschedule after another one":
            await add(other, cron=hourly(), **options)
            await make_ticks(other)
            await rows(other, "update job_definitions set next_run_at = date_trunc('second', now()) - interval '1 h'")
            await make_ticks(other)  # a run, which waits
        async with store.conn.transaction():
            await rows(store, "select 1")
            if touch == "unschedule after another one":
                await rows(other, "update job_definitions set removed_at = clock_timestamp()")
                await rows(other, "update job_definitions set next_run_at = now() - interval '1 h'")
            else:
                await add(other, cron=hourly(), **options)
                await make_ticks(other)
            if touch == "resume":
                await wakeboard.resume_schedules(store.conn, "team/*")
            else:
                assert await wakeboard.unschedule(store.conn, "team/a")
            await add(store, cron=None, every=timedelta(seconds=1), **options)
    between = "next_run_at between updated_at - interval '1 s' and updated_at"
    assert await rows(store, f"select {between} from job_definitions") == [(True,)]


async def test_a_removal_records_no_tick_that_only_its_transaction_saw(store: MaintenanceStore):
    await add(store, cron=None, every=timedelta(hours=1))
    await make_ticks(store)
    async with store.conn.transaction():
        for name in ("team/a", "team/b"):  # edited, and created
            await add(store, name, cron=None, every=timedelta(seconds=1))
        await until(store, "select true where clock_timestamp() > now() + interval '3 s'")
        assert await wakeboard.unschedule_all(store.conn, "team/*") == 2
        await add(store, cron=None, every=timedelta(seconds=1), catch_up="All")
    assert await rows(store, "select true from all_runs") == []
    assert await has_one_tick_a_second(store)


@pytest.mark.parametrize("first", ["unschedule('team/a')", "schedule('team/a', 'ping', every => '1 d')"])
async def test_each_transaction_of_a_procedure_is_one(store: MaintenanceStore, first: str):
    """It begins after the statement that all of them belong to."""
    if first.startswith("un"):
        await add(store, cron=None, every=timedelta(seconds=1))
        await make_ticks(store)
        await rows(store, "update job_definitions set next_run_at = date_trunc('second', now()) + interval '1 s'")
    calls = (
        f"perform {first}; perform pg_sleep(3); perform schedule('team/a', 'ping', every => '1 s', catch_up => 'All');"
    )
    await rows(store, f"do $$ begin perform pg_sleep(0.01); commit; {calls} end $$")
    assert await has_one_tick_a_second(store)


async def test_edits_of_a_transaction_begin_within_a_second_of_another_one(store: MaintenanceStore, database: str):
    await add(store, cron="0 0 1 1 *", catch_up="All")
    async with connected(database) as other:
        await until(store, "select true where extract(milliseconds from clock_timestamp())::integer % 1000 < 300")
        await add(other, cron=None, every=timedelta(seconds=2), catch_up="All")
    async with store.conn.transaction():
        await rows(store, "update job_definitions set schedule = 'every 366d'")
        await until(store, "select true where clock_timestamp() > now() + interval '3 s'")
        await rows(store, "update job_definitions set schedule = 'every 1s'")
    assert await has_one_tick_a_second(store)


@pytest.mark.parametrize("between", ["null", "'every 1h'"])
async def test_without_a_schedule_for_a_moment_no_tick_is_lost(store: MaintenanceStore, between: str):
    await add(store, cron=None, every=timedelta(seconds=1), catch_up="All")
    await make_ticks(store)
    async with store.conn.transaction():
        await rows(store, f"update job_definitions set schedule = {between}")
        await rows(store, "update job_definitions set schedule = null")
        await until(store, "select true where clock_timestamp() > now() + interval '3 s'")
        await rows(store, "update job_definitions set schedule = 'every 1s'")
    assert await has_one_tick_a_second(store)
