"""An edit of an application's schedule: which definition its ticks have, and that none is lost."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

import pytest

import wakeboard
from tests.schedules.schedules import rows, runs, until
from tests.schedules.test_application_schedules import add, make_ticks

if TYPE_CHECKING:
    from wakeboard.engine.maintenance_api import MaintenanceStore
    from wakeboard.ticks.catch_up import CatchUpPolicy

pytestmark = pytest.mark.anyio


async def test_a_tick_due_at_an_edit_runs_as_it_was_defined(store: MaintenanceStore):
    await add(store, payload={"version": 1})
    await make_ticks(store)
    await rows(store, "update job_definitions set next_run_at = date_trunc('minute', now())")
    await add(store, payload={"version": 2}, cron="0 0 1 1 *")
    assert await runs(store, columns="payload, definition_generation") == [({"version": 1}, 1)]
    assert await make_ticks(store) == (2, 0, 0, 0)  # first of the former times
    assert await rows(store, "select generation, next_run_at > now() from job_definitions") == [(2, True)]
    await rows(store, "update job_definitions set next_run_at = date_trunc('minute', now()) - interval '1 minute'")
    await add(store, suspended=True)
    assert await rows(store, "select reason from job_run_history") == []  # the last tick was later than this one
    assert await rows(store, "select suspended, next_run_at from job_definitions") == [(True, None)]


@pytest.mark.parametrize("catch_up", ["All", "Latest", "Skip"])
async def test_edits_of_when_in_an_outage_lose_no_tick(store: MaintenanceStore, catch_up: CatchUpPolicy):
    now = datetime.now(UTC).replace(second=0, microsecond=0)
    made = await add(store, cron=f"{(now.minute + 30) % 60} * * * *", catch_up=catch_up)
    await make_ticks(store)
    await rows(store, "update job_definitions set next_run_at = %s", now - timedelta(hours=5, minutes=30))
    await add(store, cron=f"{(now.minute + 45) % 60} * * * *", catch_up=catch_up)
    await add(store, "team/a", cron="0 0 1 1 *", catch_up=catch_up, payload={"new": True})
    while any(await make_ticks(store)):
        pass
    ticks = await rows(
        store,
        "select scheduled_for from all_runs where coalesce(skipped_count, 1) = 1"
        " union select generate_series(scheduled_for, skipped_until, '1 h') from all_runs where skipped_count > 1",
    )
    assert len(ticks) == 6
    assert len(await runs(store)) == {"All": 6, "Latest": 2, "Skip": 0}[catch_up]
    assert await rows(store, "select id, next_run_at > now(), former_timings from job_definitions") == [
        (made.id, True, None)
    ]


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


async def test_one_pass_makes_the_ticks_of_all_former_times(store: MaintenanceStore):
    await add(store, cron="0 0 1 1 *")
    await rows(
        store,
        "update job_definitions set next_run_at = now() - interval '40 min', former_timings = ("
        " select jsonb_agg(jsonb_build_object('schedule', '*/' || each || ' * * * *', 'time_zone', 'Etc/UTC',"
        " 'dst_gap', dst_gap, 'dst_overlap', dst_overlap, 'until', now() - make_interval(mins => 40 - 10 * each),"
        " 'next_run_at', now() - make_interval(mins => 40 - 10 * each)) order by each) from generate_series(1,3) each)",
    )
    await make_ticks(store)
    assert await rows(store, "select next_run_at > now(), former_timings from job_definitions") == [(True, None)]


@pytest.mark.parametrize("first", ["update", "update in a savepoint", "delete", "unschedule"])
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
    while any(await make_ticks(store)):
        pass
    assert await rows(
        store,
        "select count(distinct scheduled_for) > 2,"
        " count(*) = 1 + extract(epoch from max(scheduled_for) - min(scheduled_for)) from all_runs",
    ) == [(True, True)]


async def test_a_schedule_on_demand_in_an_outage_ticks_after_its_next_edit(store: MaintenanceStore):
    await add(store)
    await make_ticks(store)
    await rows(store, "update job_definitions set next_run_at = date_trunc('minute', now()) - interval '2 min'")
    await rows(store, "update job_definitions set schedule = null")
    await rows(store, "update job_definitions set schedule = '0 0 1 1 *'")
    while any(await make_ticks(store)):
        pass
    assert await rows(store, "select next_run_at > now(), former_timings from job_definitions") == [(True, None)]


@pytest.mark.parametrize(("grace", "reason"), [(None, "CatchUpSkip"), (timedelta(hours=1), None)])
async def test_the_grace_of_the_installation_decides_about_the_tick_of_an_edit(
    store: MaintenanceStore, grace: timedelta | None, reason: str | None
):
    yearly = {"cron": "0 0 1 1 *", "catch_up": "Skip"}
    await add(store, **yearly)
    await make_ticks(store)
    await rows(store, "update job_definitions set next_run_at = date_trunc('minute', now()) - interval '20 min'")
    if grace is not None:
        await store.set_misfire_grace(grace)
    await add(store, **yearly, payload={"new": True})
    assert await rows(store, "select reason from all_runs") == [(reason,)]
