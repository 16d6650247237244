"""Ticks that others still wait for outlive the retention of the history: a dead run or a quarter may last longer."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.store.dependencies import MONDAY, TUESDAY, after, days, die, lease, made, pass_on, succeed, tick

if TYPE_CHECKING:
    from tests.store.sql_clients import SqlClient

SUNDAY = "2026-01-04 00:00+00"


def expire(admin: SqlClient, age: str = "40 days") -> None:
    """Lets the retention of the history pass for all that has happened."""
    admin.sql("update schedule_ticks set recorded_at = recorded_at - %s::interval", age)
    admin.sql("truncate job_run_history")
    admin.sql("select delete_expired(always => true)")


def joined(admin: SqlClient, worker: SqlClient, child: int, at: str, since: str, *parent_ticks: str) -> int:
    """Answers `joins_to_check` for one tick of a child of `hourly`, as maintenance does; the number of runs."""
    hourly = admin.value("select id from job_definitions where name = 'hourly'")
    return worker.value(
        "select enqueue_joined_ticks(%s, %s::timestamptz[], %s::timestamptz[], %s, %s, %s::timestamptz[])",
        *([child], [at], [since], [1] * len(parent_ticks), [hourly] * len(parent_ticks), list(parent_ticks)),
    )


@pytest.fixture
def close(admin: SqlClient) -> tuple[int, int, int]:
    """Schedules daily and hourly, and close, which needs all ticks of hourly."""
    daily, hourly, child = admin.define("daily"), admin.define("hourly"), admin.define("close")
    after(admin, child, "daily")
    admin.sql(
        "insert into schedule_dependencies (definition_id, place, parent_name, parent_id, outcome, ticks)"
        " values (%s, 2, 'hourly', %s, 'Succeeded', 'All')",
        *(child, hourly),
    )
    admin.sql("update job_definitions set has_dependents = true where id = %s", hourly)
    return daily, hourly, child


def test_a_join_may_span_more_than_the_retention_of_the_history(
    admin: SqlClient, worker: SqlClient, close: tuple[int, int, int]
):
    daily, hourly, child = close
    succeed(worker, tick(admin, hourly, MONDAY))
    pass_on(worker)
    expire(admin)
    succeed(worker, tick(admin, daily, TUESDAY), tick(admin, hourly, TUESDAY))
    pass_on(worker)
    assert joined(admin, worker, child, TUESDAY, SUNDAY, MONDAY, TUESDAY) == 1
    (run,) = lease(worker, *[id_ for id_, _ in made(admin, child)])
    results = worker.value("select run_results(%s, %s, %s)", worker.worker_id, run.id, run.epoch)
    assert [len(results[1])] == [2], "the result of the first tick is gone, its place is not"


def test_ticks_that_were_joined_expire(admin: SqlClient, worker: SqlClient, close: tuple[int, int, int]):
    daily, hourly, child = close
    succeed(worker, tick(admin, daily, MONDAY), tick(admin, hourly, MONDAY))
    pass_on(worker)
    joined(admin, worker, child, MONDAY, SUNDAY, MONDAY)
    succeed(worker, *[id_ for id_, _ in made(admin, child)])
    expire(admin)
    assert admin.value("select count(*) from schedule_ticks") == 0


def test_a_paused_schedule_gets_its_runs_after_the_retention(admin: SqlClient, worker: SqlClient):
    parent, child = admin.define("parent"), admin.define("child")
    after(admin, child, "parent")
    admin.sql("select pause(%s)", f"schedule:{child}")
    succeed(worker, tick(admin, parent))
    pass_on(worker)
    expire(admin)
    admin.sql("select resume(%s)", f"schedule:{child}")
    pass_on(worker)
    assert days(admin, child) == ["Mon"]


def test_a_run_dead_beyond_the_retention_continues_its_tick(admin: SqlClient, worker: SqlClient):
    extract, rates, transform = admin.define("extract"), admin.define("rates"), admin.define("transform")
    after(admin, transform, "extract", "rates")
    dead = tick(admin, extract)
    die(worker, dead)
    succeed(worker, tick(admin, rates))
    pass_on(worker)
    expire(admin)
    admin.sql("select retry(%s)", [dead])
    succeed(worker, dead)
    pass_on(worker)
    assert days(admin, transform) == ["Mon"]
    succeed(worker, *[id_ for id_, _ in made(admin, transform)])
    expire(admin)
    assert admin.value("select count(*) from schedule_ticks") == 0


def test_a_tick_that_waits_expires_with_the_audit_log(admin: SqlClient, worker: SqlClient):
    parent, child = admin.define("parent"), admin.define("child")
    after(admin, child, "parent")
    admin.sql("select pause(%s)", f"schedule:{child}")
    succeed(worker, tick(admin, parent))
    pass_on(worker)
    expire(admin, "401 days")
    assert admin.value("select count(*) from schedule_ticks") == 0
