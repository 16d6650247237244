"""What a schedule expects of its ticks: which ticks miss their success, and who says so."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, Final
from uuid import UUID

import pytest

import wakeboard
from tests.schedules.schedules import HOUR, MINUTE, declared, put, rows
from wakeboard.alerts.evaluate import run_alerts
from wakeboard.alerts.rules.alert_rules import AlertSpec
from wakeboard.health.findings import findings
from wakeboard.health.queries.facts import read_health
from wakeboard.schedules import calls
from wakeboard.views.queries.schedule_list import schedule_health
from wakeboard.views.queries.schedule_situation import read_schedule_situation
from wakeboard.views.queries.schedule_state import schedule_states
from wakeboard.views.rules.schedule_explanation import explain_schedule

if TYPE_CHECKING:
    from collections.abc import Sequence

    from wakeboard.engine.maintenance_api import MaintenanceStore

pytestmark = pytest.mark.anyio

NOW: Final = timedelta()


def tick(ago: timedelta, status: str = "queued", **columns: Any) -> dict[str, Any]:
    """A run of the tick `ago`, created with the tick. Times are so long ago."""
    return {"scheduled_for": ago, "created_at": ago, "status": status, **columns}


FINISHED: Final = {
    **dict.fromkeys(("run_at", "started_at", "finished_at"), NOW),
    **dict.fromkeys(("id", "locked_by", "lease_epoch", "attempts", "max_attempts", "crash_count", "release_count"), 1),
    **dict.fromkeys(("backoff_base_s", "backoff_cap_s", "timeout_s", "priority"), 1),
    "uuid": str(UUID(int=1)),
    "backoff_strategy": "fixed",
    "queue": "default",
    "payload": "{}",
}
LATE: Final = tick(3 * MINUTE)

# Name of the schedule, its options beside expect_success_within_s, its runs; whether it misses its success.
CASES: Final[dict[str, tuple[dict[str, Any], Sequence[dict[str, Any]], bool]]] = {
    "waits": ({}, [LATE], True),
    "dead": ({}, [tick(HOUR, "dead")], True),
    "in-time": ({}, [tick(MINUTE)], False),
    "skipped": ({}, [], False),
    "succeeded": ({}, [tick(HOUR, "succeeded")], False),
    "newer-succeeded": ({}, [tick(HOUR, "dead"), tick(3 * MINUTE, "succeeded")], False),
    "older-succeeded": ({}, [tick(HOUR, "succeeded"), LATE], True),
    "manual-succeeded": ({}, [tick(HOUR, "dead"), tick(3 * MINUTE, "succeeded", trigger="manual")], True),
    "manual": ({}, [tick(HOUR, "dead", trigger="manual")], False),
    "backfill": ({}, [tick(HOUR, "dead", trigger="backfill")], False),
    "created-late": ({}, [tick(HOUR, created_at=NOW)], False),
    "older-than-the-expectation": ({}, [tick(3 * HOUR, "dead")], False),
    "paused": ({}, [LATE], False),
    "suspended": ({"suspended": True}, [LATE], False),
    "one-of-two": ({"alert_after_missed": 2}, [LATE], False),
    "two-in-a-row": ({"alert_after_missed": 2}, [tick(HOUR, "dead"), LATE], True),
    "two-not-in-a-row": (
        {"alert_after_missed": 2},
        [tick(HOUR, "dead"), tick(HOUR / 2, "succeeded"), LATE],
        False,
    ),
    "expects-nothing": ({"expect_success_within_s": None, "alert_after_missed": None}, [LATE], False),
}


async def add(store: MaintenanceStore, name: str, runs: Sequence[dict[str, Any]] = (), **options: Any) -> int:
    """A schedule of an application, as if it had been created two hours ago, and runs of it."""
    given: dict[str, Any] = {"cron": "0 0 1 1 *", "expect_success_within_s": 120, **options}
    made = await wakeboard.schedule(store.conn, f"team/{name}", "ping", **given)
    await rows(
        store,
        "update job_definitions set success_expected_from = success_expected_from - interval '2 h' where id = %s",
        made.id,
    )
    await rows(store, "set session_replication_role = replica")  # no trigger refuses these columns
    for run in runs:
        succeeded = run["status"] == "succeeded"
        named = {"definition_id": made.id, "job_type": "ping", "trigger": "tick", **run}
        named |= FINISHED if succeeded else {"dead_at": NOW} if run["status"] == "dead" else {}
        query = f"insert into {'job_run_history' if succeeded else 'job_runs'} ({', '.join(named)}) values"
        present = datetime.now(UTC)
        values = [present - value if isinstance(value, timedelta) else value for value in named.values()]
        await rows(store, f"{query} ({', '.join(['%s'] * len(named))})", *values)
    await rows(store, "set session_replication_role = origin")
    return made.id


async def missing(store: MaintenanceStore) -> set[str]:
    """The schedules that miss their success, after each was looked at."""
    await rows(store, "update job_definitions set success_due_at = now() where success_due_at is not null")
    assert not await calls.update_expectations(store)
    return {
        name for (name,) in await rows(store, "select name from job_definitions where success_missed_at is not null")
    }


async def test_ticks_in_a_row_without_success_in_time_are_missed(store: MaintenanceStore) -> None:
    for name, (options, runs, _) in CASES.items():
        await add(store, name, runs, **options)
    await wakeboard.pause_schedules(store.conn, "team/paused")
    assert await missing(store) == {name for name, (_, _, is_missed) in CASES.items() if is_missed}
    assert await rows(store, "select name from job_definitions where success_due_at <= now()") == [("suspended",)]


@pytest.mark.parametrize("scope", ["all", "queue:default", "schedule:{}"])
async def test_a_pause_holds_an_expectation_that_no_pass_reads(store: MaintenanceStore, scope: str) -> None:
    schedule = await add(store, "a", [LATE])
    scope = scope.format(schedule)
    await rows(store, "select pause(%s)", scope)
    assert await missing(store) == set()
    await rows(store, "select resume(%s)", scope)
    assert not await calls.update_expectations(store)
    assert await rows(store, "select id from job_definitions where success_missed_at is not null") == [(schedule,)]


async def test_a_missed_success_is_reported_until_a_tick_succeeds(store: MaintenanceStore) -> None:
    schedule = await add(store, "report", [LATE])
    assert await missing(store) == {"report"}
    team = AlertSpec.model_validate(
        {"rules": [], "receivers": [{"name": "team", "slack": {"url": "http://a.example"}}]}
    )
    await run_alerts(store, team)
    assert await rows(store, "select rule, summary, examples from alerts") == [
        ("success-missed", "1 schedule had no success in time", ["team/report"])
    ]
    assert await rows(store, "select payload ->> 'receiver' from job_runs where job_type = 'wakeboard.alert'") == [
        ("team",)
    ]
    situation = await read_schedule_situation(store.conn, schedule)
    assert situation is not None
    (fact,) = [fact for fact in explain_schedule(situation) if fact.name == "success_missed"]
    assert fact.before == "It expects a success within 2m of each tick. It has missed this since"
    assert (await schedule_health(store.conn, [schedule]))[schedule].health == "failing"
    (state,) = await schedule_states(store.conn, [schedule])
    assert state.success_missed_at == fact.moment
    said = [found.message for found in findings(await read_health(store.conn))]
    assert "1 schedule had no success in time (expectSuccessWithinSeconds), for example team/report." in said
    await rows(store, "delete from job_runs where definition_id = %s", schedule)
    assert await missing(store) == set()


async def test_ticks_of_a_schedule_after_others_are_expected_to_succeed(store: MaintenanceStore) -> None:
    await put(
        store,
        declared("first"),
        declared("then", schedule=None, after=[{"schedule": "first"}], expectSuccessWithinSeconds=120),
    )
    await rows(store, "select run_now(id) from job_definitions where name = 'first'")
    await rows(store, "update job_runs set trigger = 'tick'")
    await rows(store, "update job_definitions set success_due_at = null where name = 'then'")
    await rows(
        store,
        "select insert_dependent_runs(array[id], array[now()], array[nextval('job_runs_id_seq')])"
        " from job_definitions where name = 'then'",
    )
    assert await rows(store, "select success_due_at > now() from job_definitions where name = 'then'") == [(True,)]
