"""Removals of schedules of applications: what they end, what they record, and what stays."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import psycopg
import pytest

import wakeboard
from tests.schedules.schedules import claim, connected, declared, put, rows, until, yearly
from tests.schedules.test_application_schedules import add, make_ticks
from wakeboard.errors import InvalidValue, Locked, WakeboardError

if TYPE_CHECKING:
    from wakeboard.engine.maintenance_api import MaintenanceStore

pytestmark = pytest.mark.anyio


async def test_a_removed_schedule_has_no_more_ticks_until_it_is_created_again(store: MaintenanceStore):
    made = await add(store)
    await make_ticks(store)
    await rows(store, "update job_definitions set next_run_at = date_trunc('minute', now())")
    assert await wakeboard.unschedule(store.conn, "team/a")
    assert not await wakeboard.unschedule(store.conn, "team/a")
    assert await rows(store, "select reason from job_run_history") == [("ScheduleRemoved",)]
    assert await make_ticks(store) == (0, 0, 0, 0)
    assert await add(store) == (made.id, "created")
    assert await make_ticks(store) == (1, 0, 0, 0)


@pytest.mark.parametrize("seen", [True, False])
async def test_a_removal_records_all_due_ticks_of_an_interval(store: MaintenanceStore, seen: bool):
    began = datetime.now(UTC).replace(microsecond=0) - timedelta(hours=1)
    one = wakeboard.Schedule("team/a", "ping", every=timedelta(minutes=7), starts_at=began)
    await wakeboard.schedule_many(store.conn, [one])
    if seen:
        await make_ticks(store)
    await rows(store, "delete from job_runs")
    await rows(store, "delete from job_run_history")
    await rows(store, "update job_definitions set next_run_at = %s, last_tick_at = 'epoch'", began)
    async with store.conn.transaction():
        assert await wakeboard.unschedule(store.conn, "team/a")
        await wakeboard.schedule_many(store.conn, [one])
    first, count = (began, 9) if seen else (began + timedelta(minutes=7), 8)  # next_run_at is a tick, or before it
    skipped = "select scheduled_for, skipped_until, skipped_count, reason from job_run_history"
    assert await rows(store, skipped) == [(first, began + timedelta(minutes=56), count, "ScheduleRemoved")]
    assert (await make_ticks(store))[1:] == (0, 0, 0)


@pytest.mark.parametrize(
    "change", ["select unschedule('team/a')", "update job_definitions set suspended = true", "many"]
)
async def test_an_application_needs_no_maintenance_to_record_a_tick(store: MaintenanceStore, change: str):
    await add(store)
    await make_ticks(store)
    await rows(store, "update job_definitions set next_run_at = date_trunc('minute', now())")
    if change.startswith("select"):
        await make_ticks(store)  # a run that is cancelled
    for (part,) in await rows(
        store, "select inhrelid::regclass::text from pg_inherits where inhparent = 'job_run_history'::regclass"
    ):
        await rows(store, f"drop table {part}")
    if change == "many":
        stopped = [wakeboard.Schedule(f"team/{name}", "ping", suspended=True) for name in "ab"]
        await wakeboard.schedule_many(store.conn, stopped)
    else:
        await rows(store, change)
    assert (
        await rows(store, "select distinct status::text from all_runs where status in ('skipped', 'cancelled')") != []
    )


@pytest.mark.parametrize("change", ["an edit that replaces", "select cancel_run(id, uuid) from (%s) as known"])
async def test_an_application_needs_no_maintenance_to_end_a_run(store: MaintenanceStore, change: str):
    named = {"cron": yearly(), "concurrency_policy": "Replace"}
    await add(store, **named)
    await make_ticks(store)
    await rows(store, "update job_definitions set next_run_at = date_trunc('minute', now()) - interval '1 min'")
    await make_ticks(store)
    await rows(store, "update job_definitions set next_run_at = date_trunc('minute', now())")
    for (part,) in await rows(
        store, "select inhrelid::regclass::text from pg_inherits where inhparent = 'job_run_history'::regclass"
    ):
        await rows(store, f"drop table {part}")
    if change.startswith("select"):
        await rows(store, change % "select id, uuid from job_runs offset 0")
    else:
        await add(store, payload={"new": True}, **named)
    assert await rows(store, "select status::text from job_run_history") == [("cancelled",)]


async def test_the_retention_deletes_a_removed_schedule_with_its_pause(store: MaintenanceStore):
    for name in ("team/a", "team/b"):
        await add(store, name)
        await wakeboard.pause_schedules(store.conn, name)
    await wakeboard.unschedule(store.conn, "team/a")
    await rows(
        store, "update job_definitions set removed_at = removed_at - interval '1 year' where removed_at is not null"
    )
    await rows(store, "select delete_expired(always => true)")
    left = "select name, scope = 'schedule:' || id from job_definitions full join pauses on true"
    assert await rows(store, left) == [("b", True)]


async def test_a_declared_schedule_is_not_unscheduled_whatever_had_its_name(store: MaintenanceStore):
    await add(store)
    await wakeboard.unschedule(store.conn, "team/a")
    await put(store, declared("a"))
    with pytest.raises(InvalidValue, match="the schedule team/a belongs to file:test; remove it there"):
        await wakeboard.unschedule(store.conn, "team/a")


async def test_many_are_removed_with_their_due_ticks_and_waiting_runs_or_none(store: MaintenanceStore, database: str):
    names = [f"team/{n}" for n in range(3)]
    now = datetime.now(UTC).replace(second=0, microsecond=0)
    cron = f"{(now.minute + 30) % 60} * * * *"
    await wakeboard.schedule_many(store.conn, [wakeboard.Schedule(name, "ping", cron=cron) for name in names])
    for tick in (now - timedelta(minutes=30), now):
        await make_ticks(store)
        await rows(store, "update job_definitions set next_run_at = %s", tick)
    async with connected(database) as other, other.conn.transaction():
        await rows(other, "select 1 from job_runs where schedule = 'team/1' for update")
        with pytest.raises(Locked):
            await wakeboard.unschedule_all(store.conn, "team/*")
    assert [each.name for each in await wakeboard.list_schedules(store.conn, "team/*")] == names
    assert await wakeboard.unschedule_all(store.conn, "team/*") == 3
    ended = "select schedule, status::text, reason from job_run_history order by schedule, status::text"
    assert await rows(store, ended) == [
        (name, status, "ScheduleRemoved") for name in names for status in ("cancelled", "skipped")
    ]
    assert (await rows(store, "select count(*) from job_runs"))[0] == (0,)


@pytest.mark.parametrize("level", [psycopg.IsolationLevel.REPEATABLE_READ, psycopg.IsolationLevel.SERIALIZABLE])
async def test_a_removal_works_in_each_isolation_level(store: MaintenanceStore, database: str, level: Any):
    """As of the snapshot; a schedule that has changed since then fails the transaction, as any other row does."""
    for name in "abcd":
        await add(store, f"{'other' if name == 'd' else 'team'}/{name}")
        await rows(store, "update job_definitions set next_run_at = now() - interval '1 minute' where name = %s", name)
    assert await make_ticks(store) == (4, 4, 0, 0)
    await store.conn.set_isolation_level(level)
    async with store.conn.transaction():
        assert await wakeboard.unschedule(store.conn, "team/a") is True
        await store.conn.execute("delete from wakeboard.job_definitions where name = 'b'")
        assert await wakeboard.unschedule_all(store.conn, "team/*") == 1
        assert await wakeboard.unschedule(store.conn, "team/a") is False
    assert await wakeboard.list_schedules(store.conn, "team/*") == []
    assert await rows(store, "select count(*) from wakeboard.job_run_history where status = 'cancelled'") == [(3,)]
    async with connected(database) as other, store.conn.transaction(force_rollback=True):
        assert len(await wakeboard.list_schedules(store.conn, "other/*")) == 1
        await add(other, "other/d", payload={"edited": True})
        with pytest.raises(WakeboardError, match="concurrent update"):
            await wakeboard.unschedule(store.conn, "other/d")


@pytest.mark.parametrize("many", [True, False])
async def test_after_its_last_tick_a_schedule_removes_itself(store: MaintenanceStore, many: bool):
    await wakeboard.schedule(store.conn, "team/once", "ping", at=datetime.now(UTC) - timedelta(seconds=1))
    assert await make_ticks(store) == (1, 1, 0, 0)
    assert await wakeboard.list_schedules(store.conn, "team/*") == []
    assert await (  # its run still waits
        wakeboard.unschedule_all(store.conn, "team/o*") if many else wakeboard.unschedule(store.conn, "team/once")
    )
    assert await rows(store, "select status::text, reason from job_run_history") == [("cancelled", "ScheduleRemoved")]
    assert not await wakeboard.unschedule(store.conn, "team/once")
    assert not await wakeboard.unschedule_all(store.conn, "team/*")


@pytest.mark.parametrize("end", ["claim", "finish"])
async def test_a_removal_cancels_no_run_that_has_begun_meanwhile(store: MaintenanceStore, database: str, end: str):
    """Also of a schedule that has removed itself: its run may begin, or end, while the removal waits for its lock."""
    await wakeboard.schedule(store.conn, "team/once", "ping", at=datetime.now(UTC) - timedelta(seconds=1))
    await make_ticks(store)
    async with connected(database) as worker:
        async with worker.conn.transaction():
            if end == "claim":
                await claim(worker)
            else:
                await rows(worker, "select finish_runs(array(select id from job_runs), 'cancelled', 'Requested')")
            removal = asyncio.ensure_future(wakeboard.unschedule(store.conn, "team/once"))
            await until(worker, "select 1 from pg_locks where not granted")
        await removal
    left = [("running", None)] if end == "claim" else [("cancelled", "Requested")]
    assert await rows(store, "select status::text, reason from all_runs") == left


async def test_a_delete_passes_over_a_removed_schedule_whose_name_is_declared(store: MaintenanceStore):
    await add(store)
    await wakeboard.unschedule(store.conn, "team/a")
    await put(store, declared("a"))
    await add(store, "team/b")
    await rows(store, "delete from job_definitions where source = 'app'")
    assert await rows(store, "select name, source from job_definitions where removed_at is null") == [
        ("a", "file:test")
    ]
