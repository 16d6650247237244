"""A schedule runs after others: each tick becomes one run, in whatever order the runs of its parents end."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.store.dependencies import MONDAY, TUESDAY, after, days, pass_on, succeed, tick

if TYPE_CHECKING:
    from tests.store.sql_clients import SqlClient


@pytest.fixture
def pipeline(admin: SqlClient) -> tuple[int, int, int]:
    """Schedules extract and rates, and transform after both."""
    extract, rates, transform = admin.define("extract"), admin.define("rates"), admin.define("transform")
    after(admin, transform, "extract", "rates")
    return extract, rates, transform


def test_two_callers_at_the_ends_of_two_parents_create_the_run(
    admin: SqlClient, worker: SqlClient, other: SqlClient, pipeline: tuple[int, int, int]
):
    extract, rates, transform = pipeline
    first, second = tick(admin, extract), tick(admin, rates)
    succeed(worker, first)
    with other.conn.transaction():
        assert pass_on(other).ended == 1
        succeed(worker, second)
        assert pass_on(worker).ended == 0  # the child is locked
    assert pass_on(worker).runs == 1
    assert days(admin, transform) == ["Mon"]


def test_ticks_that_wait_for_a_locked_schedule_stop_no_other_ones(
    admin: SqlClient, worker: SqlClient, other: SqlClient
):
    extract, first, second = admin.define("extract"), admin.define("first"), admin.define("second")
    for child in (first, second):
        after(admin, child, "extract")
        admin.sql("select pause(%s)", f"schedule:{child}")
    succeed(worker, tick(admin, extract, MONDAY), tick(admin, extract, TUESDAY))
    pass_on(worker)
    for child in (first, second):
        admin.sql("select resume(%s)", f"schedule:{child}")
    with other.conn.transaction():
        other.sql("select from job_definitions where id = %s for update", first)
        assert [admin.value("select runs from enqueue_dependents(1)") for _ in range(3)] == [1, 1, 0]
    assert [admin.value("select runs from enqueue_dependents(2)") for _ in range(2)] == [2, 0]
    assert days(admin, first) == days(admin, second) == ["Mon", "Tue"]


@pytest.mark.parametrize("policy", ["Allow", "Forbid", "Replace", "Queue"])
def test_of_several_ready_ticks_the_newest_is_the_probe(admin: SqlClient, worker: SqlClient, policy: str):
    extract, transform = admin.define("extract"), admin.define("transform", policy, suspend_after_dead=1)
    after(admin, transform, "extract")
    waiting = admin.value("select id from run_now(%s)", transform) if policy == "Replace" else None
    admin.sql(
        "update job_definitions set circuit_opened_at = now() - interval '1 h', circuit_probes = 0,"
        " circuit_probe_at = now() + interval '1 s', dead_counted_from = now() where id = %s",
        transform,
    )
    succeed(worker, tick(admin, extract, MONDAY))
    done = pass_on(worker)
    assert (done.runs, done.skipped) == (0, 1)
    assert waiting is None or admin.status(waiting) == "queued", "a tick that is skipped replaces nothing"
    admin.sql("update job_definitions set circuit_probe_at = now() where id = %s", transform)
    for day in ("2026-01-06 00:00+00", "2026-01-07 00:00+00"):
        succeed(worker, tick(admin, extract, day))
    done = pass_on(worker)
    assert (done.runs, done.skipped) == (1, 1)
    assert admin.column(
        "select to_char(scheduled_for at time zone 'UTC', 'Dy') from job_runs where definition_id = %s", transform
    ) == ["Wed"]
    assert waiting is None or admin.status(waiting) == "cancelled"


def test_nothing_is_noted_while_nothing_waits(admin: SqlClient, worker: SqlClient):
    succeed(worker, tick(admin, admin.define("extract")), admin.enqueue())
    assert admin.value("select count(*) from ended_runs") == 0


def test_the_ticks_of_a_paused_schedule_are_not_read_again_and_again(admin: SqlClient, worker: SqlClient):
    transform = admin.define("transform")
    after(admin, transform, "extract")
    admin.sql("select pause(%s)", f"schedule:{transform}")
    admin.sql(
        "insert into schedule_ticks (definition_id, scheduled_for, waits_for)"
        " select %s, '2026-01-01'::timestamptz + minute * interval '1 minute', 'run'"
        " from generate_series(1, 5000) as minute",
        transform,
    )
    reads = "select idx_tup_fetch + seq_tup_read from pg_stat_xact_user_tables where relid = 'schedule_ticks'::regclass"
    with worker.conn.transaction():
        worker.sql("select * from enqueue_dependents(100)")
        assert worker.value(reads) < 200
