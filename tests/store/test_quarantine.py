"""A run that was running at two crashes is quarantined: it runs alone."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tests.store.sql_clients import SqlClient


def quarantined(admin: SqlClient, **named: Any) -> int:
    """A run that has crashed twice."""
    run = admin.enqueue(**named)
    admin.crashed(run, 2)
    return run


def test_the_quarantined_run_that_has_waited_longest_is_claimed_first(admin: SqlClient, worker: SqlClient) -> None:
    quarantined(admin, priority=5)
    oldest = quarantined(admin, run_at="2020-01-01 00:00Z", priority=1)
    assert (
        str(worker.value("select quarantined_since('{default}', '{ping}') at time zone 'UTC'")) == "2020-01-01 00:00:00"
    )
    assert [lease.id for lease in worker.claim_quarantined()] == [oldest]


def test_a_quarantined_run_whose_limit_is_locked_is_skipped(
    admin: SqlClient, worker: SqlClient, other: SqlClient
) -> None:
    quarantined(admin, limit_key="one", run_at="2020-01-01 00:00Z")
    free = quarantined(admin)
    admin.sql("insert into job_limits (key) values ('one')")
    with other.conn.transaction():
        other.claim_limited("one")
        assert [lease.id for lease in worker.claim_quarantined()] == [free]


def test_a_quarantined_run_is_claimed_after_its_limit_was_deleted(admin: SqlClient, worker: SqlClient) -> None:
    run = admin.enqueue(limit_key="printer")
    admin.crashed(run, 2)
    assert admin.value("select count(*) from job_limits") == 0
    assert [lease.id for lease in worker.claim_quarantined()] == [run]
    assert admin.value("select max_running from job_limits where key = 'printer'") == 1
