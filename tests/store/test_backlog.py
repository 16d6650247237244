"""The backlog that autoscalers read: what executes, what is due, and what becomes due while a pod starts."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tests.store.sql_clients import SqlClient

TICK: dict[str, Any] = {"schedule": "0 8 * * *", "cron_fields": "-"}


def backlog(client: SqlClient, within_s: float = 60, queue: str = "default", **named: Any) -> tuple[int, int, int]:
    """Runs that execute or are due, runs that become due within this time, and ticks."""
    arguments = "".join(f", {name} => %s" for name in named)
    (row,) = client.sql(f"select due, soon, ticks from backlog(%s, %s{arguments})", [queue], within_s, *named.values())
    return tuple(row)


def ticks_in(client: SqlClient, seconds: float, name: str = "report", **columns: Any) -> int:
    """A schedule whose next tick is this far away."""
    schedule = client.define(name, **{**TICK, **columns})
    client.sql(
        "update job_definitions set next_run_at = now() + make_interval(secs => %s) where id = %s", seconds, schedule
    )
    return schedule


def test_a_tick_counts_from_the_lead_time_on(admin: SqlClient) -> None:
    """A pod that needs a minute to start is there when the tick is due."""
    ticks_in(admin, 45)
    assert backlog(admin, 30) == (0, 0, 0)
    assert backlog(admin, 60) == (0, 0, 1)


def test_a_tick_that_is_due_and_not_enqueued_yet_counts(admin: SqlClient) -> None:
    ticks_in(admin, -5)
    assert backlog(admin, 0) == (0, 0, 1)


def test_runs_that_are_due_soon_count_from_the_lead_time_on(admin: SqlClient) -> None:
    admin.enqueue()
    run = admin.enqueue()
    admin.sql("update job_runs set run_at = now() + interval '45 s' where id = %s", run)
    assert backlog(admin, 30) == (1, 0, 0)
    assert backlog(admin, 60) == (1, 1, 0)


def test_a_run_counts_until_its_end_so_that_its_worker_stays(admin: SqlClient, worker: SqlClient) -> None:
    admin.enqueue()
    admin.enqueue(limit_key="printer")
    worker.register()
    (free,) = worker.claim()
    (limited,) = worker.claim_limited()
    assert backlog(admin) == (2, 0, 0)
    admin.sql("select pause('queue:default', 'night')")
    assert backlog(admin) == (2, 0, 0)
    worker.complete(free)
    worker.complete(limited)
    assert backlog(admin) == (0, 0, 0)


def test_runs_that_wait_for_a_slot_count_up_to_the_free_slots(admin: SqlClient, worker: SqlClient) -> None:
    for _ in range(5):
        admin.enqueue(limit_key="printer")
    assert backlog(admin) == (1, 0, 0)
    admin.sql("select set_limit('printer', 3)")
    assert backlog(admin) == (3, 0, 0)
    worker.register()
    assert len(worker.claim_limited(count=2)) == 2
    assert backlog(admin) == (3, 0, 0)  # two execute, and one may start


def test_runs_behind_a_rate_count_up_to_the_free_units(admin: SqlClient, worker: SqlClient) -> None:
    """An autoscaler does not start a worker for each run of a key that starts one each hour."""
    for _ in range(9):
        admin.enqueue(limit_key="api")
    admin.sql("select set_rate_limit('api', 1, 3600, 2)")
    assert backlog(admin) == (3, 0, 0)  # two units, and a part of one
    admin.sql("select set_rate_limit('api', 6, 60, 1)")
    assert backlog(admin) == (7, 0, 0)
    admin.sql("select set_rate_limit('api', 100, 1, 1)")
    assert backlog(admin) == (9, 0, 0)
    admin.sql("update job_limits set paused_until = now() + interval '2 hours'")
    assert backlog(admin) == (0, 0, 0)
    admin.sql("update job_limits set paused_until = now() + interval '2 days'")  # the clock was set back
    assert backlog(admin) == (9, 0, 0)


def test_what_no_worker_of_the_pool_may_claim_is_left_out(admin: SqlClient, worker: SqlClient) -> None:
    dead = admin.enqueue(max_attempts=1)
    worker.register()
    worker.fail(worker.claims(dead))
    long = admin.enqueue()
    admin.sql("update job_runs set timeout_s = 7200 where id = %s", long)
    admin.enqueue(queue="mail")
    ticks_in(admin, 10, "long", timeout_s=7200)
    ticks_in(admin, 10, "suspended", suspended=True)
    ticks_in(admin, 10, "mail", queue="mail")
    paused = ticks_in(admin, 10, "paused")
    admin.sql("select pause(%s, 'why')", f"schedule:{paused}")
    assert backlog(admin, max_timeout_s=3600) == (0, 0, 0)
    assert backlog(admin, max_timeout_s=7200) == (1, 0, 1)
    assert backlog(admin, queue="mail") == (1, 0, 1)


def test_the_cost_is_bounded_and_larger_numbers_are_lower_bounds(admin: SqlClient) -> None:
    admin.sql("insert into job_runs (job_type, priority) select 'ping', 1 + n % 2 from generate_series(1, 100) as n")
    for number in range(20):
        ticks_in(admin, 10, f"s{number}")
    assert backlog(admin, scan_limit=10) == (20, 0, 10)
    assert backlog(admin) == (100, 0, 20)


def test_the_pool_is_there_before_eight_and_gone_at_night(admin: SqlClient, worker: SqlClient) -> None:
    """A day of a pool with a lead time of 60 seconds and 10 runs per worker, in the arithmetic of an autoscaler."""

    def workers() -> int:
        return -(-sum(backlog(admin, 60)) // 10)

    schedules = [ticks_in(admin, 3600, f"s{number}") for number in range(25)]
    assert workers() == 0
    admin.sql("update job_definitions set next_run_at = now() + interval '50 s'")
    assert workers() == 3
    admin.sql("update job_definitions set next_run_at = now() + interval '1 day'")
    for schedule in schedules:
        admin.sql("select run_now(%s)", schedule)
    assert workers() == 3
    worker.register()
    leases = worker.claim(100)
    assert workers() == 3
    worker.complete(*leases)
    assert workers() == 0


def test_runs_behind_a_shared_key_count_as_many_as_can_start(admin: SqlClient, worker: SqlClient) -> None:
    """The keys of two schedules and of three backfills have the slots of one limitKey together."""
    worker.register()
    ticks = [datetime(2026, 1, day, 8, tzinfo=UTC) for day in (1, 2, 3)]
    for number, policy in enumerate(("Queue", "Queue", "Allow")):
        schedule = admin.define(f"s{number}", policy, **TICK, limit_key="printer")
        declared = "select create_backfill(%s, %s::timestamptz[], %s, '2026-02-01', at_once => 3)"
        admin.sql(declared, schedule, ticks, ticks[0])
    for slots, expected in ((1, 1), (2, 2), (4, 4), (9, 5)):
        admin.sql("select set_limit('printer', %s)", slots)
        counted = backlog(admin)
        while worker.claim_limited():
            pass
        assert admin.value("select count(*) from job_runs where holds_slot") == expected
        assert counted == (expected, 0, 0)
