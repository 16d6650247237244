"""The figures of charts equal a count of the history, whatever interrupts the maintenance that keeps them."""

from __future__ import annotations

from collections import Counter
from contextlib import suppress
from datetime import timedelta
from typing import TYPE_CHECKING, get_args

import pytest

from tests.schedules.schedules import HOUR, MINUTE, connected, rows
from tests.store.sql_clients import SqlClient
from tests.views.rollup_history import (
    begin_at,
    check,
    check_counts,
    database_now,
    facts,
    generate,
    roll_up_all,
    stored,
)
from wakeboard.errors import WakeboardError
from wakeboard.views.queries import rollups
from wakeboard.views.queries.backlog import read_waiting
from wakeboard.views.queries.failures import failures_since
from wakeboard.views.queries.rollups import Dimension, OutcomeCounts, Series, Window, read_series, read_top

if TYPE_CHECKING:
    from datetime import datetime

    from wakeboard.engine.maintenance_api import MaintenanceStore

pytestmark = pytest.mark.anyio

NAMES: dict[Dimension, tuple[str, ...]] = {
    "all": ("",),
    "job_type": ("type0", "type5", "unknown"),
    "queue": ("queue0", "queue2"),
    "schedule": ("2", "4"),
    "step": ("type0 step 1", "type3 step 2"),
}
INSERT_RUN = (
    "insert into job_run_history (id, uuid, scheduled_for, run_at, created_at, started_at, finished_at, locked_by,"
    " lease_epoch, status, trigger, backoff_strategy, backoff_base_s, backoff_cap_s, timeout_s, attempts,"
    " max_attempts, crash_count, release_count, priority, queue, job_type, payload)"
    " select -id, gen_random_uuid(), at, at, at, at, at, 1, 1, 'succeeded', 'application', 'fixed', 1, 1, 60, 1, 5,"
    " 0, 0, 3, 'queue0', 'type0', '{}' from unnest(array[%s]::timestamptz[]) with ordinality as given (at, id)"
)


async def every_series(store: MaintenanceStore, now: datetime) -> list[Series]:
    found: list[Series] = []
    for window in get_args(Window):
        for dimension, names in NAMES.items():
            if window == "hour" and dimension == "step":
                continue
            if window == "hour" and dimension == "schedule":
                for name in names:
                    found += await read_series(store.conn, window, now, dimension, [name])
            else:
                found += await read_series(store.conn, window, now, dimension, names)
    return found


async def check_everything(store: MaintenanceStore) -> None:
    """Compares every series with a count of the history."""
    expected, now = await facts(store), await database_now(store)
    for series in await every_series(store, now):
        assert series.until >= now - MINUTE
        check(series, expected)


async def hour_counted(store: MaintenanceStore, back: int) -> datetime:
    """The beginning of an hour of a history of three days that is rolled up completely."""
    await generate(store, days=3, runs=3000)
    await roll_up_all(store)
    ((hour,),) = await rows(store, "select date_bin('1 hour', now(), 'epoch') - make_interval(hours => %s)", back)
    return hour


async def test_every_series_equals_a_count_of_a_month_of_history(store: MaintenanceStore):
    await generate(store)
    assert await roll_up_all(store) > 1
    await check_everything(store)
    ((verified, days),) = await rows(
        store, "select now() - verified_until < interval '21 hours', now() - days_until < interval '46 hours'"
        " from rollup_progress"
    )  # fmt: skip
    assert (verified, days) == (True, True)


async def test_what_has_not_been_rolled_up_yet_is_counted_from_the_history(store: MaintenanceStore):
    await generate(store, days=3, runs=3000)
    await check_everything(store)
    await begin_at(store, "now() - interval '90 minutes'")
    ((hour,),) = await rows(store, "select counted_until from rollup_progress")
    now = await database_now(store)
    for series in await read_series(store.conn, "hour", now):
        check(series, await facts(store))
        assert series.until > hour


async def test_a_series_ends_at_the_counting_if_that_is_far_behind(
    store: MaintenanceStore, monkeypatch: pytest.MonkeyPatch
):
    await generate(store, days=3, runs=3000)
    monkeypatch.setattr(rollups, "PRESENT_RUNS", 2999)
    now = await database_now(store)
    (series,) = await read_series(store.conn, "week", now)
    ((counted_until,),) = await rows(store, "select counted_until from rollup_progress")
    assert series.until == counted_until
    assert series.total == OutcomeCounts()


async def test_a_second_pass_changes_nothing(store: MaintenanceStore):
    await generate(store, days=3, runs=3000)
    await roll_up_all(store)
    before = await stored(store, "grain <> 'minute'")
    assert not await store.roll_up(HOUR)
    await rows(store, "update rollup_progress set verified_until = verified_until - interval '40 hours'")
    await rows(store, "update rollup_progress set days_until = days_until - interval '1 day'")
    await roll_up_all(store)
    after = {row[:4]: row for row in await stored(store, "grain <> 'minute'")}
    newest = max(row[1] for row in before)
    assert [row for row in before if row[1] < newest] == [after[row[:4]] for row in before if row[1] < newest]


ENDS_ITS_SESSION = """
create function crash() returns trigger language plpgsql as $$
begin
  perform pg_terminate_backend(pg_backend_pid());
  return new;
end $$;
create trigger crash before insert or update or delete on run_rollups
  for each row when (current_setting('test.crashes_at', true) = 'run_rollups') execute function crash();
create trigger crash before update on rollup_progress
  for each row when (current_setting('test.crashes_at', true) = 'rollup_progress') execute function crash();
"""


async def test_a_crash_at_any_point_loses_nothing_and_counts_nothing_twice(store: MaintenanceStore, database: str):
    """Before each call two crash: at their first row of `run_rollups`, if they write one, and at their progress."""
    await generate(store, days=2, runs=1500)
    await rows(store, ENDS_ITS_SESSION)
    crashes: Counter[str] = Counter()
    calls, behind = 0, True
    while behind:
        calls += 1
        for table in ("run_rollups", "rollup_progress"):
            async with connected(database) as victim:
                await rows(victim, "select set_config('test.crashes_at', %s, false)", table)
                try:
                    await victim.roll_up(timedelta())
                except WakeboardError:
                    crashes[table] += 1
        behind = await store.roll_up(timedelta())
    assert crashes["rollup_progress"] == calls
    assert crashes["run_rollups"] >= 1
    await check_everything(store)


@pytest.mark.parametrize(("back", "position"), [(2, "checked_until"), (23, "verified_until"), (30, "verified_until")])
async def test_what_commits_late_is_counted_in_the_end(store: MaintenanceStore, back: int, position: str):
    """The rows appear after their hour was counted; then the time of the check comes."""
    hour = await hour_counted(store, back)
    await rows(store, INSERT_RUN, [hour + 7 * MINUTE, hour + 59 * MINUTE])
    await rows(
        store,
        "insert into job_attempts (run_id, lease_epoch, attempt, outcome, locked_by, started_at, ended_at, died)"
        " select max(id), 9, 9, 'failed', 1, %s, %s, true from job_run_history",
        hour,
        hour,
    )
    await rows(store, f"update rollup_progress set {position} = %s", hour)
    await roll_up_all(store)
    expected = await facts(store)
    for series in await read_series(store.conn, "week", await database_now(store), "job_type", ["type0"]):
        check(series, expected)
    assert await stored(store, "grain = 'recount'") == []


async def test_a_recount_in_many_slices_is_invisible_until_it_is_complete(store: MaintenanceStore):
    hour = await hour_counted(store, 30)
    await rows(store, INSERT_RUN, [hour + 7 * MINUTE])
    # From 20:00 UTC on, the day of this hour is added up already.
    day = "least(days_until, date_bin('1 day', %s, 'epoch'))"
    verified = f"update rollup_progress set verified_until = %s, slice_minutes = 1, days_until = {day}"
    await rows(store, verified, hour, hour)
    await rows(store, "alter table run_rollups add check (grain <> 'recount' or name <> 'type0') not valid")
    before = await stored(store, "grain = 'hour'")
    with suppress(WakeboardError):
        await roll_up_all(store)
    assert await stored(store, "grain = 'hour'") == before
    await rows(store, "alter table run_rollups drop constraint run_rollups_check")
    await roll_up_all(store)
    await check_everything(store)


async def test_rows_are_kept_for_their_time(store: MaintenanceStore):
    await roll_up_all(store)
    kept = {"minute": "25 hours", "hour": "99 days", "day": "429 days"}
    for grain, age in kept.items():
        for late in ("0", "2 days"):
            await rows(
                store,
                "insert into run_rollups select %s::rollup_grain, now() - %s::interval - %s::interval, 'all', '',"
                " 0, 0, 0, 0, 0, 0, 0, 0",
                grain, age, late,
            )  # fmt: skip
    for hours in (8 * 24 - 2, 8 * 24 + 2):
        await rows(
            store,
            "insert into run_rollups select 'hour', date_bin('1 hour', now(), 'epoch') - make_interval(hours => %s),"
            " 'step', 'a b', 1, 0, 0, 0, 0, 0, 0, 0",
            hours,
        )
    await rows(
        store, "update rollup_progress set deleted_at = 'epoch', details_deleted_until = now() - interval '9 days'"
    )
    await rows(
        store, "update rollup_progress set details_deleted_until = date_bin('1 hour', details_deleted_until, 'epoch')"
    )
    await roll_up_all(store)
    left = await rows(
        store, "select grain::text, extract(day from now() - starts_at)::integer from run_rollups order by 1, 2"
    )
    assert left == [("day", 429), ("hour", 7), ("hour", 99), ("minute", 1)]


async def test_a_partition_waits_until_it_is_verified(store: MaintenanceStore):
    await generate(store, days=60, runs=200)
    await begin_at(store, "now() - interval '70 days'")
    month = timedelta(days=30)
    assert await store.drop_partitions(month) == 0
    await rows(store, "update rollup_progress set drop_waits_since = now() - interval '8 days'")
    assert await store.roll_up(timedelta())
    assert await rows(store, "select drop_waits_since from rollup_progress") == [(None,)]
    await roll_up_all(store)
    assert await store.drop_partitions(month) >= 3
    quarter = await read_series(store.conn, "quarter", await database_now(store))
    assert quarter[0].total.succeeded > 150


async def test_a_partition_is_dropped_if_nothing_was_verified_for_a_week(store: MaintenanceStore):
    await generate(store, days=60, runs=200)
    await begin_at(store, "now() - interval '70 days'")
    month = timedelta(days=30)
    assert await store.drop_partitions(month) == 0
    await rows(store, "update rollup_progress set drop_waits_since = now() - interval '8 days'")
    assert await store.drop_partitions(month) >= 3


@pytest.mark.every_postgres
async def test_the_backlog_is_recorded_once_a_minute(store: MaintenanceStore, database: str):
    """Of four runs one is running, one waits for a slot, one waits and one is not due yet."""
    user = SqlClient(database, 71)
    user.register()
    user.enqueue()
    user.claim(1)
    user.sql("select enqueue('ping')")
    user.sql("select enqueue('ping', limit_key => 'one')")
    user.sql("select enqueue('ping', run_at => now() + interval '1 hour')")
    user.close()
    await rows(store, "insert into backlog_samples values (date_bin('1 minute', now() + interval '1 day', 'epoch'), 7)")
    await rows(store, "update rollup_progress set counted_until = now() + interval '1 day'")
    await rows(
        store, "insert into backlog_samples values (date_bin('1 minute', now() - interval '101 days', 'epoch'), 8)"
    )
    await rows(store, "select roll_up(always => true) from generate_series(1, 3)")
    await roll_up_all(store)
    now = await database_now(store)
    found = await rows(store, "select sampled_at, due from backlog_samples order by 1")
    assert [due for _, due in found] in ([2], [2, 2])  # a minute may end meanwhile
    assert now - 2 * MINUTE < found[0][0] <= now
    starts = [found[0][0] + step * MINUTE for step in range(-1, 5)]
    assert await read_waiting(store.conn, starts, MINUTE) == [None, 2, 2, 2, 2, 2 if len(found) > 1 else None]
    assert await read_waiting(store.conn, [starts[0] - HOUR, starts[0]], HOUR) == [None, 2]


@pytest.mark.every_postgres
async def test_a_run_that_became_dead_is_counted_even_if_it_is_retried(store: MaintenanceStore, database: str):
    user = SqlClient(database, 71)
    user.register()
    for _ in range(4):
        user.enqueue()
    first, second, third, fourth = user.claim(4)
    user.complete(first)
    user.fail(second)
    user.fail(third, outcome="discarded")
    user.complete(fourth)
    user.sql("select retry(%s)", [third.id])
    user.close()
    now = await database_now(store)
    (series,) = await read_series(store.conn, "hour", now + MINUTE, "job_type", ["ping"])
    (row,) = await failures_since(store.conn, now - HOUR)
    assert (series.total.died, series.total.failed, series.total.succeeded) == (1, 2, 2)
    assert series.total.failure_rate == row.failure_rate == 0.5


async def test_the_names_with_the_most_failures_or_runs_come_first(store: MaintenanceStore):
    await generate(store, days=3, runs=3000)
    await roll_up_all(store)
    expected, now = await facts(store), await database_now(store)
    for window in ("day", "week", "quarter"):
        for dimension in ("job_type", "queue", "schedule", "step"):
            for order in ("failures", "volume"):
                top = await read_top(store.conn, window, now, dimension, order, limit=3)
                keys = [each.counts.failures if order == "failures" else each.counts.ended for each in top]
                assert keys == sorted(keys, reverse=True)
                for each in top:
                    same = [fact for fact in expected if fact.names.get(dimension) == each.name]
                    if window != "day":
                        check_counts(each.counts, same)
    names = {fact.names["job_type"] for fact in expected if "job_type" in fact.names}
    assert {each.name for each in await read_top(store.conn, "quarter", now, "job_type", "volume")} == names


async def test_the_steps_beyond_the_first_thousand_of_an_hour_are_counted_together(store: MaintenanceStore):
    await rows(store, INSERT_RUN, [await database_now(store) - 2 * MINUTE])
    await rows(
        store, "insert into job_steps select -1, 'page ' || n, 1, now(), now() from generate_series(1, 1500) as n"
    )
    await begin_at(store, "now() - interval '2 hours'")
    await roll_up_all(store)
    found = await rows(
        store, "select count(*), sum(succeeded) from run_rollups where grain = 'hour' and dimension = 'step'"
    )
    assert found == [(1001, 1500)]


@pytest.mark.every_postgres
async def test_no_call_scans_a_partition_or_the_steps(store: MaintenanceStore):
    await generate(store, days=9, runs=4_000)
    await rows(store, "analyze")
    scans = (
        "select relname, pg_stat_get_xact_numscans(oid) from pg_class where relkind = 'r'"
        " and pg_stat_get_xact_numscans(oid) > 0"
        " and (relname like 'job_run_history%' or relname in ('job_steps', 'job_attempts', 'run_rollups'))"
    )
    await rows(store, "select pg_stat_force_next_flush()")  # of the scans until now
    async with store.conn.transaction():
        await roll_up_all(store)
        assert await rows(store, scans) == []
