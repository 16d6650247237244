"""Schedules that run after others, from their declaration to their runs."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import pytest

from tests.schedules.schedules import (
    DAY,
    HOUR,
    MISFIRE_GRACE,
    claim,
    connected,
    declared,
    definition,
    make_due,
    put,
    rows,
)
from wakeboard.actions.admin_api import AdminStore
from wakeboard.backfills.rules import BackfillRange
from wakeboard.dependencies import dependents
from wakeboard.dependencies.dependents import JOINS_PER_CALL, enqueue_dependents
from wakeboard.dependencies.rules.joined_ticks import tick_before, ticks_between
from wakeboard.schedules import calls
from wakeboard.schedules.scheduler import schedule_due_ticks
from wakeboard.ticks.compiled_ticks import ticks_for
from wakeboard.ticks.cron_parser import parse_cron

if TYPE_CHECKING:
    from collections.abc import Sequence

    from wakeboard.engine.maintenance_api import MaintenanceStore
    from wakeboard.schedules.desired_schedule import DesiredSchedule

pytestmark = pytest.mark.anyio

TICK = datetime(2026, 1, 5, tzinfo=UTC)


def following(name: str, *parents: str | dict[str, str], **spec: Any) -> DesiredSchedule:
    """A schedule `team/<name>` that runs after others."""
    entries = [{"schedule": parent} if isinstance(parent, str) else parent for parent in parents]
    return declared(name, schedule=None, after=entries, **spec)


async def succeed(store: MaintenanceStore) -> None:
    """Executes every run that is due."""
    await rows(store, "update job_runs set run_at = now() - interval '1 s' where run_at < '2999-12-31 00:00+00'")
    for run, epoch in await claim(store):
        await rows(store, "select complete(7, %s, %s)", [run], [epoch])


async def drain(store: MaintenanceStore) -> None:
    """Executes runs until nothing is due any more."""
    while await rows(store, "select true from job_runs where status = 'queued' and run_at < '2999-12-31 00:00+00'"):
        await succeed(store)
        await enqueue_dependents(store)


async def ticks_of(store: MaintenanceStore, name: str) -> list[datetime]:
    """The ticks of the runs of a schedule, live and finished."""
    found = await rows(
        store, "select scheduled_for from all_runs where schedule = %s order by scheduled_for", f"team/{name}"
    )
    return [row[0].astimezone(UTC) for row in found]


async def insert_ticks(store: MaintenanceStore, name: str, ticks: Sequence[datetime]) -> None:
    """Creates the runs of ticks, as a backfill does."""
    async with store.conn.transaction():
        await store.conn.execute("set local search_path = pg_catalog, wakeboard, pg_temp")
        await store.conn.execute(
            "insert into job_runs (job_type, definition_id, scheduled_for, trigger, schedule, has_dependents)"
            " select job_type, id, tick, 'tick', namespace || '/' || name, has_dependents"
            "   from job_definitions, unnest(%s::timestamptz[]) as tick where name = %s",
            [list(ticks), name],
        )


async def test_a_tick_flows_through_a_whole_pipeline(store: MaintenanceStore) -> None:
    await put(
        store, declared("extract"), following("transform", "extract"), following("report", "transform", "extract")
    )
    tick = await make_due(store, "extract")
    await schedule_due_ticks(store, misfire_grace=MISFIRE_GRACE)
    await drain(store)
    assert [await ticks_of(store, name) for name in ("extract", "transform", "report")] == [[tick]] * 3


@pytest.mark.parametrize(("batch", "first_runs", "children"), [(2, 2, 5), (20, 22, 30)])
async def test_one_end_may_create_more_runs_than_a_batch_holds(
    store: MaintenanceStore, monkeypatch: pytest.MonkeyPatch, batch: int, first_runs: int, children: int
) -> None:
    monkeypatch.setattr(dependents, "BATCH", batch)
    await put(store, declared("extract"), *[following(f"part-{part}", "extract") for part in range(children)])
    await make_due(store, "extract")
    await schedule_due_ticks(store, misfire_grace=MISFIRE_GRACE)
    await succeed(store)
    first = await enqueue_dependents(store, one_batch=True)
    assert (first.runs, dependents.may_have_more(first)) == (first_runs, True)
    assert (await enqueue_dependents(store)).runs == children - first_runs


async def die(store: MaintenanceStore, name: str) -> None:
    """Lets the run of a schedule die."""
    await rows(
        store,
        "update job_runs set dead_at = now(), status = 'dead', failed_at = now(), error_type = 'E', last_error = 'no'"
        " where schedule = %s",
        f"team/{name}",
    )
    await rows(store, "select note_dead_runs(array(select id from job_runs where status = 'dead'))")


@pytest.mark.parametrize(
    "entries",
    [
        ["extract"],
        ["extract", {"schedule": "rates", "outcome": "Ended"}],
        [{"schedule": "extract", "outcome": "Ended"}],
    ],
    ids=["the entry is removed", "any end of it counts", "removed, and the other one edited"],
)
async def test_a_tick_waits_no_longer_for_what_after_does_not_name(
    store: MaintenanceStore, entries: list[str | dict[str, str]]
) -> None:
    extract, rates = declared("extract"), declared("rates")
    await put(store, extract, rates, following("transform", "extract", "rates"))
    tick = await make_due(store, "%")
    await schedule_due_ticks(store, misfire_grace=MISFIRE_GRACE)
    await die(store, "rates")
    await drain(store)
    assert await ticks_of(store, "transform") == []
    await put(store, extract, rates, following("transform", *entries))
    await enqueue_dependents(store)
    await drain(store)
    assert await ticks_of(store, "transform") == [tick]
    await put(store, extract, rates, following("transform", "extract", "rates"))
    await rows(store, "select retry(array(select id from job_runs where status = 'dead'))")
    await drain(store)
    assert await ticks_of(store, "transform") == [tick], "each tick becomes one run"


async def test_a_schedule_that_had_a_cron_expression_does_not_repeat_its_ticks(store: MaintenanceStore) -> None:
    await put(store, declared("extract"), declared("transform"))
    tick = await make_due(store)
    await schedule_due_ticks(store, misfire_grace=MISFIRE_GRACE)
    await drain(store)
    await put(store, declared("extract"), following("transform", "extract"))
    await rows(store, "select replay(array(select id from job_run_history where schedule = 'team/extract'))")
    await drain(store)
    assert await ticks_of(store, "transform") == [tick]


async def test_a_parents_removal_and_return_change_its_childs_status(store: MaintenanceStore) -> None:
    both = declared("extract"), following("transform", "extract")
    await put(store, *both)
    child = (await rows(store, "select id from job_definitions where name = 'transform'"))[0]
    for declared_now in (both[1:], both):
        await calls.pop_changed_definitions(store)
        await put(store, *declared_now, prune=True)
        assert child[0] in await calls.pop_changed_definitions(store)


async def test_a_daily_schedule_joins_the_24_hourly_ticks_of_its_day(store: MaintenanceStore) -> None:
    await put(
        store,
        declared("hourly", schedule="0 * * * *"),
        declared("daily", schedule="0 0 * * *"),
        following("report", "daily", {"schedule": "hourly", "ticks": "All"}),
    )
    midnight = datetime(2026, 1, 6, tzinfo=UTC)
    hours = [midnight - hour * HOUR for hour in range(24)]
    await insert_ticks(store, "daily", [midnight])
    await insert_ticks(store, "hourly", hours[1:])
    await drain(store)
    assert await ticks_of(store, "report") == []
    await insert_ticks(store, "hourly", hours[:1])
    await drain(store)
    assert await ticks_of(store, "report") == [midnight]
    places = await rows(store, "select place, count(*) from run_dependencies group by place order by place")
    assert places == [(1, 1), (2, 24)]


async def test_the_cadence_of_a_join_comes_from_the_beginning_of_the_pipeline(store: MaintenanceStore) -> None:
    await put(
        store,
        declared("hourly", schedule="0 * * * *"),
        following("cleaned", "hourly"),
        declared("daily", schedule="0 0 * * *"),
        following("loaded", "daily"),
        following("report", {"schedule": "cleaned", "ticks": "All"}, "loaded"),
    )
    midnight = datetime(2026, 1, 6, tzinfo=UTC)
    await insert_ticks(store, "hourly", [midnight - hour * HOUR for hour in range(24)])
    await insert_ticks(store, "daily", [midnight])
    await drain(store)
    assert await ticks_of(store, "report") == [midnight]


@pytest.mark.parametrize(("day", "hours"), [("2026-03-28", 24), ("2026-03-30", 23), ("2026-10-26", 25)])
def test_a_day_has_the_hours_that_its_clock_shows(day: str, hours: int) -> None:
    daily = ticks_for(parse_cron("0 0 * * *", name="").to_text(), "Europe/Lisbon", "RunAfter", "First")
    hourly = ticks_for(parse_cron("0 * * * *", name="").to_text(), "Europe/Lisbon", "RunAfter", "First")
    tick = daily.next_tick(datetime.fromisoformat(f"{day}T00:00+00:00") - timedelta(hours=2))
    assert tick is not None
    since = tick_before(daily, tick)
    assert since is not None
    found = ticks_between(hourly, since, tick)
    assert found is not None
    assert len(found) == hours


# -- locks of other transactions


async def test_ticks_to_check_of_a_locked_schedule_hold_up_no_other_one(store: MaintenanceStore, database: str) -> None:
    daily = (declared("daily", schedule="0 0 * * *"), declared("hourly", schedule="0 0 * * *"))
    entries = ("daily", {"schedule": "hourly", "ticks": "All"})
    await put(store, *daily, following("locked", *entries), following("neighbour", *entries))
    midnights = [datetime(2024, 1, 1, tzinfo=UTC) + timedelta(days=day) for day in range(JOINS_PER_CALL + 1)]
    await insert_ticks(store, "daily", midnights)
    await rows(store, "select pause('queue:default')")
    async with connected(database) as holder:
        async with holder.conn.transaction():
            await rows(
                holder,
                "insert into schedule_ticks (definition_id, scheduled_for, waits_for)"
                " select id, tick, 'check' from job_definitions, unnest(%s::timestamptz[]) as tick"
                "  where name in ('locked', 'neighbour')",
                midnights,
            )
        async with holder.conn.transaction():
            await rows(holder, "select from job_definitions where name = 'locked' for update")
            await enqueue_dependents(store)
            left = await rows(
                store,
                "select name from schedule_ticks join job_definitions on id = definition_id where waits_for = 'check'"
                " group by name",
            )
            assert left == [("locked",)]
    await enqueue_dependents(store)
    assert await rows(store, "select true from schedule_ticks where waits_for = 'check'") == []


# -- edits of the graph


@pytest.mark.parametrize("paused", [False, True])
async def test_a_tick_of_a_backfill_gets_no_second_run(store: MaintenanceStore, paused: bool) -> None:
    await put(store, declared("extract"), declared("transform"))
    number = await definition(store, "transform", "id")
    if paused:
        await rows(store, "select pause('queue:default')")
    job = await AdminStore(store.conn).create_backfill(number, BackfillRange(TICK, TICK + DAY, [TICK]))
    if paused:
        await rows(store, "select pause(%s)", f"backfill:{job.id}")
        await rows(store, "select resume('queue:default')")
    await put(store, declared("extract"), following("transform", "extract"))
    await insert_ticks(store, "extract", [TICK])
    await succeed(store)
    await enqueue_dependents(store)
    if paused:
        assert await ticks_of(store, "transform") == []
        await rows(store, "select resume(%s)", f"backfill:{job.id}")
    assert await ticks_of(store, "transform") == [TICK]


async def test_an_edit_keeps_the_end_of_a_tick_that_others_wait_for(store: MaintenanceStore) -> None:
    """Its run is from when the schedule had a cron expression, and died while nothing ran after it."""
    both = declared("extract"), declared("rates")
    await put(store, *both, declared("transform"))
    tick = await make_due(store, "transform")
    await schedule_due_ticks(store, misfire_grace=MISFIRE_GRACE)
    await rows(
        store,
        "update job_runs set dead_at = now(), status = 'dead', failed_at = now(), error_type = 'E', last_error = 'no'",
    )
    await put(store, *both, following("transform", "extract"), following("report", "rates", "transform"))
    await rows(store, "select pause('schedule:' || id) from job_definitions where name = 'transform'")
    await insert_ticks(store, "extract", [tick])
    await drain(store)
    await rows(store, "select retry(array(select id from job_runs where status = 'dead'))")
    await drain(store)
    await put(store, *both, following("transform", "rates"), following("report", "rates", "transform"))
    await insert_ticks(store, "rates", [tick])
    await drain(store)
    assert await ticks_of(store, "report") == [tick]
