"""`report_worker_terminated`: a worker process has ended, and its runs are claimable at once."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from collections.abc import Callable
    from concurrent.futures import ThreadPoolExecutor

    from tests.store.sql_clients import SqlClient

pytestmark = pytest.mark.every_postgres

NODE_LOW = "The node was low on resource: memory"
DISRUPTIONS = ("Evicted", "Preempted", "NodeShutdown", "Drained", "Deleted")


def terminated(client: SqlClient, worker: SqlClient, cause: str = "OOMKilled", *more: str) -> tuple[Any, ...]:
    """Released, crashed, dead, cancelled, skipped. `more`: detail, pod."""
    places = ", %s" * len(more)
    query = f"select * from report_worker_terminated(%s, %s{places})"
    next_id, *found = client.sql(query, worker.worker_id, cause, *more)[0]
    assert next_id is None
    return tuple(found)


@pytest.fixture(autouse=True)
def _registered(worker: SqlClient, other: SqlClient) -> None:
    worker.register(name="ann")
    other.register(name="bob")


# -- what happens to the runs ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("cause", "detail", "error"), [("OOMKilled", "", "OOMKilled"), ("Error", "exit code 1", "Error, exit code 1")]
)
def test_the_runs_of_a_crashed_process_are_claimable_at_once_and_have_one_crash_more(
    admin: SqlClient, worker: SqlClient, other: SqlClient, cause: str, detail: str, error: str
) -> None:
    run = admin.enqueue()
    (lease,) = worker.claim()
    assert terminated(admin, worker, cause, detail, "pod-1") == (0, 1, 0, 0, 0)
    row = admin.run(run)
    assert (row.status, row.attempts, row.crash_count, row.locked_by) == ("queued", 0, 1, 0)
    assert row.lease_epoch > lease.epoch
    assert (row.error_type, row.last_error) == ("WorkerCrashed", f"its worker was terminated: {error} (crash 1 of 3)")
    (attempt,) = admin.sql("select * from job_attempts")
    assert (attempt.outcome, attempt.error, attempt.cause, attempt.pod) == ("crashed", error, cause, "pod-1")
    assert (attempt.lease_epoch, attempt.locked_by, attempt.worker) == (lease.epoch, worker.worker_id, "ann")
    assert [lease.id for lease in other.claim()] == [run]


@pytest.mark.parametrize(
    ("job_type", "cause"), [*(("ping", cause) for cause in DISRUPTIONS), ("job", "OOMKilled"), ("job", "Error")]
)
def test_an_end_that_is_not_the_runs_fault_gives_the_attempt_back_and_counts_no_crash(
    admin: SqlClient, worker: SqlClient, other: SqlClient, job_type: str, cause: str
) -> None:
    run = admin.enqueue(job_type)
    assert worker.claim(types=[job_type])
    assert terminated(admin, worker, cause, NODE_LOW) == (1, 0, 0, 0, 0)
    row = admin.run(run)
    assert (row.status, row.attempts, row.crash_count, row.release_count, row.last_error) == ("queued", 0, 0, 1, None)
    (attempt,) = admin.sql("select * from job_attempts")
    assert (attempt.outcome, attempt.error_type) == ("released", None)
    assert attempt.error in (f"{cause}: {NODE_LOW}", f"{cause}, {NODE_LOW}")
    assert (attempt.cause, attempt.pod) == (cause, None)
    assert [lease.id for lease in other.claim(types=[job_type])] == [run]


def test_runs_are_claimed_in_the_order_in_which_they_were_due(
    admin: SqlClient, worker: SqlClient, other: SqlClient
) -> None:
    first, urgent, last = (admin.enqueue(priority=priority) for priority in (3, 5, 3))
    worker.claim(2)
    assert terminated(admin, worker)[1] == 2
    assert [other.claim(1)[0].id for _ in range(3)] == [urgent, first, last]


def test_waiting_workers_are_notified(admin: SqlClient, worker: SqlClient, other: SqlClient) -> None:
    admin.enqueue()
    worker.claim()
    other.sql("listen wakeboard")
    terminated(admin, worker)
    assert [notice.channel for notice in other.conn.notifies(timeout=30, stop_after=1)] == ["wakeboard"]


def test_the_slot_of_a_limit_is_free_at_once(admin: SqlClient, worker: SqlClient, other: SqlClient) -> None:
    first, second = admin.enqueue(limit_key="printer"), admin.enqueue(limit_key="printer")
    assert [lease.id for lease in worker.claim_limited()] == [first]
    assert other.claim_limited() == []
    assert terminated(admin, worker)[1] == 1
    assert next(lease.id for lease in other.claim_limited()) in (first, second)


def test_the_second_crash_quarantines_a_run_and_the_third_one_makes_it_dead(
    admin: SqlClient, worker: SqlClient, other: SqlClient
) -> None:
    run = admin.enqueue()
    for crash in (1, 2, 3):
        assert worker.claim() if crash < 3 else worker.claim_quarantined()
        assert terminated(admin, worker) == (0, 1, int(crash == 3), 0, 0)
    assert other.claim() == other.claim_quarantined() == []
    row = admin.run(run)
    assert (row.status, row.crash_count, row.error_type) == ("dead", 3, "WorkerCrashed")
    assert row.last_error == "its worker was terminated: OOMKilled (crash 3 of 3)"
    assert admin.attempts(run) == ["crashed"] * 3


def test_from_the_fifth_disruption_on_each_costs_the_attempt(admin: SqlClient, worker: SqlClient) -> None:
    run = admin.enqueue(max_attempts=2)
    for disruption in range(1, 7):
        assert worker.claim()
        assert terminated(admin, worker, "Evicted") == (1, 0, int(disruption == 6), 0, 0)
        assert admin.run(run).attempts == max(0, disruption - 4)
    row = admin.run(run)
    assert (row.status, row.crash_count, row.release_count, row.error_type) == ("dead", 0, 6, "ReleasedTooOften")


def test_a_run_with_a_requested_cancellation_is_cancelled(admin: SqlClient, worker: SqlClient) -> None:
    run = admin.enqueue()
    worker.claim()
    admin.cancel(run)
    assert terminated(admin, worker, "Evicted") == (0, 0, 0, 1, 0)
    assert admin.past(run).status == "cancelled"
    assert admin.attempts(run) == ["released"]


def test_a_run_whose_handler_had_not_started_keeps_its_starting_deadline(admin: SqlClient, worker: SqlClient) -> None:
    waited, started = admin.enqueue(), admin.enqueue()
    leases = {lease.id: lease for lease in worker.claim()}
    admin.sql(
        "update job_runs set locked_until = locked_until - interval '1 s', started_at = started_at - interval '1 s'"
    )
    worker.renew(leases[waited])
    worker.renew(leases[started], age_s=1.0)
    terminated(admin, worker)
    assert [admin.run(run).started_epoch for run in (waited, started)] == [None, leases[started].epoch]
    assert admin.value("select started_at = 'epoch' from job_runs where id = %s", waited)


def test_an_expired_lease_is_taken_as_well(admin: SqlClient, worker: SqlClient) -> None:
    admin.enqueue()
    worker.claim()
    admin.sql("update job_runs set locked_until = now() - interval '1 s'")
    assert terminated(admin, worker) == (0, 1, 0, 0, 0)
    assert admin.reap() == (0, 0, 0, 0)


# -- what it leaves alone ----------------------------------------------------------------------------------------------


def test_a_second_report_of_the_same_process_changes_nothing(admin: SqlClient, worker: SqlClient) -> None:
    run = admin.enqueue()
    worker.claim()
    assert terminated(admin, worker) == (0, 1, 0, 0, 0)
    before = admin.run(run)
    assert terminated(admin, worker, "Evicted") == (0, 0, 0, 0, 0)
    assert admin.run(run) == before


def test_a_late_report_does_not_touch_a_run_that_another_process_has_claimed(
    admin: SqlClient, worker: SqlClient, other: SqlClient
) -> None:
    run = admin.enqueue()
    worker.claim()
    admin.sql("update job_runs set locked_until = now() - interval '1 s'")
    admin.reap()
    (lease,) = other.claim()
    assert terminated(admin, worker) == (0, 0, 0, 0, 0)
    assert other.complete(lease) == []
    assert admin.past(run).status == "succeeded"


def test_runs_of_other_workers_go_on(admin: SqlClient, worker: SqlClient, other: SqlClient) -> None:
    admin.enqueue()
    (mine,) = worker.claim()
    admin.enqueue()
    (others,) = other.claim()
    assert terminated(admin, worker)[1] == 1
    assert worker.complete(mine) == [mine.id]
    assert other.complete(others) == []


def test_a_worker_that_has_deregistered_has_nothing_to_revoke(admin: SqlClient, worker: SqlClient) -> None:
    admin.enqueue()
    worker.claim()
    worker.sql("select deregister_worker(%s)", worker.worker_id)
    assert terminated(admin, worker) == (0, 0, 0, 0, 0)


def test_nothing_that_a_terminated_process_sent_is_accepted_afterwards(admin: SqlClient, worker: SqlClient) -> None:
    run = admin.enqueue()
    (lease,) = worker.claim()
    terminated(admin, worker)
    assert worker.complete(lease) == worker.fail(lease) == worker.release(lease) == [run]
    assert worker.renew(lease) == {run: "refused"}


# -- locked rows and slices --------------------------------------------------------------------------------------------


def test_a_locked_run_is_skipped_and_other_runs_are_not(
    admin: SqlClient, worker: SqlClient, open_client: Callable[[int], SqlClient]
) -> None:
    runs = [admin.enqueue() for _ in range(3)]
    leases = worker.claim()
    admin.sql("set statement_timeout = '9s'")
    handler = open_client(worker.worker_id)
    with handler.conn.transaction():
        handler.once(leases[1], "charge")
        assert terminated(admin, worker) == (0, 2, 0, 0, 1)
    assert [admin.status(run) for run in runs] == ["queued", "running", "queued"]
    assert terminated(admin, worker) == (0, 1, 0, 0, 0)


def test_two_reports_at_once_count_a_crash_once(
    admin: SqlClient, worker: SqlClient, other: SqlClient, meanwhile: ThreadPoolExecutor
) -> None:
    run = admin.enqueue()
    worker.claim()
    with other.conn.transaction():
        assert terminated(other, worker) == (0, 1, 0, 0, 0)
        assert meanwhile.submit(terminated, admin, worker).result(30) == (0, 0, 0, 0, 1)
    assert terminated(admin, worker) == (0, 0, 0, 0, 0)
    assert admin.run(run).crash_count == 1


def test_a_large_table_is_read_in_slices(admin: SqlClient, worker: SqlClient) -> None:
    runs = [admin.enqueue() for _ in range(5)]
    worker.claim()
    query = "select next_id, crashed from report_worker_terminated(%s, 'Error', after_id => %s, slice => 2)"
    found = [tuple(admin.sql(query, worker.worker_id, after)[0]) for after in (0, runs[1], runs[3])]
    assert found == [(runs[1], 2), (runs[3], 2), (None, 1)]
