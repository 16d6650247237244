"""Lapsed leases are taken back by `reap` alone, which judges whether a worker died or a run took too long."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tests.store.sql_clients import SqlClient

EXPIRED = (
    "its lease expired: its worker crashed, hung or lost the database, or another transaction kept the run's row locked"
)


def silent(admin: SqlClient, worker: SqlClient, seconds: float) -> None:
    """The worker was seen for the last time so long ago."""
    admin.sql(
        "update workers set last_seen = now() - make_interval(secs => %s) where worker_id = %s",
        seconds,
        worker.worker_id,
    )


def ran(admin: SqlClient, run: int, *, since_s: float, lapsed_s: float = 1.0) -> None:
    """It started so long ago, and its lease lapsed."""
    admin.sql(
        "update job_runs set started_at = now() - make_interval(secs => %s),"
        " locked_until = now() - make_interval(secs => %s) where id = %s",
        *(since_s, lapsed_s, run),
    )


def seconds_pass(admin: SqlClient, seconds: float) -> None:
    """Moves the times of the last full reap into the past."""
    admin.sql(
        "update installation set reap_started_at = reap_started_at - make_interval(secs => %s),"
        " reap_completed_at = reap_completed_at - make_interval(secs => %s),"
        " reap_skipped_at = reap_skipped_at - make_interval(secs => %s)",
        *(seconds, seconds, seconds),
    )


# -- crashes -----------------------------------------------------------------------------------------------------------


def test_a_crash_within_a_short_timeout_is_a_crash(admin: SqlClient, worker: SqlClient) -> None:
    """Its lease was bounded by its timeout from the start, so that only the worker's silence tells what happened."""
    run = admin.enqueue(timeout_s=5)
    worker.register(lease_s=60)
    worker.claim(lease_s=60)
    ran(admin, run, since_s=61, lapsed_s=46)
    silent(admin, worker, 61)
    assert admin.reap(always=False) == (1, 0, 0, 0)
    assert admin.attempts(run) == ["crashed"]


def test_a_lost_lease_of_a_container_is_a_release_and_no_crash(
    admin: SqlClient, worker: SqlClient, other: SqlClient
) -> None:
    """The container runs in another pod, so the run did not cause the loss, and waits in no quarantine."""
    run = admin.enqueue("job", max_attempts=2)
    row = admin.run(run)
    due = row.run_at
    other.sql("listen wakeboard")
    for loss in range(1, 7):
        assert worker.claim(types=["job"])
        admin.let_lapse(run)
        assert admin.reap() == (0, 0, int(loss == 6), 0)
        row = admin.run(run)
        assert (row.attempts, row.crash_count, row.release_count) == (max(0, loss - 4), 0, loss)
        assert (row.run_at, row.locked_by, row.error_type) == (due, 0, None if loss < 6 else "ReleasedTooOften")
    assert row.last_error == "its workers stopped too often before it could finish"
    assert admin.attempts(run) == ["released"] * 6
    assert admin.value("select error from job_attempts limit 1") == EXPIRED
    assert (
        len(list(other.conn.notifies(timeout=30, stop_after=5))) == 5
    )  # waiting workers claim it at once, until it is dead


# -- timeouts ----------------------------------------------------------------------------------------------------------


def test_a_run_that_took_too_long_is_a_failed_attempt(admin: SqlClient, worker: SqlClient) -> None:
    run = admin.enqueue(timeout_s=20, backoff_base_s=100)
    worker.register()
    worker.claim()
    ran(admin, run, since_s=31)
    worker.renew()
    assert admin.reap() == (0, 1, 0, 0)
    row = admin.run(run)
    assert (row.status, row.attempts, row.crash_count, row.error_type) == ("failed", 1, 0, "Timeout")
    assert row.last_error == "it ran longer than its timeout of 20 s"
    assert 48 < admin.value("select extract(epoch from run_at - now())::float from job_runs") <= 100
    assert admin.attempts(run) == ["timed_out"]


def test_a_cause_still_unknown_is_decided_by_the_next_heartbeat(admin: SqlClient, worker: SqlClient) -> None:
    """The worker was seen before the timeout, and not since; it may live or not."""
    for alive in (True, False):
        run = admin.enqueue(timeout_s=5)
        worker.register(lease_s=60)
        worker.claim(lease_s=60)
        ran(admin, run, since_s=16)
        silent(admin, worker, 14)
        assert admin.reap() == (0, 0, 0, 0)
        if alive:
            worker.renew()
        else:
            ran(admin, run, since_s=40)
            silent(admin, worker, 38)
        assert admin.reap() == ((0, 1, 0, 0) if alive else (1, 0, 0, 0))


# -- full reaps --------------------------------------------------------------------------------------------------------


def test_a_full_reap_starts_each_minute_or_after_a_lease_without_heartbeat(admin: SqlClient, worker: SqlClient) -> None:
    run = admin.enqueue()
    worker.register(lease_s=60)
    worker.claim()
    assert admin.reap(always=False) == (0, 0, 0, 0)
    ran(admin, run, since_s=1)
    seconds_pass(admin, 5)
    assert admin.reap(always=False) == (0, 0, 0, 0)
    silent(admin, worker, 61)
    assert admin.reap(always=False) == (1, 0, 0, 0)

    worker.claim()
    ran(admin, run, since_s=1)
    admin.sql("delete from workers")
    seconds_pass(admin, 5)
    assert admin.reap(always=False) == (0, 0, 0, 0)
    seconds_pass(admin, 56)
    assert admin.reap(always=False) == (1, 0, 0, 0)


def test_concurrent_reapers_start_one_full_reap_a_second(admin: SqlClient, worker: SqlClient, other: SqlClient) -> None:
    run = admin.enqueue()
    worker.register(lease_s=60)
    worker.claim()
    silent(admin, worker, 61)
    assert admin.reap(always=False) == (0, 0, 0, 0)
    ran(admin, run, since_s=1)
    assert other.reap(always=False) == (0, 0, 0, 0)
    seconds_pass(admin, 1)
    assert other.reap(always=False) == (1, 0, 0, 0)


def test_a_full_reap_is_done_in_batches(admin: SqlClient, worker: SqlClient) -> None:
    runs = [admin.enqueue() for _ in range(5)]
    worker.claim()
    admin.let_lapse(*runs)
    slices = [admin.sql("select * from reap(%s, 2, true)", after)[0] for after in (0, runs[1], runs[3], runs[4])]
    assert [(found.next_id, found.crashed) for found in slices] == [(runs[1], 2), (runs[3], 2), (runs[4], 1), (None, 0)]


def test_a_worker_without_heartbeats_is_deregistered(admin: SqlClient, worker: SqlClient, other: SqlClient) -> None:
    worker.register(lease_s=60)
    other.register(lease_s=60)
    silent(admin, worker, 121)
    silent(admin, other, 119)
    admin.reap(always=False)
    assert admin.column("select worker_id from workers") == [other.worker_id]


def test_a_full_reap_that_skipped_an_expired_lease_is_repeated(
    admin: SqlClient, worker: SqlClient, other: SqlClient
) -> None:
    run = admin.enqueue()
    worker.register(lease_s=60)
    [lease] = worker.claim()
    ran(admin, run, since_s=1)
    silent(admin, worker, 121)
    with worker.conn.transaction():
        worker.once(lease, "charge")
        assert other.reap(always=False) == (0, 0, 0, 0)
        assert admin.column("select worker_id from workers") == []
        seconds_pass(admin, 5)
        assert other.reap(always=False) == (0, 0, 0, 0)
    seconds_pass(admin, 5)
    assert other.reap(always=False) == (1, 0, 0, 0)
    assert admin.value("select reap_completed_at = reap_started_at from installation")


def test_an_interrupted_full_reap_is_repeated(admin: SqlClient, worker: SqlClient, other: SqlClient) -> None:
    runs = [admin.enqueue() for _ in range(3)]
    worker.claim()
    for run in runs:
        ran(admin, run, since_s=1)
    assert other.sql("select crashed from reap(0, 2)")[0].crashed == 2
    seconds_pass(admin, 5)
    assert other.reap(always=False) == (1, 0, 0, 0)


def test_an_earlier_full_reap_does_not_deregister_a_worker(
    admin: SqlClient, worker: SqlClient, other: SqlClient
) -> None:
    run = admin.enqueue()
    worker.register(name="ann", lease_s=60)
    worker.claim()
    silent(admin, worker, 119)
    first_slice = other.sql("select next_id from reap(0)")[0].next_id
    ran(admin, run, since_s=1)
    silent(admin, worker, 121)
    seconds_pass(admin, 5)
    other.sql("select reap(%s)", first_slice)
    assert admin.column("select worker_id from workers") == [worker.worker_id]
    assert other.reap(always=False) == (1, 0, 0, 0)
    assert admin.column("select worker from job_attempts") == ["ann"]
