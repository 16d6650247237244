"""A write under a lease names the worker and the lease epoch; a write with any other pair is refused."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from tests.store.sql_clients import SqlClient


# -- completing --------------------------------------------------------------------------------------------------------


def test_an_empty_batch_is_nothing(worker: SqlClient) -> None:
    assert [worker.complete(), worker.fail(), worker.release(), worker.renew()] == [[], [], [], {}]


# -- renewing ----------------------------------------------------------------------------------------------------------


def test_a_heartbeat_without_runs_keeps_the_worker_registered(admin: SqlClient, worker: SqlClient) -> None:
    worker.register()
    admin.sql("update workers set last_seen = now() - interval '1 h'")
    assert worker.renew() == {}
    assert admin.value("select last_seen > now() - interval '1 s' from workers")


def test_a_heartbeat_carries_the_real_start_and_the_progress(admin: SqlClient, worker: SqlClient) -> None:
    run = admin.enqueue()
    (lease,) = worker.claim()
    worker.renew(lease, age_s=30.0, progress=0.25)
    worker.renew(lease, age_s=31.0)
    row = admin.sql("select progress, extract(epoch from now() - started_at)::float as age from job_runs")[0]
    assert row.progress == 0.25
    assert 31 <= row.age < 32
    assert admin.status(run) == "running"


def test_no_heartbeat_extends_a_lease_beyond_the_runs_timeout_and_ten_seconds(
    admin: SqlClient, worker: SqlClient
) -> None:
    admin.enqueue(timeout_s=20)
    (lease,) = worker.claim()
    for age_s in (0.0, 15.0, 25.0):
        assert worker.renew(lease, age_s=age_s, lease_s=600) == {}
        row = admin.sql("select extract(epoch from locked_until - started_at)::float as held from job_runs")[0]
        assert row.held == 30
    worker.renew(lease, age_s=31.0)
    assert worker.renew(lease) == {lease.id: "refused"}


def test_the_timeout_counts_from_the_real_start(admin: SqlClient, worker: SqlClient) -> None:
    """A run that has waited in its worker for a place has its whole timeout before it."""
    admin.enqueue(timeout_s=20)
    (lease,) = worker.claim()
    admin.sql("update job_runs set started_at = now() - interval '25 s'")
    assert worker.renew(lease, age_s=None, lease_s=600) == {}
    assert admin.value("select extract(epoch from locked_until - now())::float from job_runs") > 29


def test_a_row_locked_by_another_transaction_is_busy_and_not_lost(
    admin: SqlClient, worker: SqlClient, other: SqlClient
) -> None:
    run, free = admin.enqueue(), admin.enqueue()
    leases = worker.claim(lease_s=2)
    with other.conn.transaction():
        other.sql("select from job_runs where id = %s for share", run)
        assert worker.renew(*leases) == {run: "busy"}
    assert worker.renew(*leases) == {}
    assert admin.status(free) == "running"


# -- registering -------------------------------------------------------------------------------------------------------


def test_a_worker_registers_once_with_its_job_types(admin: SqlClient, worker: SqlClient) -> None:
    assert worker.register(name="ann") is True
    assert worker.register(name="ann") is True
    assert admin.sql("select name, queues, lease_s from workers") == [("ann", ["default"], 60)]
    assert admin.sql("select job_type, queue, pool from worker_types") == [("ping", "default", "default")]
    worker.sql("select deregister_worker(%s)", worker.worker_id)
    assert admin.value("select count(*) from workers") == 0
    assert admin.value("select count(*) from worker_types") == 1


@pytest.mark.parametrize(
    "end", ["select deregister_worker(%s)", "update workers set last_seen = '-infinity' where worker_id = %s"]
)
def test_a_former_worker_keeps_its_name_as_long_as_history(admin: SqlClient, worker: SqlClient, end: str) -> None:
    worker.register(name="ann")
    admin.sql(end, worker.worker_id)
    admin.reap()
    assert admin.sql("select worker_id, name from past_workers") == [(worker.worker_id, "ann")]
    for days, kept in ((30 + 30, 1), (30 + 32, 0)):
        admin.sql("update past_workers set ended_at = now() - make_interval(days => %s)", days)
        admin.sql("select delete_expired(always => true)")
        assert admin.value("select count(*) from past_workers") == kept


def test_a_pool_takes_no_more_workers_than_it_may_have(worker: SqlClient, other: SqlClient) -> None:
    assert worker.register(max_workers=1) is True
    assert other.register(max_workers=1) is False
    assert other.register(pool="another", max_workers=1) is True
    assert worker.register(max_workers=1) is True  # it is there already
    worker.sql("update workers set last_seen = now() - interval '31 s'")
    assert other.register(max_workers=1) is True


def test_a_heartbeat_reports_that_its_worker_is_not_registered(admin: SqlClient, worker: SqlClient) -> None:
    beat = "select id, answer from renew(%s, 60, '{}', '{}', '{}', '{}')"
    worker.register()
    assert worker.sql(beat, worker.worker_id) == []
    admin.sql("delete from workers")
    assert [tuple(row) for row in worker.sql(beat, worker.worker_id)] == [(0, "unregistered")]
