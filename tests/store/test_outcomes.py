"""A failed attempt is retried, makes its run dead, or is given back. The answer to the worker is always true."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from tests.store.sql_clients import SqlClient

DAY_S = 86_400


def waits_s(admin: SqlClient, run: int) -> float:
    """Seconds until its next try."""
    return admin.value("select extract(epoch from run_at - now())::float from job_runs where id = %s", run)


# -- times -------------------------------------------------------------------------------------------------------------

TOOK = (
    "select extract(epoch from started_at - {began})::float as began,"
    " extract(epoch from {ended} - started_at)::float as took"
)


@pytest.mark.parametrize("how", ["complete", "complete for others", "fail", "release"])
@pytest.mark.parametrize(
    ("ages", "began_s", "took_s"),
    [((80.0, 30.0), 20, 50), ((900.0, -5.0), 0, 100), ((1.0, 2000.0), 99, 0)],
    ids=["measured", "longer than the lease", "ended before it began"],
)
def test_the_times_of_an_attempt_are_those_of_its_handler(
    admin: SqlClient, worker: SqlClient, how: str, ages: tuple[float, float], began_s: int, took_s: int
) -> None:
    """It was claimed 100 s ago. No report is believed that contradicts the claim or the database's clock."""
    run = admin.enqueue(run_at="2026-01-01")
    if how == "complete for others":
        admin.enqueue(after=[run])
    (lease,) = worker.claim()
    admin.sql("update job_runs set started_at = now() - interval '100 s' where id = %s", run)
    claimed_at = admin.run(run).started_at
    report = {"fail": worker.fail, "release": worker.release}.get(how, worker.complete)
    assert report(lease, ages=ages) == []
    table, ended, key = (
        ("job_run_history", "finished_at", "id") if "complete" in how else ("job_attempts", "ended_at", "run_id")
    )
    query = TOOK.format(began="%s::timestamptz", ended=ended) + f" from {table} where {key} = %s"
    began, took = admin.sql(query, claimed_at, run)[0]
    assert (began, took) == (pytest.approx(began_s, abs=2), pytest.approx(took_s, abs=2))


# -- failing -----------------------------------------------------------------------------------------------------------


def test_a_failed_attempt_is_retried_after_its_backoff(admin: SqlClient, worker: SqlClient) -> None:
    run = admin.enqueue(backoff_base_s=100)
    (lease,) = worker.claim()
    assert worker.fail(lease, error_type="KeyError", error="no such customer") == []
    row = admin.run(run)
    assert (row.status, row.attempts, row.locked_by, row.error_type, row.last_error, row.last_stack) == (
        *("failed", 1, 0, "KeyError", "no such customer", "stack"),
    )
    assert 49 < waits_s(admin, run) <= 100
    assert worker.claim() == []
    (attempt,) = admin.sql("select * from job_attempts")
    assert (
        attempt.run_id,
        attempt.lease_epoch,
        attempt.attempt,
        attempt.outcome,
        attempt.error,
        attempt.locked_by,
    ) == (*(*lease, 1, "failed", "no such customer", worker.worker_id),)


@pytest.mark.parametrize("delay_s", [float("inf"), 1e30])
def test_an_infinite_delay_is_31_days_and_affects_no_other_run(
    admin: SqlClient, worker: SqlClient, delay_s: float
) -> None:
    failing, released = admin.enqueue(), admin.enqueue()
    leases = {lease.id: lease for lease in worker.claim()}
    assert worker.fail(leases[failing], delay_s=delay_s) == []
    assert worker.release(leases[released], delay_s=delay_s) == []
    assert waits_s(admin, failing) == pytest.approx(31 * DAY_S, abs=60)
    assert waits_s(admin, released) == pytest.approx(31 * DAY_S, abs=60)


def test_a_negative_delay_is_none(admin: SqlClient, worker: SqlClient) -> None:
    run = admin.enqueue()
    worker.fail(*worker.claim(), delay_s=-5.0)
    worker.release(worker.claims(run), delay_s=-5.0)
    assert -2 < waits_s(admin, run) <= 0


def test_long_errors_are_cut(admin: SqlClient, worker: SqlClient) -> None:
    run = admin.enqueue()
    worker.fail(*worker.claim(), error_type="E" * 999, error="x" * 500_000)
    row = admin.run(run)
    assert (len(row.error_type), len(row.last_error)) == (200, 2000)


def test_a_run_named_twice_in_a_batch_fails_once(admin: SqlClient, worker: SqlClient) -> None:
    run = admin.enqueue()
    (lease,) = worker.claim()
    assert worker.fail(lease, lease) == []
    assert admin.attempts(run) == ["failed"]


# -- backoff -----------------------------------------------------------------------------------------------------------


BACKOFFS = [
    ("exponential", 10, 3600, 1, 10),
    ("exponential", 10, 3600, 2, 20),
    ("exponential", 10, 3600, 9, 2560),
    ("exponential", 10, 3600, 10, 3600),
    ("exponential", 10, 3600, 1000, 3600),
    ("exponential", 2_678_400, 2_678_400, 1000, 2_678_400),
    ("fixed", 30, 3600, 7, 30),
    ("fixed", 7200, 3600, 1, 3600),
]


def test_the_backoff_doubles_to_its_cap_and_half_is_random(admin: SqlClient) -> None:
    query = "select extract(epoch from backoff(%s::backoff_strategy, %s, %s, %s))::float from generate_series(1, 200)"
    for *arguments, longest_s in BACKOFFS:
        seconds = admin.column(query, *arguments)
        assert longest_s / 2 <= min(seconds) < longest_s * 0.55, arguments
        assert longest_s * 0.95 < max(seconds) <= longest_s, arguments


@pytest.mark.parametrize("reason", ["worker_stopped", "snoozed"])
def test_a_repeated_release_is_accepted_after_the_next_claim(
    admin: SqlClient, worker: SqlClient, other: SqlClient, reason: str
) -> None:
    """Its first answer was lost."""
    admin.enqueue()
    (lease,) = worker.claim()
    assert worker.release(lease, reason=reason) == []
    (later,) = other.claim()
    assert worker.release(lease, reason=reason) == []
    assert other.release(lease, reason=reason) == [lease.id], "it never had this lease"
    assert other.complete(later) == []
