"""What counts as a crash: lost replies, runs that never started and outages do not."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.store.test_reaping import silent

if TYPE_CHECKING:
    from tests.store.sql_clients import Lease, SqlClient

LEASE_S = 60


def time_passes(admin: SqlClient, seconds: float) -> None:
    """For the leases and the workers, which are not seen meanwhile."""
    admin.sql(
        "update job_runs set started_at = started_at - %s * interval '1 s',"
        " locked_until = locked_until - %s * interval '1 s' where locked_by <> 0",
        *(seconds, seconds),
    )
    admin.sql(
        "update workers set last_seen = last_seen - %s * interval '1 s',"
        " heartbeats_since = heartbeats_since - %s * interval '1 s'",
        *(seconds, seconds),
    )


def beats(admin: SqlClient, worker: SqlClient, *leases: Lease, seconds: float, age_s: float | None = None) -> None:
    """The worker sends a heartbeat each quarter of a lease, and names these."""
    for _ in range(int(seconds / (LEASE_S / 4))):
        time_passes(admin, LEASE_S / 4)
        worker.renew(*leases, age_s=age_s)


def lost_answer(admin: SqlClient, worker: SqlClient) -> None:
    """A claim was made and its answer lost; the worker lives on until the lease has lapsed."""
    assert worker.claim()
    beats(admin, worker, seconds=LEASE_S)
    time_passes(admin, 1)


# -- lost answers ------------------------------------------------------------------------------------------------------


def test_a_lost_claim_reply_of_a_short_run_costs_no_attempt(admin: SqlClient, worker: SqlClient) -> None:
    run = admin.enqueue(timeout_s=5)
    worker.register(lease_s=LEASE_S)
    assert worker.claim()
    beats(admin, worker, seconds=LEASE_S / 4)
    time_passes(admin, 1)
    assert admin.reap() == (0, 0, 0, 0)
    assert admin.status(run) == "running"  # one more heartbeat tells
    beats(admin, worker, seconds=LEASE_S / 2)
    assert admin.reap() == (0, 0, 0, 0)
    assert (admin.run(run).status, admin.run(run).attempts) == ("queued", 0)


def test_a_worker_that_was_frozen_by_what_it_ran_has_crashed(admin: SqlClient, worker: SqlClient) -> None:
    """It is alive, but its heartbeats had a gap, so its leases during the gap are unknown."""
    run = admin.enqueue()
    worker.register(lease_s=LEASE_S)
    worker.claim()
    time_passes(admin, LEASE_S + 1)
    worker.renew()
    assert admin.reap() == (1, 0, 0, 0)
    assert admin.run(run).crash_count == 1


def test_a_worker_that_registers_again_counts_as_no_heartbeat(admin: SqlClient, worker: SqlClient) -> None:
    worker.register(lease_s=LEASE_S)
    admin.sql(
        "update workers set last_seen = last_seen - interval '1 s',"
        " heartbeats_since = heartbeats_since - interval '9 s'"
    )
    before = admin.sql("select last_seen, heartbeats_since from workers")
    worker.register(lease_s=LEASE_S)
    assert admin.sql("select last_seen, heartbeats_since from workers") == before
    admin.sql("update workers set last_seen = last_seen - %s * interval '1 s'", LEASE_S)
    worker.register(lease_s=LEASE_S)
    assert admin.value("select last_seen = heartbeats_since and last_seen > now() - interval '1 minute' from workers")


def test_a_run_missing_from_a_later_heartbeat_has_crashed(admin: SqlClient, worker: SqlClient) -> None:
    """Its handler started, and its outcome could not be reported. If that happens each time, the run must end."""
    run = admin.enqueue()
    worker.register(lease_s=LEASE_S)
    lease = worker.claims(run)
    worker.renew(lease, age_s=0.1)
    beats(admin, worker, seconds=LEASE_S)
    time_passes(admin, 1)
    assert admin.reap() == (1, 0, 0, 0)


def test_a_short_run_past_its_lease_has_timed_out(admin: SqlClient, worker: SqlClient) -> None:
    """The heartbeat that names it comes after the lease lapsed, and is refused."""
    run = admin.enqueue(timeout_s=1)
    worker.register(lease_s=LEASE_S)
    lease = worker.claims(run)
    time_passes(admin, LEASE_S / 4)
    assert worker.renew(lease, age_s=15.0) == {run: "refused"}
    assert admin.reap() == (0, 1, 0, 0)


# -- what never started ------------------------------------------------------------------------------------------------


def starts_before(admin: SqlClient, run: int, seconds: float) -> None:
    admin.sql("update job_runs set start_before = now() + %s * interval '1 s' where id = %s", seconds, run)


def test_a_run_released_unstarted_keeps_its_deadline(admin: SqlClient, worker: SqlClient) -> None:
    run = admin.enqueue()
    starts_before(admin, run, 60)
    assert worker.release(worker.claims(run), reason="not_started") == []
    assert admin.run(run).started_at.year == 1970
    starts_before(admin, run, -1)
    assert worker.claim() == []
    assert admin.value("select skip_past_deadline()") == 1


@pytest.mark.parametrize("reason", ["snoozed", "worker_stopped", "disconnected"])
def test_a_run_that_started_in_time_may_go_on_later(admin: SqlClient, worker: SqlClient, reason: str) -> None:
    run = admin.enqueue()
    starts_before(admin, run, 60)
    worker.release(worker.claims(run), reason=reason)
    worker.release(worker.claims(run), reason="not_started")
    starts_before(admin, run, -1)
    assert admin.value("select skip_past_deadline()") == 0
    assert worker.claims(run)


@pytest.mark.parametrize("crashed", [False, True], ids=["its claim was never answered", "its worker died"])
def test_a_run_that_did_not_start_in_its_worker_keeps_its_deadline(
    admin: SqlClient, worker: SqlClient, crashed: bool
) -> None:
    run = admin.enqueue()
    starts_before(admin, run, 60)
    worker.register(lease_s=LEASE_S)
    if crashed:
        beats(admin, worker, worker.claims(run), seconds=LEASE_S)
        time_passes(admin, LEASE_S + 1)
    else:
        lost_answer(admin, worker)
    assert admin.reap() == (int(crashed), 0, 0, 0)
    starts_before(admin, run, -1)
    assert admin.value("select skip_past_deadline()") == 1


# -- a board that was away ---------------------------------------------------------------------------------------------


def test_outages_that_a_worker_survived_are_no_crashes(admin: SqlClient, worker: SqlClient, other: SqlClient) -> None:
    """The first reap after the outage takes the leases back; the worker reports why it lost them."""
    run = admin.enqueue()
    worker.register(lease_s=LEASE_S)
    for outage in range(4):
        lease = worker.claims(run)
        worker.renew(lease, age_s=1.0)
        time_passes(admin, LEASE_S + 1)
        assert admin.reap() == (1, 0, 0, 0)
        assert worker.release(lease, reason="disconnected") == []
        row = admin.run(run)
        assert (row.status, row.crash_count, row.attempts, row.release_count) == ("queued", 0, 0, outage + 1)
    assert set(admin.attempts(run)) == {"released"}
    assert other.complete(other.claims(run)) == []


def test_a_crash_leaves_no_part_of_an_older_error(admin: SqlClient, worker: SqlClient) -> None:
    run = admin.enqueue()
    worker.register(lease_s=LEASE_S)
    worker.fail(worker.claims(run), delay_s=0)
    lease = worker.claims(run)
    worker.renew(lease, age_s=1.0)
    time_passes(admin, LEASE_S + 1)
    admin.reap()
    assert (admin.run(run).error_type, admin.run(run).last_stack) == ("WorkerCrashed", None)
    worker.release(lease, reason="disconnected")  # it was no crash
    assert (admin.run(run).error_type, admin.run(run).last_error) == (None, None)


def test_a_survived_outage_keeps_the_error_of_a_later_crash(
    admin: SqlClient, worker: SqlClient, other: SqlClient
) -> None:
    run = admin.enqueue()
    worker.register(lease_s=LEASE_S)
    survived = worker.claims(run)
    worker.renew(survived, age_s=1.0)
    time_passes(admin, LEASE_S + 1)
    admin.reap()
    other.claims(run)
    time_passes(admin, LEASE_S + 61)
    admin.reap()
    worker.release(survived, reason="disconnected")
    assert (admin.run(run).crash_count, admin.run(run).error_type) == (1, "WorkerCrashed")


def test_a_run_that_died_in_an_outage_is_queued_again(admin: SqlClient, worker: SqlClient) -> None:
    run = admin.enqueue()
    admin.sql("update job_runs set crash_count = 2")
    worker.register(lease_s=LEASE_S)
    (lease,) = worker.claim_quarantined()
    time_passes(admin, LEASE_S + 1)
    assert admin.reap() == (1, 0, 1, 0)
    assert worker.release(lease, reason="disconnected") == []
    assert (admin.run(run).status, admin.run(run).crash_count, admin.run(run).dead_at) == ("queued", 2, None)


def test_a_run_that_disconnects_its_workers_becomes_dead(admin: SqlClient, worker: SqlClient) -> None:
    run = admin.enqueue(max_attempts=1)
    worker.register(lease_s=LEASE_S)
    leases = 0
    while admin.status(run) != "dead":
        leases += 1
        (lease,) = worker.claim() or worker.claim_quarantined()
        time_passes(admin, LEASE_S + 1)
        admin.reap()
        worker.release(lease, reason="disconnected")
    assert leases < 10


def test_a_worker_without_heartbeats_uncounts_no_crash(admin: SqlClient, worker: SqlClient) -> None:
    run = admin.enqueue()
    worker.register(lease_s=LEASE_S)
    lease = worker.claims(run)
    silent(admin, worker, LEASE_S + 1)
    time_passes(admin, LEASE_S + 1)
    admin.reap()
    assert worker.release(lease, reason="worker_stopped") == [run]
    assert admin.run(run).crash_count == 1


# -- what is reported --------------------------------------------------------------------------------------------------


def test_of_a_run_that_snoozes_for_days_the_last_fifty_are_kept(admin: SqlClient, worker: SqlClient) -> None:
    run = admin.enqueue()
    for _ in range(60):
        worker.release(worker.claims(run), reason="snoozed")
    assert admin.value("select count(*) from job_attempts") <= 51
