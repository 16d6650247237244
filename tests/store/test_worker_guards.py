"""A worker cannot destroy history, schedules, keys or dead runs, whatever arguments it passes to its functions."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import psycopg
import pytest

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.store.sql_clients import SqlClient

SHORT = [
    "null",
    "'0'",
    "'-1 day'",
    "'1 second'",
    "'-12000 months 360001 days'",
    "'-12000 months 361000 days'",
    "'-400 days'",
]


def old_week(admin: SqlClient, weeks: int) -> str:
    name, begin = admin.sql(
        'select to_char(week, \'"job_run_history_"IYYY"w"IW\'), week::text from (select'
        " date_trunc('week', now() at time zone 'UTC') - make_interval(weeks => %s)) as past (week)",
        weeks,
    )[0]
    admin.sql(
        f"create table {name} partition of job_run_history"
        f" for values from ('{begin}+00') to (timestamptz '{begin}+00' + interval '7 days')"
    )
    return name


@pytest.mark.parametrize("retention", SHORT)
def test_history_keys_and_dead_runs_are_kept_for_their_retention(
    admin: SqlClient, worker: SqlClient, retention: str
) -> None:
    young, old = old_week(admin, 3), old_week(admin, 9)
    dead = admin.enqueue()
    admin.sql("update job_runs set status = 'dead', dead_at = now() - interval '300 days'")
    admin.sql("select enqueue('ping', idempotency_key => 'k')")
    admin.sql("delete from job_runs where idempotency_key = 'k'")
    admin.sql("update job_keys set created_at = now() - interval '6 days'")
    admin.sql(
        "insert into job_steps (run_id, name, lease_epoch, started_at) values (-1, 'a', 1, now() - interval '29 days')"
    )
    assert worker.value(f"select drop_partitions({retention})") == 1
    assert worker.value(f"select delete_expired({retention}, {retention}, {retention}, 100000, true)") == 0
    kept = "select to_regclass('wakeboard.' || name)::text from unnest(%s::text[]) as name"
    assert admin.column(kept, [young, old]) == [young, None]
    assert admin.value("select count(*) from pg_inherits where inhparent = 'job_run_history'::regclass") == 8
    assert admin.status(dead) == "dead"
    assert admin.column("select key from job_keys") == ["k"]
    assert admin.column("select name from job_steps") == ["a"]


def test_a_worker_may_keep_more_and_the_operator_less(admin: SqlClient, worker: SqlClient) -> None:
    old = old_week(admin, 3)
    assert worker.value("select drop_partitions('90 days')") == 0
    admin.sql("select set_retention('10 days', '3 days', '20 days')")
    assert worker.value("select drop_partitions('30 days')") == 0
    assert worker.value("select drop_partitions('1 day')") == 1
    assert admin.value("select to_regclass(%s)", old) is None
    admin.enqueue()
    admin.sql("update job_runs set status = 'dead', dead_at = now() - interval '21 days'")
    assert worker.value("select delete_expired(always => true)") == 1


@pytest.mark.parametrize(
    "values", ["'6 days', '7 days'", "'0', '0'", "'-12000 months 360001 days', '0'", "'30 days', '7 days', '0'"]
)
def test_an_invalid_retention_is_refused(admin: SqlClient, values: str) -> None:
    with pytest.raises(psycopg.errors.IntegrityError):
        admin.sql(f"select set_retention({values})")


def test_no_lease_holds_for_more_than_an_hour(admin: SqlClient, worker: SqlClient) -> None:
    run = admin.enqueue(timeout_s=86_400)
    work = "'{default}', '{ping}', 10"
    for longer in (f"fetch_runs({worker.worker_id}, 3601, {work})", "renew(71, 3601, '{1}', '{1}', '{1}', '{null}')"):
        with pytest.raises(psycopg.Error, match="lease_s is 3601; write a number of seconds from 1 to 3600"):
            worker.sql(f"select * from {longer}")
    ((epoch,), _) = worker.sql(f"select lease_epoch from fetch_runs({worker.worker_id}, 3600, {work})")
    within = "select locked_until <= now() + interval '1 hour' from job_runs where id = %s"
    assert admin.value(within, run)
    worker.sql("select renew(%s, 3600, %s, %s, '{1}', '{null}')", worker.worker_id, [run], [epoch])
    assert admin.value(within, run)


def test_a_lease_of_a_clock_that_was_ahead_holds_from_now(
    admin: SqlClient, open_client: Callable[[int], SqlClient]
) -> None:
    """The clock of the database was an hour ahead and is set back."""
    dead = open_client(81)
    dead.register()
    run = admin.enqueue(timeout_s=86_400)
    dead.claim()
    admin.sql(
        "update job_runs set locked_until = now() + interval '1 hour 1 minute', started_at = now() + interval '1 hour'"
    )
    admin.sql("update workers set last_seen = now() + interval '1 hour'")
    admin.sql(
        "update installation set reap_started_at = now() + interval '1 hour',"
        " reap_completed_at = now() + interval '1 hour'"
    )
    assert admin.reap(always=False) == (0, 0, 0, 0)
    assert admin.value("select locked_until between now() and now() + interval '1 minute' from job_runs")
    assert admin.value("select last_seen <= now() from workers")
    admin.sql("update job_runs set locked_until = now() - interval '1 s'")
    admin.sql("update workers set last_seen = now() - interval '5 minutes'")
    assert admin.reap() == (1, 0, 0, 0)
    assert admin.status(run) == "queued"


# What a client can read of a moment: the years 1 to 9999. Postgres stores more, and one such row hid all others.
UNREADABLE = ["-infinity", "0044-03-15 BC", "1969-12-31 23:59+00"]


def due_schedule(admin: SqlClient) -> tuple[int, str]:
    return admin.sql(
        "insert into job_definitions (source, namespace, name, spec_hash, job_type, schedule, cron_fields, next_run_at)"
        " values ('s', 'team', 'x', 'h', 'ping', '@daily', '', now() - interval '1 minute')"
        " returning id, next_run_at::text"
    )[0]


def plan(worker: SqlClient, schedule: int, cursor: str, **given: str) -> list[Any]:
    """Makes one tick of a schedule and skips a stretch of others; what is not `given` is sound."""
    at = {
        "next_cursor": "now()",
        "up_to": "now()",
        "tick": "now()",
        "skip_from": "now()",
        "skip_until": "now()",
    } | given
    return worker.sql(
        "select * from enqueue_due_ticks("
        f"array[{schedule}], '{{1}}', '{{{cursor}}}', array[{at['next_cursor']}::timestamptz],"
        f" array[{at['up_to']}::timestamptz], array[{given.get('error', 'null')}::text],"
        f" array[{schedule}], array[{at['tick']}::timestamptz],"
        f" array[{schedule}], array[{at['skip_from']}::timestamptz], array[{at['skip_until']}::timestamptz],"
        f" array[{given.get('count', '1')}::bigint], array[{given.get('reason', 'null')}::text])"
    )


def test_no_tick_is_beyond_the_dates_that_clients_can_read(admin: SqlClient, worker: SqlClient) -> None:
    due = due_schedule(admin)
    for place in ("next_cursor", "up_to", "tick", "skip_from", "skip_until"):
        for moment in UNREADABLE:
            with pytest.raises(psycopg.Error, match="a tick is before 1970"):
                plan(worker, *due, **{place: f"'{moment}'"})


@pytest.mark.parametrize("count", ["-5", "0"])
def test_a_row_of_skipped_ticks_counts_at_least_one(admin: SqlClient, worker: SqlClient, count: str) -> None:
    with pytest.raises(psycopg.Error, match="a range of skipped ticks has no ticks"):
        plan(worker, *due_schedule(admin), count=count)


def test_the_fields_of_a_schedule_are_bounded(admin: SqlClient, worker: SqlClient) -> None:
    plan(worker, *due_schedule(admin), error="repeat('x', 100000)", reason="repeat('y', 100000)")
    assert admin.value("select length(schedule_error) from job_definitions") == 500
    assert admin.value("select length(reason) from job_run_history") == 100


@pytest.mark.parametrize("error", [None, "x"])
@pytest.mark.parametrize("next_cursor", ["null", "2040-01-01 00:00Z"])
def test_a_schedule_that_is_not_due_keeps_its_next_tick(
    admin: SqlClient, worker: SqlClient, next_cursor: str, error: str | None
) -> None:
    schedule, _ = due_schedule(admin)
    admin.sql("update job_definitions set next_run_at = now() + interval '1 hour'")
    state = "select next_run_at::text, last_tick_at::text, schedule_error from job_definitions"
    before = admin.sql(state)
    answer = worker.sql(
        "select * from enqueue_due_ticks(%s, '{1}', %s, %s, '{null}', %s, '{}', '{}', '{}', '{}', '{}', '{}', '{}')",
        *([schedule], f"{{{before[0][0]}}}", f"{{{next_cursor}}}", [error]),
    )
    assert answer == [(0, 0, 0, 0)]
    assert admin.sql(state) == before


def test_a_due_schedule_that_stalls_keeps_its_next_tick(admin: SqlClient, worker: SqlClient) -> None:
    schedule, cursor = due_schedule(admin)
    plan(worker, schedule, cursor, next_cursor="null", error="'x'")
    assert admin.sql("select next_run_at::text, schedule_error from job_definitions") == [(cursor, "x")]


@pytest.mark.parametrize("age", ["1e11", "'infinity'", "-1e30", "-5"])
def test_a_runs_start_and_progress_are_bounded(admin: SqlClient, worker: SqlClient, age: str) -> None:
    worker.register()
    run = admin.enqueue(timeout_s=86_400)
    (lease,) = worker.claim(1)
    worker.sql(
        f"select renew(%s, 60, %s, %s, array[{age}::real], array[{age}::real])",
        *(worker.worker_id, [lease.id], [lease.epoch]),
    )
    assert admin.value(
        "select started_at between now() - interval '33 days' and now() from job_runs where id = %s", run
    )
    assert admin.value("select progress between 0 and 1 from job_runs where id = %s", run)


def test_a_heartbeat_that_knows_of_no_start_leaves_it_open(admin: SqlClient, worker: SqlClient) -> None:
    worker.register()
    admin.enqueue()
    (lease,) = worker.claim(1)
    worker.renew(lease)
    assert admin.sql("select started_epoch, progress from job_runs") == [(None, None)]


@pytest.mark.parametrize(
    "result",
    ["(repeat('[', 3000) || repeat(']', 3000))::jsonb", "repeat('9', 9000)::jsonb", "to_jsonb(repeat('x', 3000000))"],
)
def test_a_result_that_no_client_can_read_is_stored_as_text(admin: SqlClient, worker: SqlClient, result: str) -> None:
    worker.register()
    run = admin.enqueue()
    (lease,) = worker.claim(1)
    query = f"select complete(%s, %s, %s, jsonb_build_object(%s::text, {result}))"
    assert worker.sql(query, worker.worker_id, [lease.id], [lease.epoch], str(run)) == []
    stored = admin.value("select result from job_run_history where id = %s", run)
    assert isinstance(stored, str)
    assert len(stored) <= 8000


def test_results_within_the_bounds_stay_what_they_are(admin: SqlClient, worker: SqlClient) -> None:
    worker.register()
    for result in ([1, {"a": None}], 2**63, -1.25e-7, "text", None, [list(range(1000))]):
        run = admin.enqueue()
        (lease,) = worker.claim(1)
        assert worker.complete(lease, results={str(run): result}) == []
        assert admin.value("select result from job_run_history where id = %s", run) == result


def test_a_step_that_could_not_be_read_again_is_refused(admin: SqlClient, worker: SqlClient) -> None:
    worker.register()
    admin.enqueue()
    (lease,) = worker.claim(1)
    query = "select step(%s, %s, %s, 'a', %s::text::jsonb)"
    with pytest.raises(psycopg.Error, match="more than 32 levels"):
        worker.sql(query, worker.worker_id, *lease, "[" * 200 + "]" * 200)
    with pytest.raises(psycopg.Error, match=r"takes \d+ bytes, more than 1 MiB \(1048576\); return ids"):
        worker.sql(query, worker.worker_id, *lease, '"' + "x" * 2_000_000 + '"')
    assert worker.sql(query, worker.worker_id, *lease, "[" * 32 + "]" * 32)
