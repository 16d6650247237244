"""An edit of an application's schedule: which definition its ticks have, and that none is lost."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import pytest

import wakeboard
from tests.schedules.schedules import MINUTE, claim, hourly, rows, runs, until
from tests.schedules.test_application_schedules import add, make_ticks
from wakeboard.schedules import calls
from wakeboard.schedules.scheduler import plan_ticks

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
    assert await make_ticks(store) == (1, 0, 0, 0)
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
    assert len(await runs(store)) == {"All": 6, "Latest": 1, "Skip": 0}[catch_up]
    assert await rows(store, "select id, next_run_at > now(), former_timings from job_definitions") == [
        (made.id, True, None)
    ]


async def test_the_tick_of_an_unseen_edit_is_of_its_definition(store: MaintenanceStore):
    for version in range(3):  # a moment each, which the next edit finds due
        await add(store, cron=None, at=datetime.fromisoformat(at_in(0)[3:]), payload={"version": version})
        await until(
            store, "select true from job_definitions where substr(schedule, 4)::timestamptz < clock_timestamp()"
        )
    while any(await make_ticks(store)):
        pass
    assert await runs(store, columns="payload") == [{"version": version} for version in range(3)]


@pytest.mark.parametrize("first", ["every", "cron"])
@pytest.mark.parametrize("line", ["at", "every 3s"])
@pytest.mark.parametrize(
    "change", ["payload = '{\"new\": true}'", "schedule = '0 0 1 1 *'", "suspended = true", "removal"]
)
async def test_an_edit_before_a_tick_that_no_scheduler_saw_decides_about_it(
    store: MaintenanceStore, first: str, line: str, change: str
):
    if first == "cron":  # which has ticks at whole minutes
        await until(store, "select true where extract(second from clock_timestamp()) between 0.1 and 55")
        await add(store, cron="* * * * *")
    else:
        await add(store, cron=None, every=timedelta(days=300))
    when = at_in(1)
    line, starts = (when, None) if line == "at" else (line, when[3:])
    edit = 'update job_definitions set payload = \'{"is": "right"}\', schedule = %s, starts_at = %s'
    await rows(store, edit, "at 2050-01-01T00:00:00Z", None)
    await rows(store, edit, line, starts)
    await until(store, "select true where clock_timestamp() > %s", datetime.fromisoformat(when[3:]))
    await rows(store, "delete from job_definitions" if change == "removal" else f"update job_definitions set {change}")
    reason = {"removal": "ScheduleRemoved", "suspended = true": "Suspended"}.get(change)
    assert await rows(store, "select payload, reason from all_runs") == [({"is": "right"}, reason)]


async def test_one_pass_makes_the_ticks_of_all_former_times(store: MaintenanceStore):
    await add(store, cron="0 0 1 1 *", catch_up="All")
    ((began,),) = await rows(
        store,
        "update job_definitions set next_run_at = now() - interval '40 min', former_timings = ("
        " select jsonb_agg(jsonb_build_object('schedule', '*/' || each || ' * * * *', 'time_zone', 'Etc/UTC',"
        " 'dst_gap', dst_gap, 'dst_overlap', dst_overlap, 'starts_at', null, 'ends_at', null,"
        " 'until', now() - make_interval(mins => 40 - 10 * each))"
        " order by each) from generate_series(1,3) each) returning next_run_at",
    )
    await make_ticks(store)
    assert await rows(store, "select next_run_at > now(), former_timings from job_definitions") == [(True, None)]
    first = began.astimezone(UTC).replace(second=0, microsecond=0) + MINUTE
    minutes = [
        first + n * MINUTE for n in range(30)
    ]  # ten of each former times: each minute, each second and each third one
    ticks = [tick for place, tick in enumerate(minutes) if tick.minute % (place // 10 + 1) == 0]
    assert await runs(store, columns="scheduled_for") == ticks


@pytest.mark.parametrize("seen", [True, False])
async def test_ticks_wait_while_the_next_times_cannot_be_computed(store: MaintenanceStore, seen: bool):
    """SQL accepts days that do not exist; the scheduler does not."""
    await add(store, cron=hourly(), catch_up="All")
    await make_ticks(store)
    await rows(store, "update job_definitions set next_run_at = next_run_at - interval '3 h'")
    await rows(store, "insert into pauses (scope) values ('all')")
    for version in (1, 2):
        await add(store, cron="0 0 H(30-31) 2 *", catch_up="All", payload={"version": version})
        await rows(store, "delete from pauses")
        if seen:
            await make_ticks(store)
            assert await rows(store, "select schedule_error is null from job_definitions") == [(False,)]
    await add(store, cron=hourly(), catch_up="All")
    while any(await make_ticks(store)):
        pass
    assert await rows(store, "select schedule_error, next_run_at > now() from job_definitions") == [(None, True)]
    assert len(await runs(store)) == 3


async def test_a_plan_of_former_times_has_no_effect_on_the_next_ones(store: MaintenanceStore):
    moment = datetime.fromisoformat(at_in(1)[3:])
    await add(store, cron=None, at=moment)
    await make_ticks(store)
    await until(store, "select true from job_definitions where next_run_at < clock_timestamp()")
    await add(store, cron=None, at=moment + timedelta(seconds=2))
    plans = [plan_ticks(due, timedelta(hours=1)) for due in await calls.due_definitions(store)]
    assert (await calls.enqueue_due_ticks(store, plans)).definitions == 1
    assert (await calls.enqueue_due_ticks(store, plans)).definitions == 0  # of another scheduler
    await until(store, "select true from job_definitions where substr(schedule, 4)::timestamptz < clock_timestamp()")
    while any(await make_ticks(store)):
        pass
    assert await runs(store, columns="status::text") == ["queued", "queued"]


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
    await make_ticks(store)
    assert await rows(store, "select reason from all_runs") == [(reason,)]


PAUSES = {
    "all": "('all')",
    "queue": "('queue:default')",
    "schedule": "((select 'schedule:' || id from job_definitions))",
}
EDITS = ["payload", "times", "times and back", "function"]


@pytest.mark.parametrize("pause", PAUSES)
@pytest.mark.parametrize("edit", EDITS)
@pytest.mark.parametrize("seen", [True, False])
async def test_a_tick_waits_for_the_end_of_a_pause_across_edits(
    store: MaintenanceStore, pause: str, edit: str, seen: bool
):
    await rows(store, "insert into job_definitions (name, job_type, schedule) values ('a', 'ping', %s)", at_in(1))
    if seen:
        await make_ticks(store)
    await rows(store, f"insert into pauses (scope) values {PAUSES[pause]}")
    await until(store, "select true from job_definitions where substr(schedule, 4)::timestamptz < clock_timestamp()")
    async with store.conn.transaction():
        match edit:
            case "payload":
                await rows(store, "update job_definitions set payload = '{\"new\": true}'")
            case "function":
                ((line,),) = await rows(store, "select substr(schedule, 4) from job_definitions")
                await add(store, "default/a", cron=None, at=datetime.fromisoformat(line), payload={"new": True})
            case _:
                ((line,),) = await rows(store, "select schedule from job_definitions")
                await rows(store, "update job_definitions set schedule = 'every 366d'")
                if edit == "times and back":
                    await rows(store, "update job_definitions set schedule = %s", line)
    await make_ticks(store)
    assert await rows(store, "select true from all_runs") == []
    await rows(store, "delete from pauses")
    await make_ticks(store)
    assert await rows(store, "select count(*), max(reason) from all_runs") == [(1, None)]


def at_in(seconds: float) -> str:
    """A moment, as the table holds it."""
    return f"at {datetime.now(UTC) + timedelta(seconds=seconds + 1):%Y-%m-%dT%H:%M:%SZ}"


@pytest.mark.parametrize(("catch_up", "run"), [("Latest", 1), ("All", 2), ("Skip", 0)])
@pytest.mark.parametrize("edit", ["payload", "times"])
async def test_an_edit_after_an_outage_runs_what_catch_up_allows(
    store: MaintenanceStore, catch_up: CatchUpPolicy, run: int, edit: str
):
    limit = 2 if catch_up == "All" else None
    await add(store, cron=hourly(), catch_up=catch_up, catch_up_limit=limit)
    await make_ticks(store)
    await rows(store, "update job_definitions set next_run_at = next_run_at - interval '6 h'")
    change = "payload = '{\"new\": true}'" if edit == "payload" else "schedule = '0 0 1 1 *'"
    await rows(store, f"update job_definitions set {change}")
    while any(await make_ticks(store)):
        pass
    assert await rows(store, "select sum(coalesce(skipped_count, 1)) from all_runs") == [(6,)]
    assert len(await runs(store)) == run


@pytest.mark.parametrize("line", ["every 1s", "at"])
@pytest.mark.parametrize("edit", ["payload = '{\"new\": true}'", "schedule = '0 0 1 1 *'", "removal"])
async def test_a_due_tick_that_no_scheduler_saw_is_of_the_former_definition(
    store: MaintenanceStore, line: str, edit: str
):
    line = at_in(-1) if line == "at" else line
    await rows(store, "insert into job_definitions (name, job_type, schedule) values ('a', 'ping', %s)", line)
    await until(store, "select true from job_definitions where created_at + interval '1 s' < clock_timestamp()")
    await rows(store, "delete from job_definitions" if edit == "removal" else f"update job_definitions set {edit}")
    oldest = "select payload, status::text, reason from all_runs order by scheduled_for limit 1"
    assert await rows(store, oldest) == [
        ({}, "skipped", "ScheduleRemoved") if edit == "removal" else ({}, "queued", None)
    ]
    while any(await make_ticks(store)):
        pass
    assert await rows(store, "select count(distinct scheduled_for) = count(*) from all_runs") == [(True,)]


async def test_a_long_statement_makes_no_tick_before_its_call(store: MaintenanceStore):
    calls = "perform pg_sleep(2.2); perform schedule('team/a', 'ping', every => '1 s');"
    insert = "insert into job_definitions (name, job_type, schedule) values ('b', 'ping', 'every 1s');"
    await rows(store, f"do $$ begin {calls} {insert} end $$")
    assert (
        await rows(store, "select true from job_definitions where next_run_at < clock_timestamp() - interval '2 s'")
        == []
    )
    await rows(store, "do $$ begin perform unschedule('team/a'); perform unschedule('b'); end $$")


async def test_a_moment_that_had_no_tick_runs_after_a_removal(store: MaintenanceStore):
    past = datetime.now(UTC) - timedelta(hours=1)
    for cron, at in ((None, past + timedelta(hours=3)), ("0 0 1 1 *", None)):
        await add(store, cron=cron, at=at)
        await wakeboard.unschedule(store.conn, "team/a")
        assert (await add(store, cron=None, at=past)).answer == "created"
        await wakeboard.unschedule(store.conn, "team/a")
        past += timedelta(minutes=1)


@pytest.mark.parametrize(("catch_up", "run"), [("Latest", 1), ("All", 2), ("Skip", 0)])
async def test_catch_up_decides_once_about_the_ticks_of_all_times(
    store: MaintenanceStore, catch_up: CatchUpPolicy, run: int
):
    now = datetime.now(UTC)
    past: dict[str, Any] = {"catch_up": catch_up, "catch_up_limit": 2 if catch_up == "All" else None}
    await add(store, cron=hourly(), **past)
    await make_ticks(store)
    await rows(store, "insert into pauses (scope) values ('all')")
    await rows(store, "update job_definitions set next_run_at = next_run_at - interval '6 h'")
    for zone in ("Etc/GMT+1", "Etc/GMT+2"):
        await add(store, cron="0 0 1 1 *", time_zone=zone, **past)
    await add(store, cron=None, at=now - timedelta(hours=2), **past)
    await rows(store, "delete from pauses")
    while any(await make_ticks(store)):
        pass
    assert await rows(store, "select sum(coalesce(skipped_count, 1)) from all_runs") == [(7,)]
    assert len(await runs(store)) == run


@pytest.mark.parametrize("other", ["0 0 1 1 *", None])
async def test_any_edit_lets_a_schedule_that_was_stopped_tick_again(store: MaintenanceStore, other: str | None):
    times = hourly()
    await add(store, cron=times, catch_up="All")
    await make_ticks(store)
    await rows(store, "update job_definitions set schedule_error = 'no', next_run_at = next_run_at - interval '3 h'")
    assert (await add(store, cron=other or times, catch_up="All")).answer == "updated"
    await make_ticks(store)
    assert await rows(store, "select schedule_error, next_run_at > now() from job_definitions") == [(None, True)]
    assert len(await runs(store)) == (0 if other else 3)


@pytest.mark.parametrize(
    ("policy", "made"),
    [
        ({"starting_deadline_s": 60}, [("skipped", "TooLate")]),
        ({"suspend_after_dead": 1}, [("skipped", "CircuitOpen")]),
        ({"concurrency_policy": "Forbid"}, [("queued", None), ("skipped", "Forbidden")]),
        ({"concurrency_policy": "Replace"}, [("cancelled", "Replaced"), ("queued", None)]),
        ({}, [("queued", None), ("queued", None)]),
    ],
)
async def test_the_tick_of_an_edit_obeys_the_policies_of_its_definition(
    store: MaintenanceStore, policy: dict[str, Any], made: list[tuple[str, str | None]]
):
    policy["cron"] = "0 0 1 1 *"
    await add(store, **policy)
    await make_ticks(store)
    if len(made) > 1:
        await rows(store, "update job_definitions set next_run_at = date_trunc('minute', now()) - interval '2 min'")
        await make_ticks(store)
    await rows(store, "update job_definitions set next_run_at = date_trunc('minute', now()) - interval '1 min'")
    opened = "circuit_opened_at = now(), circuit_probe_at = now() + interval '1 h', circuit_probes = 0"
    await rows(store, f"update job_definitions set {opened} where suspend_after_dead is not null")
    await add(store, payload={"new": True}, cron="0 0 1 1 *")
    ticks = "select status::text, reason from all_runs order by scheduled_for, status::text"
    assert await rows(store, ticks) == made


@pytest.mark.parametrize(
    ("since", "tick", "left"),
    [
        ("a run died", ("skipped", "CircuitOpen"), (True, False, 2)),
        ("it opened", ("skipped", "CircuitOpen"), (True, False, 2)),
        ("the pause ended", ("queued", None), (True, True, 2)),
        ("the run succeeded", ("queued", None), (False, False, 2)),
        ("the edit drops it", ("queued", None), (False, False, None)),
    ],
)
@pytest.mark.parametrize("by", ["scheduler", "edit"])
async def test_the_tick_of_an_edit_finds_the_circuit_that_a_scheduler_finds(
    store: MaintenanceStore, since: str, tick: tuple[str, str | None], left: tuple[bool, bool, int | None], by: str
):
    options: dict[str, Any] = {"cron": "0 0 1 1 *", "max_attempts": 1, "suspend_after_dead": 2}
    due = "update job_definitions set next_run_at = date_trunc('minute', now()) - make_interval(mins => %s)"
    await add(store, **options)
    await make_ticks(store)
    for ago in (4, 3):
        await rows(store, due, ago)
        await make_ticks(store)
    for run, epoch in await claim(store):
        failed = "'{discarded}', '{E}', '{no}', '{stack}', '{null}'"
        await rows(store, f"select fail(7, array[%s]::bigint[], array[%s]::bigint[], {failed})", run, epoch)
    if since != "a run died":
        await rows(store, due, 2)
        await make_ticks(store)
    if since in {"the pause ended", "the edit drops it"}:
        await rows(store, "update job_definitions set circuit_probe_at = now() - interval '2 min'")
    if since == "the run succeeded":
        await rows(store, "select retry(array(select min(id) from job_runs))")
        ((run, epoch),) = await claim(store)
        await rows(store, "select complete(7, array[%s]::bigint[], array[%s]::bigint[])", run, epoch)
    await rows(store, due, 1)
    if by == "scheduler":
        await make_ticks(store)
    options["suspend_after_dead"] = left[-1]
    await add(store, **options, payload={"new": True})
    newest = "select status::text, reason from all_runs order by scheduled_for desc limit 1"
    assert await rows(store, newest) == [tick]
    circuit = "select circuit_opened_at is not null, circuit_probe_id is not null, suspend_after_dead"
    assert await rows(store, f"{circuit} from job_definitions") == [left]


async def test_an_edit_makes_no_tick_after_the_end(store: MaintenanceStore):
    starts = datetime.now(UTC).replace(microsecond=0)
    ends = starts + timedelta(seconds=1)
    await add(store, cron=None, every=timedelta(seconds=2), starts_at=starts, ends_at=ends)  # the next one is after it
    await until(store, "select true from job_definitions where ends_at + interval '1.1 s' < clock_timestamp()")
    await add(store, cron="0 0 1 1 *")
    assert await rows(store, "select true from all_runs") == []


async def test_a_tick_that_a_removal_recorded_is_not_made_again(store: MaintenanceStore):
    await add(store)
    await make_ticks(store)
    await rows(store, "update job_definitions set next_run_at = date_trunc('minute', now())")
    async with store.conn.transaction():
        await wakeboard.unschedule(store.conn, "team/a")
        await add(store, payload={"new": True})
    await make_ticks(store)
    assert await rows(store, "select reason from all_runs") == [("ScheduleRemoved",)]


async def test_a_plan_from_before_an_edit_has_no_effect(store: MaintenanceStore):
    await add(store, catch_up="All")
    await make_ticks(store)
    await rows(store, "update job_definitions set next_run_at = date_trunc('minute', now()) - interval '3 min'")
    await rows(store, "insert into pauses (scope) values ('all')")
    plans = [plan_ticks(due, timedelta(hours=1)) for due in await calls.filter_due_definitions(store, [1])]
    await add(store, catch_up="All", payload={"new": True})
    assert (await calls.enqueue_due_ticks(store, plans)).definitions == 0


async def test_two_edits_within_a_second_leave_the_due_tick_to_the_first(store: MaintenanceStore):
    """SQL computes it: no time between the edits can have had a tick."""
    await add(store, cron=None, every=timedelta(days=300))
    await make_ticks(store)
    await until(store, "select true where extract(microseconds from clock_timestamp())::int % 1000000 < 300000")
    for version, every in enumerate(("every 200d", "every 100d", "every 2s")):
        await rows(store, "update job_definitions set payload = %s, schedule = %s", f'{{"v": {version}}}', every)
    await until(store, "select true from job_definitions where next_run_at + interval '2.1 s' < clock_timestamp()")
    await rows(store, "update job_definitions set payload = '{}'")
    assert await runs(store, columns="payload") == [{"v": 2}]
