"""Never more runs of a limit key at once than its limit, however many workers claim."""

from __future__ import annotations

from typing import TYPE_CHECKING

import psycopg
import pytest

if TYPE_CHECKING:
    from tests.store.sql_clients import SqlClient

pytestmark = pytest.mark.every_postgres


def test_a_limit_key_without_a_limit_lets_one_run_at_once(
    admin: SqlClient, worker: SqlClient, other: SqlClient
) -> None:
    first, second = admin.enqueue(limit_key="printer"), admin.enqueue(limit_key="printer")
    assert worker.claim() == []
    (lease,) = worker.claim_limited("printer")
    assert lease.id == first
    assert admin.run(first).holds_slot
    assert other.claim_limited("printer") == []
    worker.complete(lease)
    assert [lease.id for lease in other.claim_limited("printer")] == [second]


def test_a_limit_of_zero_starts_no_run(admin: SqlClient, worker: SqlClient) -> None:
    admin.enqueue(limit_key="printer")
    admin.sql("select set_limit('printer', 0)")
    assert worker.claim_limited("printer") == []
    with pytest.raises(psycopg.errors.InvalidParameterValue, match="a limit is -1"):
        admin.sql("select set_limit('printer', -1)")


@pytest.mark.parametrize("end", ["complete", "fail", "release", "discarded", "lapse", "cancel"])
def test_however_a_run_ends_its_slot_is_free(admin: SqlClient, worker: SqlClient, end: str) -> None:
    run = admin.enqueue(limit_key="printer")
    (lease,) = worker.claim_limited("printer")
    match end:
        case "discarded":
            worker.fail(lease, outcome="discarded")
        case "lapse":
            admin.let_lapse(run)
            admin.reap()
        case "cancel":
            admin.cancel(run)
            worker.release(lease)
        case _:
            getattr(worker, end)(lease)
    assert admin.value("select count(*) from job_runs where holds_slot") == 0
    admin.enqueue(limit_key="printer", priority=5)
    assert len(worker.claim_limited("printer")) == 1


def test_a_lapsed_lease_holds_its_slot_until_it_is_taken_back(
    admin: SqlClient, worker: SqlClient, other: SqlClient
) -> None:
    """Its worker may be at work still."""
    run = admin.enqueue(limit_key="printer")
    worker.claim_limited("printer")
    admin.let_lapse(run)
    admin.enqueue(limit_key="printer")
    assert other.claim_limited("printer") == []


def test_limited_runs_are_claimed_by_priority_then_time_but_one_in_twenty(admin: SqlClient, worker: SqlClient) -> None:
    in_order = 0
    for _ in range(20):
        low = admin.enqueue(limit_key="printer", priority=1, run_at="2020-01-01 00:00Z")
        late = admin.enqueue(limit_key="printer", priority=5, run_at="2021-01-01 00:00Z")
        early = admin.enqueue(limit_key="printer", priority=5, run_at="2020-01-02 00:00Z")
        order: list[int] = []
        for _ in range(3):
            (lease,) = worker.claim_limited("printer", by_chance=True)
            worker.complete(lease)
            order.append(lease.id)
        assert order.index(early) < order.index(late)
        in_order += order == [early, late, low]
    assert in_order >= 10  # 18 on average: by chance, one claim in twenty serves the oldest run first


def test_no_more_are_leased_than_asked_for(admin: SqlClient, worker: SqlClient) -> None:
    for key in "abc":
        admin.enqueue(limit_key=key)
        admin.enqueue(limit_key=key)
    assert len(worker.claim_limited(count=2)) == 2
    assert len(worker.claim_limited()) == 1


def test_a_worker_serves_the_keys_in_turn(admin: SqlClient, worker: SqlClient) -> None:
    for key in ("c", "a", "b", "a"):
        admin.enqueue(limit_key=key)
    admin.enqueue(limit_key="elsewhere", queue="elsewhere")
    admin.enqueue()
    keys = "select due_limit_keys('{default}', %s, 2)"
    assert worker.column(keys, "") == ["a", "b"]
    assert worker.column(keys, "b") == ["c"]
    assert worker.column(keys, "c") == []
    assert worker.column("select due_limit_keys('{default, elsewhere}')") == ["a", "b", "c", "elsewhere"]


def test_a_key_whose_runs_all_execute_is_not_due(admin: SqlClient, worker: SqlClient) -> None:
    admin.enqueue(limit_key="a")
    worker.claim_limited("a")
    assert worker.column("select due_limit_keys('{default}')") == []


def test_keys_that_another_worker_has_locked_are_skipped(admin: SqlClient, worker: SqlClient, other: SqlClient) -> None:
    for key in "ab":
        admin.enqueue(limit_key=key)
    worker.complete(*worker.claim_limited())
    for key in "ab":
        admin.enqueue(limit_key=key)
    with worker.conn.transaction():
        assert len(worker.claim_limited("a")) == 1
        assert [admin.run(lease.id).limit_key for lease in other.claim_limited("a", "b")] == ["b"]


def test_a_slot_is_a_fact_of_the_row(admin: SqlClient) -> None:
    admin.enqueue()
    with pytest.raises(psycopg.errors.CheckViolation, match="only_a_limited_run_with_a_lease_holds_a_slot"):
        admin.sql("update job_runs set holds_slot = true")
