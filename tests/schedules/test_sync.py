"""Declared schedules are synced to the store: an edit loses no tick, and starts none of the past."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pytest

from tests.schedules.full_spec import FULL_SPEC
from tests.schedules.schedules import (
    HOUR,
    MISFIRE_GRACE,
    SOURCE,
    connected,
    declared,
    definition,
    hourly,
    make_due,
    put,
    rows,
    runs,
    until,
    yearly,
)
from wakeboard.schedules.scheduler import schedule_due_ticks
from wakeboard.ticks.zones import tzdata_version

if TYPE_CHECKING:
    from wakeboard.engine.maintenance_api import MaintenanceStore
    from wakeboard.schedules.desired_schedule import DesiredSchedule

pytestmark = pytest.mark.anyio


async def is_ahead(store: MaintenanceStore, name: str) -> bool:
    """The cursor is after now and after the last tick."""
    return await definition(store, name, "next_run_at > greatest(now(), last_tick_at)")


# -- what is stored


async def test_a_spec_becomes_a_row(store: MaintenanceStore):
    spec: dict[str, Any] = FULL_SPEC | {"suspend": False}
    assert (await put(store, declared("weekly", **spec))).created == ["team/weekly"]
    columns = (
        "source, namespace, uid, generation, job_type::text, payload, queue::text, priority, schedule, time_zone,"
        " dst_gap, dst_overlap, jitter_s, concurrency_policy, limit_key::text, catch_up, catch_up_limit,"
        " starting_deadline_s, max_attempts, backoff_strategy::text, backoff_base_s, backoff_cap_s, timeout_s,"
        " suspended, tzdata_version"
    )
    assert await definition(store, "weekly", columns) == (
        *(SOURCE, "team", "", 1, "send_mail", FULL_SPEC["payload"], "mail", 5, "0 8 * * MON", "Europe/Lisbon", "Skip"),
        *("Both", 9, "Queue", "smtp", "All", 7, 60),
        *(2, "fixed", 3, 30, 1, False, tzdata_version()),
    )
    assert await is_ahead(store, "weekly")
    local = "to_char(next_run_at at time zone 'Europe/Lisbon', 'DY HH24:MI:SS')"
    assert await definition(store, "weekly", local) == "MON 08:00:00"
    assert await definition(
        store, "weekly", "starts_at = '2026-12-01T00:00Z', next_run_at >= starts_at, ends_at > starts_at"
    ) == (
        True,
        True,
        True,
    )


async def test_a_schedule_without_a_cron_expression_runs_only_on_demand(store: MaintenanceStore):
    await put(store, declared("a", schedule=None))
    assert await definition(store, "a", "schedule, cron_fields, next_run_at") == (None, None, None)


@pytest.mark.parametrize("next_run_at", ["null", "now() + interval '10 years'"])
async def test_a_schedule_whose_next_tick_was_moved_gets_it_back(store: MaintenanceStore, next_run_at: str):
    schedules = [declared("moved"), declared("kept"), declared("suspended", suspend=True)]
    await put(store, *schedules)
    tick = await definition(store, "moved", "next_run_at")
    await rows(store, f"update job_definitions set next_run_at = {next_run_at} where name = 'moved' returning id")
    again = await put(store, *schedules)
    assert (again.updated, again.unchanged) == (["team/moved"], ["team/kept", "team/suspended"])
    assert await definition(store, "moved", "next_run_at") == tick
    assert not (await put(store, *schedules)).changed


@pytest.mark.parametrize("error", [None, "x"])
async def test_a_schedule_without_a_next_tick_gets_one(store: MaintenanceStore, error: str | None):
    schedules = [
        declared("lost"),
        declared("kept"),
        declared("suspended", suspend=True),
        declared("on-demand", schedule=None),
    ]
    await put(store, *schedules)
    generation = await definition(store, "lost", "generation")
    await rows(
        store,
        "update job_definitions set next_run_at = null, schedule_error = %s where name = 'lost' returning id",
        error,
    )
    again = await put(store, *schedules)
    assert (again.updated, again.unchanged) == (["team/lost"], ["team/kept", "team/on-demand", "team/suspended"])
    assert await is_ahead(store, "lost")
    assert await definition(store, "lost", "generation, schedule_error") == (generation, None)
    assert not (await put(store, *schedules)).changed


async def test_an_objects_generation_never_goes_back(store: MaintenanceStore):
    await put(store, declared("a", uid="u", generation=5, queue="five"))
    report = await put(store, declared("a", uid="u", generation=4, queue="four"))
    assert report.stale == ["team/a"]
    assert await definition(store, "a", "generation, queue::text") == (5, "five")


async def test_other_labels_make_no_generation_and_no_other_tick(store: MaintenanceStore):
    await put(store, declared("a", uid="u1", generation=3))
    before = await rows(store, "select next_run_at, generation, spec_hash from job_definitions")
    labelled = declared("a", uid="u1", generation=3, origin="Argo CD application shop", labels={"team": "billing"})

    first, second = await put(store, labelled), await put(store, labelled)

    assert (first.updated, second.updated) == (["team/a"], [])
    assert await rows(store, "select next_run_at, generation, spec_hash from job_definitions") == before
    assert await rows(store, "select origin, labels from job_definitions") == [
        ("Argo CD application shop", {"team": "billing"})
    ]
    await put(store, declared("a", uid="u1", generation=3))
    assert await rows(store, "select origin, labels from job_definitions") == [("", {})]


async def test_another_object_of_the_same_name_starts_over(store: MaintenanceStore):
    await put(store, declared("a", uid="u", generation=5, queue="old"))
    assert (await put(store, declared("a", uid="v", generation=1, queue="new"))).updated == ["team/a"]
    assert await definition(store, "a", "uid, generation, queue::text") == ("v", 1, "new")


async def test_new_zone_data_recompute_the_next_tick(store: MaintenanceStore):
    await put(store, declared("a"))
    await rows(
        store, "update job_definitions set tzdata_version = '1999a', next_run_at = next_run_at + interval '1 hour'"
    )
    assert (await put(store, declared("a"))).updated == ["team/a"]
    assert await definition(store, "a", "tzdata_version, generation") == (tzdata_version(), 1)
    assert await definition(store, "a", "extract(minute from next_run_at at time zone 'UTC')") == 0


async def test_a_schedule_that_cannot_be_computed_is_logged_and_stops_no_other(store: MaintenanceStore):
    await put(store, declared("a"))
    bad = declared("a", queue="other")
    object.__setattr__(bad.spec, "time_zone", "Mars/Olympus")  # as with zone data older than those of who checked it
    report = await put(store, bad, declared("b"), prune=True)
    assert list(report.failed) == ["team/a"]
    assert "Mars/Olympus" in report.failed["team/a"]
    assert report.created == ["team/b"]
    assert await definition(store, "a", "queue::text, removed_at") == ("default", None)


# -- edits while ticks are due


async def test_past_ticks_of_a_new_cron_expression_never_run(store: MaintenanceStore):
    await put(store, declared("a"))
    await put(store, declared("a", schedule=hourly(), catchUp={"policy": "All"}))
    assert await is_ahead(store, "a")
    assert await definition(store, "a", "next_run_at <= now() + interval '1 hour'")
    assert await runs(store) == []


@pytest.mark.parametrize("next_tick", ["next_run_at", "date_trunc('minute', now())"])
async def test_a_tick_enqueued_ahead_of_the_clock_is_not_enqueued_again(store: MaintenanceStore, next_tick: str):
    """The last tick may lie ahead of now after a failover to a server whose clock is behind."""
    await put(store, declared("a", schedule="* * * * *"))
    await rows(
        store,
        "update job_definitions set last_tick_at = date_trunc('minute', now()) + interval '5 minutes',"
        f" next_run_at = {next_tick}",
    )
    await put(store, declared("a", schedule="* * * * *", queue="other"))
    assert await definition(store, "a", "next_run_at = last_tick_at + interval '1 minute'")


# -- races


async def test_two_syncs_that_disagree_leave_one_of_them_whole(store: MaintenanceStore, database: str):
    names = [f"s{n}" for n in range(600)]
    await put(store, *(declared(name) for name in names))
    await make_due(store)

    async def put_all(caller: MaintenanceStore, schedules: list[DesiredSchedule]) -> None:
        while (await put(caller, *schedules)).contended:  # the next sync continues
            pass

    async with connected(database) as other:
        await asyncio.gather(
            put_all(store, [declared(name, queue="left", payload={"v": 1}) for name in names]),
            put_all(other, [declared(name, queue="right", payload={"v": 2}) for name in reversed(names)]),
        )
    found = await rows(store, "select distinct queue::text, payload from job_definitions")
    assert {(queue, payload["v"]) for queue, payload in found} <= {("left", 1), ("right", 2)}
    assert len(await runs(store)) == len(names)  # what was due was made once, as it was declared before
    assert not await rows(store, "select 1 from job_definitions where next_run_at <= now()")


async def test_a_sync_that_waits_for_another_sees_what_that_one_did(store: MaintenanceStore, database: str):
    await put(store, declared("a"))
    async with connected(database) as other:
        (pid,) = (await rows(other, "select pg_backend_pid()"))[0]
        async with store.conn.transaction():
            assert (await put(store, declared("a", queue="new"))).updated == ["team/a"]
            waiting = asyncio.create_task(put(other, declared("a", queue="new")))
            async with connected(database) as watcher:
                await until(watcher, "select 1 from pg_stat_activity where pid = %s and wait_event_type = 'Lock'", pid)
        assert (await waiting).unchanged == ["team/a"]
    assert await definition(store, "a", "generation") == 2


async def test_an_edit_waits_for_a_worker_that_enqueues_its_ticks(store: MaintenanceStore, database: str):
    await put(store, declared("a", schedule=hourly(), catchUp={"policy": "All"}))
    await make_due(store, ago=3 * HOUR)
    async with connected(database) as worker:
        (pid,) = (await rows(store, "select pg_backend_pid()"))[0]
        async with worker.conn.transaction():
            made = await schedule_due_ticks(worker, misfire_grace=MISFIRE_GRACE)
            editing = asyncio.create_task(put(store, declared("a", schedule=yearly())))
            await until(worker, "select 1 from pg_stat_activity where pid = %s and wait_event_type = 'Lock'", pid)
        assert (await editing).updated == ["team/a"]
    assert len(await runs(store)) == made.runs
    assert await is_ahead(store, "a")


@pytest.mark.parametrize(
    ("times", "stops"),
    [
        *[((each,), False) for each in ("same", "other", "demand")],
        *[
            (each, stops)
            for each in (("demand", "other"), ("other", "same"), ("other", "other"))
            for stops in (False, True)
        ],
    ],
)
async def test_ticks_that_a_pause_holds_stay_due_across_edits(
    store: MaintenanceStore, times: tuple[str, ...], stops: bool
):
    await put(store, declared("a", schedule=hourly(), catchUp={"policy": "All"}))
    await rows(store, "update job_definitions set next_run_at = next_run_at - interval '3 h'")
    await rows(store, "insert into pauses (scope) select 'schedule:' || id from job_definitions")
    for number, each in enumerate(times):
        line = {"same": hourly(), "other": yearly(), "demand": None}[each]
        edited = declared("a", schedule=line, catchUp={"policy": "All"}, payload={"edit": number})
        assert (await put(store, edited)).updated == ["team/a"]
        if stops:  # another release cannot compute its ticks
            await rows(store, "update job_definitions set schedule_error = 'no' where former_timings is not null")
            await put(store, edited)
    await schedule_due_ticks(store, misfire_grace=MISFIRE_GRACE)
    assert await rows(store, "select id from all_runs") == []
    await rows(store, "delete from pauses")
    await schedule_due_ticks(store, misfire_grace=MISFIRE_GRACE)
    assert await rows(store, "select count(*), count(distinct scheduled_for), max(reason) from all_runs") == [
        (3, 3, None)
    ]
    assert await rows(
        store, "select former_timings, cron_fields is null, next_run_at > now() from job_definitions"
    ) == [(None, True, None) if times[-1] == "demand" else (None, False, True)]
