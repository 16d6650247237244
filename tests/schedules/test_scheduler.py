"""Each due tick becomes exactly one run, also with several operators and after a crash at any point."""

from __future__ import annotations

import asyncio
import threading
from collections import Counter
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

import pytest

from tests.schedules.schedules import (
    DAY,
    HOUR,
    MINUTE,
    connected,
    declared,
    definition,
    history,
    hourly,
    make_due,
    put,
    rows,
    runs,
    until,
)
from wakeboard.actions.admin_api import AdminStore
from wakeboard.errors import WakeboardError
from wakeboard.schedules import calls, scheduler
from wakeboard.schedules.scheduler import SCHEDULES_PER_BATCH, plan_ticks, schedule_due_ticks, schedule_slice

if TYPE_CHECKING:
    from wakeboard.engine.maintenance_api import MaintenanceStore

pytestmark = pytest.mark.anyio

FIVE_MINUTES = timedelta(minutes=5)


async def make_ticks(store: MaintenanceStore, misfire_grace: timedelta = FIVE_MINUTES) -> tuple[int, ...]:
    """(definitions, runs, skipped, replaced)"""
    return tuple(await schedule_due_ticks(store, misfire_grace=misfire_grace))


async def fill(store: MaintenanceStore, schedules: int) -> None:
    """Many schedules like the one called `first`, due as it is."""
    await rows(
        store,
        "insert into job_definitions (source, namespace, name, spec_hash, job_type, schedule, cron_fields, catch_up,"
        " catch_up_limit, next_run_at)"
        " select source, namespace, 'copy-' || n, '', job_type, schedule, cron_fields, catch_up, catch_up_limit,"
        " next_run_at from job_definitions, generate_series(2, %s) as n where name = 'first'",
        schedules,
    )


async def test_a_due_tick_becomes_a_run_with_the_values_of_its_schedule(store: MaintenanceStore):
    spec: dict[str, Any] = {
        "payload": {"a": 1},
        "queue": "mail",
        "priority": 5,
        "maxAttempts": 7,
        "timeoutSeconds": 42,
        "backoff": {"strategy": "Fixed", "baseSeconds": 3, "maxSeconds": 9},
        "limitKey": "api",
    }
    await put(store, declared("a", **spec))
    tick = await make_due(store, "a")
    assert await make_ticks(store) == (1, 1, 0, 0)
    columns = (
        "scheduled_for, run_at, status::text, trigger::text, payload, queue::text, priority, max_attempts, timeout_s,"
        " backoff_strategy::text, backoff_base_s, backoff_cap_s, limit_key::text, schedule, definition_generation,"
        " attempts"
    )
    assert await runs(store, columns=columns) == [
        (tick, tick, "queued", "tick", {"a": 1}, "mail", 5, 7, 42, "fixed", 3, 9, "api", "team/a", 1, 0)
    ]
    assert await definition(store, "a", "last_tick_at") == tick
    assert await definition(store, "a", "next_run_at > now() + interval '1 day'")


async def test_what_is_missing_of_the_history_is_made(store: MaintenanceStore):
    await rows(
        store,
        "do $$ declare part text; begin for part in select inhrelid::regclass from pg_inherits"
        " where inhparent = 'job_run_history'::regclass loop execute 'drop table ' || part; end loop; end $$",
    )
    await put(store, declared("a", catchUp={"policy": "Skip"}))
    await make_due(store, ago=HOUR)
    assert await make_ticks(store) == (1, 0, 1, 0)
    assert await history(store) == [("skipped", "CatchUpSkip", 1)]


async def test_a_definition_that_cannot_be_computed_stops_alone_and_keeps_its_place(store: MaintenanceStore):
    await put(store, declared("a"), declared("b"), declared("c"))
    tick = await make_due(store)
    await rows(store, "update job_definitions set cron_fields = '99 from the future' where name = 'b'")
    assert await make_ticks(store) == (3, 2, 0, 0)
    assert await definition(store, "a", "schedule_error") is None
    error, cursor, last_tick = await definition(store, "b", "schedule_error, next_run_at, last_tick_at")
    assert "99 from the future" in error
    assert (cursor, last_tick.year) == (tick, 1970)
    assert await make_ticks(store) == (0, 0, 0, 0)


@pytest.mark.parametrize("cron_fields", [None, "99 from the future"])
async def test_a_last_tick_ahead_of_the_clock_stops_no_other_schedule(store: MaintenanceStore, cron_fields: str | None):
    """As after a failover to a server whose clock is behind, when an administrator moves the cursor back."""
    await put(store, declared("a", schedule="* * * * *"), declared("b"))
    await make_due(store)
    await rows(
        store,
        "update job_definitions set cron_fields = coalesce(%s, cron_fields),"
        " last_tick_at = date_trunc('minute', now()) + interval '5 minutes' where name = 'a'",
        cron_fields,
    )
    assert await make_ticks(store) == (2, 1, 0, 0)
    assert await runs(store, columns="schedule") == ["team/b"]
    assert await definition(store, "a", "last_tick_at > now() + interval '3 minutes'")
    if cron_fields is None:
        assert await definition(store, "a", "next_run_at = last_tick_at + interval '1 minute'")


async def test_a_scheduler_that_dies_while_writing_leaves_nothing_half_made(store: MaintenanceStore, database: str):
    await put(store, declared("a", concurrencyPolicy="Replace"), declared("b"))
    await make_due(store)
    await rows(store, "select run_now(id) from job_definitions where name = 'a'")
    async with connected(database) as doomed, connected(database) as keeper, keeper.conn.transaction():
        await rows(keeper, "lock table job_runs in share mode")  # the doomed one will have to wait in mid-statement
        (pid,) = (await rows(doomed, "select pg_backend_pid()"))[0]
        plans = [plan_ticks(each, FIVE_MINUTES) for each in await calls.due_definitions(doomed)]
        writing = asyncio.create_task(calls.enqueue_due_ticks(doomed, plans))
        await until(store, "select 1 from pg_stat_activity where pid = %s and wait_event_type = 'Lock'", pid)
        await rows(store, "select pg_terminate_backend(%s)", pid)
        with pytest.raises(WakeboardError):
            await writing
    assert await runs(store, columns="trigger::text") == ["manual"]
    assert await make_ticks(store) == (2, 2, 0, 1)


async def test_slices_together_enqueue_each_tick_once(store: MaintenanceStore):
    schedules = 2 * SCHEDULES_PER_BATCH + 10
    await put(store, declared("first"))
    await make_due(store)
    await fill(store, schedules)
    made, after = list[int](), None
    while not made or after is not None:
        ticks, after = await schedule_slice(store, misfire_grace=FIVE_MINUTES, batches=1, after=after)
        made.append(ticks.runs)
    assert made == [SCHEDULES_PER_BATCH, SCHEDULES_PER_BATCH, 10]


def _schedule_in_a_thread(dsn: str, start: threading.Barrier, made: list[int]) -> threading.Thread:
    async def schedule() -> None:
        async with connected(dsn) as store:
            start.wait()
            made.append((await schedule_due_ticks(store, misfire_grace=DAY)).runs)

    thread = threading.Thread(target=lambda: asyncio.run(schedule()))
    thread.start()
    return thread


async def test_three_schedulers_at_once_enqueue_each_tick_once(store: MaintenanceStore, database: str):
    schedules = SCHEDULES_PER_BATCH * 3
    await put(store, declared("first", schedule=hourly()))
    await make_due(store, ago=3 * HOUR)
    await fill(store, schedules)
    start, made = threading.Barrier(4), list[int]()
    threads = [_schedule_in_a_thread(database, start, made) for _ in range(3)]
    await asyncio.to_thread(start.wait)
    for thread in threads:
        await asyncio.to_thread(thread.join)
    ticks = Counter(await runs(store, columns="definition_id, scheduled_for"))
    assert set(ticks.values()) == {1}
    by_definition = Counter(definition_id for definition_id, _ in ticks)
    assert len(by_definition) == schedules
    assert len(set(by_definition.values())) == 1  # each has all of them: two or three, as the hour has it
    assert sum(made) == len(ticks)
    assert (await make_ticks(store))[:2] == (0, 0)


async def test_the_tick_is_unique_even_if_everything_else_fails(store: MaintenanceStore):
    await put(store, declared("a"))
    await make_due(store)
    await make_ticks(store)
    with pytest.raises(Exception, match="a_tick_becomes_one_run"):
        await rows(
            store,
            "set search_path = pg_catalog, wakeboard, pg_temp;"
            " insert into job_runs (job_type, trigger, definition_id, scheduled_for)"
            " select job_type, 'tick', definition_id, scheduled_for from job_runs",
        )


@pytest.mark.parametrize("paused", [False, True])
async def test_an_outage_or_a_pause_of_frequent_schedules_starts_no_burst(store: MaintenanceStore, paused: bool):
    await put(
        store,
        declared("latest", schedule="* * * * *"),
        declared("skip", schedule="* * * * *", catchUp={"policy": "Skip"}),
        declared("ten", schedule="* * * * *", catchUp={"policy": "All", "limit": 10}),
        declared("two-minutes", schedule="*/2 * * * *"),
    )
    if paused:
        await AdminStore(store.conn).pause("all", "an incident")
    await make_due(store, ago=3 * HOUR)
    if paused:
        assert await make_ticks(store) == (0, 0, 0, 0)
        await AdminStore(store.conn).resume("all")
    await make_ticks(store)
    assert Counter(await runs(store, columns="schedule")) == {"team/latest": 1, "team/ten": 10, "team/two-minutes": 1}


async def test_an_interval_and_a_moment_have_each_tick_once_within_their_bounds(store: MaintenanceStore):
    now = await store.now()
    began, soon, over = (f"{now + delay:%Y-%m-%dT%H:%M:%SZ}" for delay in (-10 * MINUTE, HOUR, -MINUTE))
    await put(
        store,
        declared("every", schedule=None, every="7s", startsAt=began),
        declared("ended", schedule=None, every="7s", startsAt=began, endsAt=over),
        declared("once", schedule=None, at=soon),
        declared("past", schedule=None, at=over),
    )
    assert await definition(store, "once", "schedule, next_run_at") == (
        f"at {soon}",
        datetime.fromisoformat(soon),
    )
    assert await definition(store, "ended", "next_run_at") is None
    assert await definition(store, "past", "next_run_at") is None
    await rows(store, "update job_definitions set next_run_at = starts_at, last_tick_at = 'epoch' where name = 'ended'")
    await rows(store, "update job_definitions set next_run_at = starts_at + interval '7 min' where name = 'every'")
    await rows(store, "update job_definitions set catch_up = 'All' where name = 'ended'")
    await make_ticks(store)
    await make_ticks(store)
    made = await runs(store, columns="schedule, extract(epoch from scheduled_for)::bigint")
    due = [second for name, second in made if name == "team/every"]
    assert due == list(range(int(datetime.fromisoformat(began).timestamp()) + 420, due[-1] + 7, 7))
    assert await definition(store, "every", "next_run_at > now() and next_run_at <= now() + interval '7 s'")
    assert len(made) - len(due) == 540 // 7 + 1
    assert await definition(store, "ended", "next_run_at") is None
    assert not (await put(store, declared("once", schedule=None, at=soon), prune=False)).changed


async def test_jitter_moves_the_start_and_not_the_tick(store: MaintenanceStore):
    await put(store, declared("first", jitterSeconds=600))
    tick = await make_due(store)
    await fill(store, 50)
    await rows(store, "update job_definitions set jitter_s = 600")
    await make_ticks(store)
    starts = [
        run_at - tick for run_at, for_tick in await runs(store, columns="run_at, scheduled_for") if for_tick == tick
    ]
    assert len(starts) == 50
    assert all(timedelta() <= start <= 10 * MINUTE for start in starts)
    assert len(set(starts)) > 40
    assert await definition(store, "first", "last_tick_at") == tick


async def test_a_starting_deadline_ends_with_its_tick_and_not_with_its_making(store: MaintenanceStore):
    await put(store, declared("a", startingDeadlineSeconds=90))
    tick = await make_due(store, ago=timedelta(seconds=30))
    await make_ticks(store)
    assert await runs(store, columns="start_before") == [tick + timedelta(seconds=90)]


async def test_times_are_utc_whatever_the_zone_of_the_session(store: MaintenanceStore):
    await put(store, declared("a"))
    tick = await make_due(store)
    await rows(store, "set timezone = 'Europe/Lisbon'")
    (due,) = await calls.due_definitions(store)
    assert due.next_run_at == tick
    assert {str(moment.tzinfo) for moment in (due.next_run_at, due.last_tick_at, due.now)} == {"UTC"}


async def test_enqueueing_ticks_never_reads_all_runs(store: MaintenanceStore):
    """Under the plans in force, whatever the statistics say: here there are none at all."""
    await put(store, declared("a", concurrencyPolicy="Forbid"), declared("b", concurrencyPolicy="Replace"))
    await rows(store, "select enqueue_many(array_fill('ping'::text, '{3000}'), array_fill('{}'::jsonb, '{3000}'))")

    async def whole_reads() -> int:
        await rows(store, "select pg_stat_force_next_flush()")
        return (await rows(store, "select seq_scan from pg_stat_user_tables where relname = 'job_runs'"))[0][0]

    for _ in range(7):  # from the sixth call on, Postgres may prefer another plan
        await make_due(store)
        before = await whole_reads()
        await make_ticks(store)
        assert await whole_reads() == before


async def schedules_read(store: MaintenanceStore) -> int:
    """How many entries of their indexes have been read until now."""
    await rows(store, "select pg_stat_force_next_flush()")
    query = "select sum(idx_tup_read) from pg_stat_user_indexes where relname = 'job_definitions'"
    return (await rows(store, query))[0][0]


async def test_what_handles_a_few_due_schedules_does_not_read_the_others(
    store: MaintenanceStore, monkeypatch: pytest.MonkeyPatch
):
    """Whatever the statistics say: here there are none, as after the first hour of an installation."""
    monkeypatch.setattr(scheduler, "SCHEDULES_PER_BATCH", 10)
    await put(store, declared("first"))
    await rows(store, "alter table job_definitions set (autovacuum_enabled = off)")
    await fill(store, 2_000)
    await make_due(store)
    lines = ", ".join(f"('{name}', 'ping', 'every 1h')" for name in "abcdefg")
    await rows(store, f"insert into job_definitions (name, job_type, schedule) values {lines}")
    for name in "abcdefg":  # from the sixth call on, Postgres may prefer another plan
        for handle in (
            lambda: schedule_slice(store, misfire_grace=FIVE_MINUTES, batches=1, after=None),
            lambda: calls.filter_due_definitions(store, [1, 2, 3]),
            lambda name=name: rows(store, f"select unschedule('{name}')"),
            lambda: rows(store, "select create_dependent_runs(10)"),
        ):
            before = await schedules_read(store)
            await handle()
            assert await schedules_read(store) - before < 500


async def test_a_pass_does_not_read_the_due_schedules_of_a_paused_queue(store: MaintenanceStore):
    await put(store, declared("first"), declared("other", queue="mail"))
    await fill(store, 2_000)
    await rows(store, "vacuum analyze job_definitions")
    await rows(store, "select pause('queue:default')")
    await make_due(store)
    assert (await make_ticks(store))[1] == 1
    for _ in range(7):  # from the sixth call on, Postgres may prefer another plan
        before = await schedules_read(store)
        assert (await make_ticks(store))[1] == 0
        assert await schedules_read(store) - before < 100
    await rows(store, "select resume('queue:default')")
    assert (await make_ticks(store))[1] == 2_000
