"""`report_worker_terminated`: a worker process has ended, and its runs are claimable at once."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from concurrent.futures import ThreadPoolExecutor

    from tests.store.sql_clients import SqlClient

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
def test_runs_of_a_crashed_process_are_claimable_and_count_a_crash(
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
def test_an_end_that_is_no_fault_counts_no_crash(
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


def test_waiting_workers_are_notified(admin: SqlClient, worker: SqlClient, other: SqlClient) -> None:
    admin.enqueue()
    worker.claim()
    other.sql("listen wakeboard")
    terminated(admin, worker)
    assert [notice.channel for notice in other.conn.notifies(timeout=30, stop_after=1)] == ["wakeboard"]


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


# -- locked rows and slices --------------------------------------------------------------------------------------------


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
