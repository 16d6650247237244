"""Claims by age: the runs that have been due for longest come first, whatever their priority."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from tests.store.sql_clients import SqlClient

pytestmark = pytest.mark.every_postgres


def test_the_oldest_run_goes_first_whatever_its_priority(admin: SqlClient, worker: SqlClient) -> None:
    runs = [
        admin.enqueue(priority=priority, run_at=f"2020-01-0{day} 00:00Z")
        for day, priority in enumerate([2, 5, 1, 3, 4, 1, 5], start=1)
    ]
    assert [lease.id for _ in range(7) for lease in worker.claim_oldest(1)] == runs


def test_it_takes_no_more_than_asked_and_what_others_may_take_stays(admin: SqlClient, worker: SqlClient) -> None:
    old = [admin.enqueue(priority=1, run_at="2020-01-01 00:00Z") for _ in range(3)]
    for named in ({"run_at": "2999-01-01 00:00Z"}, {"queue": "elsewhere"}, {"limit_key": "k"}):
        admin.enqueue(**named)
    admin.enqueue("unknown")
    admin.crashed(admin.enqueue(), 2)
    assert {lease.id for lease in worker.claim_oldest(2)} == set(old[:2])
    assert {lease.id for lease in worker.claim_oldest(9)} == set(old[2:])


def test_claims_by_age_at_once_share_the_runs_and_neither_waits(
    admin: SqlClient, worker: SqlClient, other: SqlClient
) -> None:
    runs = {admin.enqueue(priority=number % 5 + 1) for number in range(10)}
    with worker.conn.transaction():
        mine = {lease.id for lease in worker.claim_oldest(5)}
        theirs = {lease.id for lease in other.claim_oldest(100)}
    assert len(mine) == 5
    assert theirs == runs - mine


def test_a_pause_stops_claims_by_age(admin: SqlClient, worker: SqlClient) -> None:
    admin.enqueue()
    admin.value("select pause('queue:default')")
    assert worker.claim_oldest() == []


def test_it_looks_at_a_bounded_number_of_rows_of_all_priorities_together(admin: SqlClient, worker: SqlClient) -> None:
    admin.sql(
        "insert into job_runs (job_type, priority, run_at)"
        " select 'unknown', n %% 5 + 1, %s from generate_series(1, 25) as n",
        "2020-01-01 00:00Z",
    )
    run = admin.enqueue(priority=1)
    assert worker.claim_oldest(scan_limit=25) == []
    assert [lease.id for lease in worker.claim_oldest(scan_limit=26)] == [run]


def test_it_does_not_look_before_its_marks(admin: SqlClient, worker: SqlClient) -> None:
    runs = [admin.enqueue(run_at="2020-01-01 00:00Z") for _ in range(3)]
    assert {lease.id for lease in worker.claim_oldest(behind=("2020-01-01 00:00Z", runs[0]))} == set(runs[1:])


def test_claims_by_age_are_hot_updates(admin: SqlClient, worker: SqlClient) -> None:
    admin.sql(
        "insert into job_runs (job_type, priority) select 'ping', n %% 5 + 1 from generate_series(1, %s) as n", 500
    )
    with worker.conn.transaction():
        assert sum(len(worker.claim_oldest(50)) for _ in range(10)) == 500
        updated, hot = worker.sql(
            "select pg_stat_get_xact_tuples_updated(oid), pg_stat_get_xact_tuples_hot_updated(oid)"
            " from pg_class where oid = 'job_runs'::regclass"
        )[0]
    assert (updated, hot) == (500, 500)


@pytest.mark.parametrize("slots", [1, 3])
def test_one_start_in_twenty_of_a_limit_key_goes_to_its_oldest_run(
    admin: SqlClient, worker: SqlClient, slots: int
) -> None:
    """Runs of priority 5 never end. One in twenty: 50 of 1,000, and chance has its part."""
    worker.sql("select set_limit('k', %s)", slots)
    worker.sql("select setseed(0.5)")
    old = {admin.enqueue(priority=1, limit_key="k", run_at="2020-01-01 00:00Z") for _ in range(200)}
    started = 0
    for _ in range(1000 // slots):
        for _ in range(slots):
            admin.enqueue(priority=5, limit_key="k")
        leases = worker.claim_limited("k")
        started += len(old & {lease.id for lease in leases})
        for lease in leases:
            worker.complete(lease)
    assert 25 <= started <= 90


def test_each_limit_key_has_its_turn_when_there_is_room_for_one_run(admin: SqlClient, worker: SqlClient) -> None:
    keys = [f"key-{number}" for number in range(10)]
    for key in keys * 40:
        admin.enqueue(limit_key=key)
    served: list[str] = []
    for _ in range(150):
        (lease,) = worker.claim_limited(*keys, count=1)
        served.append(admin.run(lease.id).limit_key)
        worker.complete(lease)
    assert set(served) == set(keys)
