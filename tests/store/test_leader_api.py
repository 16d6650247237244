"""One operator leads a source; no write of an old term follows the start of a new one."""

from __future__ import annotations

from typing import TYPE_CHECKING

import psycopg
import pytest

if TYPE_CHECKING:
    from concurrent.futures import ThreadPoolExecutor

    from tests.store.sql_clients import SqlClient

LAPSE = "update leadership set expires_at = now() - interval '1 ms'"


def lead(client: SqlClient, holder: str, lease_s: int = 15) -> tuple[int, bool, str]:
    (row,) = client.sql("select * from acquire_leadership('k8s:one', %s, '1.0', %s)", holder, lease_s)
    return row.term, row.is_leader, row.leader


def acts(client: SqlClient, term: int) -> bool:
    try:
        client.sql("select require_leadership('k8s:one', %s)", term)
    except psycopg.DatabaseError as error:
        if error.sqlstate != "WB004":
            raise
        return False
    return True


def test_the_first_operator_acquires_and_keeps_the_leadership(admin: SqlClient, other: SqlClient) -> None:
    term, *_ = lead(admin, "ann")
    assert lead(other, "bob") == (term, False, "ann")
    assert lead(admin, "ann") == (term, True, "ann")


def test_another_leads_a_source_of_its_own(admin: SqlClient) -> None:
    lead(admin, "ann")
    (row,) = admin.sql("select * from acquire_leadership('k8s:two', 'bob', '1.0', 15)")
    assert row.is_leader


def test_a_lapsed_leadership_is_taken_with_the_next_term(admin: SqlClient, other: SqlClient) -> None:
    former, *_ = lead(admin, "ann")
    admin.sql(LAPSE)
    term, *led = lead(other, "bob")
    assert (led, term > former) == ([True, "bob"], True)
    assert lead(admin, "ann") == (term, False, "bob")


def test_a_leader_suspended_past_its_lease_gets_a_new_term(admin: SqlClient) -> None:
    former, *_ = lead(admin, "ann")
    admin.sql(LAPSE)
    assert not acts(admin, former)
    term, *_ = lead(admin, "ann")
    assert acts(admin, term)
    assert not acts(admin, former)


@pytest.mark.parametrize("had_leader", [False, True])
def test_a_leader_whose_term_the_database_lost_writes_nothing(
    admin: SqlClient, other: SqlClient, had_leader: bool
) -> None:
    """A failover to a standby without the commit: both became the leader of the same former state."""
    if had_leader:
        lead(admin, "zoe")
        admin.sql(LAPSE)
    admin.sql("begin")
    lost, *led = lead(admin, "ann")
    admin.sql("rollback")
    term, *led_again = lead(other, "bob")
    assert (led, led_again) == ([True, "ann"], [True, "bob"])
    assert not acts(admin, lost)
    assert acts(other, term)


def test_a_released_leadership_is_taken_over_at_once(admin: SqlClient, other: SqlClient) -> None:
    former, *_ = lead(admin, "ann")
    assert admin.value("select release_leadership('k8s:one', %s)", former) is True
    assert admin.value("select release_leadership('k8s:one', %s)", former) is False
    assert not acts(admin, former)
    term, *_ = lead(other, "bob")
    assert admin.value("select release_leadership('k8s:one', %s)", former) is False
    assert acts(other, term)


def test_no_operator_takes_over_in_the_middle_of_a_leaders_transaction(
    admin: SqlClient, worker: SqlClient, other: SqlClient, meanwhile: ThreadPoolExecutor
) -> None:
    term, *_ = lead(worker, "ann", 1)
    with worker.conn.transaction():
        worker.sql("select require_leadership('k8s:one', %s)", term)
        worker.sql("set local idle_in_transaction_session_timeout = 0")  # not this time
        worker.sql("select pause('all')")
        admin.sql("select pg_sleep_until((select expires_at from leadership))")
        taken = meanwhile.submit(lambda: (lead(other, "bob"), other.value("select count(*) from pauses")))
        assert admin.wait_until_blocked(other, taken.done)
    assert taken.result(30)[1] == 1  # the next leader sees what was written before


def test_a_leader_suspended_in_a_transaction_delays_no_other_operator(admin: SqlClient, other: SqlClient) -> None:
    term, *_ = lead(admin, "ann", lease_s=1)
    admin.sql("begin")
    assert acts(admin, term)
    while not lead(other, "bob")[1]:  # until the lease has lapsed; then it waits for the server to end the transaction
        pass
    with pytest.raises(psycopg.errors.IdleInTransactionSessionTimeout):
        admin.sql("select 1")


def lead_by_session(client: SqlClient, holder: str) -> bool:
    """Leads as `holder` over a connection without a pooler. Whether it does."""
    query = "select is_leader from acquire_leadership('k8s:one', %s, '1.0', 300, pg_backend_pid())"
    return client.value(query, holder)


def test_a_leader_whose_session_ended_is_succeeded_before_its_lease_lapses(database: str, other: SqlClient) -> None:
    with psycopg.connect(database, autocommit=True, options="-c search_path=wakeboard") as leader:
        for _ in range(2):  # it renews, too
            leader.execute("select acquire_leadership('k8s:one', 'ann', '1.0', 300, pg_backend_pid())")
        assert lead(other, "bob")[1:] == (False, "ann"), "its session lives"
    while not lead_by_session(other, "bob"):  # the server ends a session soon after its connection
        pass
    assert other.value("select has_session from leadership")


def test_through_a_pooler_only_the_lease_counts(admin: SqlClient, other: SqlClient) -> None:
    """A pooler shows its clients numbers of its own, and its sessions outlive them."""
    admin.sql("select acquire_leadership('k8s:one', 'ann', '1.0', 300, 1)")
    assert not admin.value("select has_session from leadership")
    assert lead(other, "bob")[1:] == (False, "ann")


def test_a_session_of_a_former_leader_keeps_no_other_from_leading(admin: SqlClient, other: SqlClient) -> None:
    assert lead_by_session(admin, "ann")
    admin.sql(LAPSE)
    assert lead_by_session(other, "bob")
    assert not other.value("select has_session from leadership"), "the former one has the lock until it closes"
    assert not lead_by_session(admin, "ann")


def test_a_standby_that_polls_writes_nothing(admin: SqlClient, other: SqlClient) -> None:
    assert lead_by_session(admin, "ann")
    before = admin.sql("select xmin, xmax, ctid from leadership")
    assert not lead_by_session(other, "bob")
    assert admin.sql("select xmin, xmax, ctid from leadership") == before
