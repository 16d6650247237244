"""A claim leases due runs in order, waits for no lock and scans a bounded number of rows."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Callable
    from concurrent.futures import ThreadPoolExecutor

    from tests.store.sql_clients import Lease, SqlClient

POSITIONS = "array_fill(%s::timestamptz, '{5}'), array_fill(%s::bigint, '{5}')"
LOOK_AHEAD = f"from advance_scan('{{default}}', '{{3}}', {POSITIONS}, '{{ping}}', 10)"
CLAIMS: dict[str, Callable[[SqlClient, int], list[Lease]]] = {
    "claim": lambda client, count: client.claim(count),
    "claim_oldest": lambda client, count: client.claim_oldest(count),
    "claim_limited": lambda client, count: client.claim_limited("one", count=count),
    "claim_quarantined": lambda client, _: client.claim_quarantined(),
}


def test_a_lease_is_never_longer_than_the_runs_timeout_and_ten_seconds(admin: SqlClient, worker: SqlClient) -> None:
    run = admin.enqueue(timeout_s=5)
    worker.claim(lease_s=60)
    row = admin.run(run)
    assert (row.locked_until - row.started_at).total_seconds() == 15


def test_a_claim_takes_no_limited_or_too_long_run(admin: SqlClient, worker: SqlClient) -> None:
    admin.enqueue(timeout_s=601)
    admin.enqueue(limit_key="one-at-a-time")
    assert worker.claim(max_timeout_s=600) == []


def test_a_claim_scans_a_bounded_number_of_rows(admin: SqlClient, worker: SqlClient) -> None:
    admin.sql("select enqueue_many(array_fill('unknown'::text, '{25}'), array_fill('{}'::jsonb, '{25}'))")
    wanted = admin.enqueue()
    mark, looks = ("-infinity", 0), 0
    while not (found := worker.claim(behind=mark, scan_limit=10)):
        (ahead,) = admin.sql(f"select run_at::text, id {LOOK_AHEAD}", *mark)
        mark, looks = (ahead.run_at, ahead.id), looks + 1
    assert [lease.id for lease in found] == [wanted]
    assert looks == 2
    assert not admin.sql(f"select * {LOOK_AHEAD}", *mark)


def test_advance_scan_skips_no_run_enqueued_since_the_claim(admin: SqlClient, worker: SqlClient) -> None:
    admin.sql("select enqueue_many(array_fill('unknown'::text, '{5}'), array_fill('{}'::jsonb, '{5}'))")
    mark: tuple[str, int] = ("-infinity", 0)
    assert worker.claim(behind=mark, scan_limit=10) == []
    wanted = admin.enqueue()
    admin.sql("select enqueue_many(array_fill('unknown'::text, '{5}'), array_fill('{}'::jsonb, '{5}'))")
    (ahead,) = admin.sql(f"select run_at::text, id {LOOK_AHEAD}", *mark)
    assert [lease.id for lease in worker.claim(behind=(ahead.run_at, ahead.id))] == [wanted]


def test_a_claim_scans_nothing_before_its_position(admin: SqlClient, worker: SqlClient) -> None:
    runs = [admin.enqueue(run_at="2020-01-01 00:00Z") for _ in range(3)]
    assert [lease.id for lease in worker.claim(behind=("2020-01-01 00:00Z", runs[0]))] == runs[1:]


GATE = """
create function pass_gate(id bigint) returns boolean language plpgsql as $$
begin
  perform pg_advisory_xact_lock_shared(id);
  return true;
end $$;
alter table job_runs enable row level security;
alter table job_runs force row level security;
create policy everybody_passes_the_gate on job_runs using (pass_gate(id))
"""


def test_a_run_that_failed_during_a_claim_waits_for_its_retry(
    admin: SqlClient, open_client: Callable[[int], SqlClient], worker: SqlClient, meanwhile: ThreadPoolExecutor
) -> None:
    """The claim's scan_limit is stopped between its snapshot and the row by a policy that waits for a lock."""
    run = admin.enqueue()
    admin.sql(GATE)
    plain = "plain_" + admin.conn.info.dbname
    admin.sql(f"create role {plain}; grant all on schema wakeboard to {plain};")
    try:
        for table in ("job_runs", "definition_changes", "pauses"):
            admin.sql(f"alter table {table} owner to {plain}")
        claim = admin.value("select oid::regprocedure::text from pg_proc where proname = 'lock_due_runs'")
        admin.sql(f"alter function {claim} owner to {plain}")
        gate, quick = open_client(0), open_client(72)
        with gate.conn.transaction():
            gate.sql("select pg_advisory_xact_lock(%s)", run)
            slow = meanwhile.submit(worker.claim)
            assert admin.wait_until_blocked(worker, slow.done)
            admin.sql(
                "update job_runs set lease_epoch = 1, attempts = 1, status = 'failed', run_at = now() + interval '1 h'"
            )
        assert slow.result() == []
        assert admin.status(run) == "failed"
        assert quick.claim() == []
    finally:
        admin.sql(f"reassign owned by {plain} to current_user; drop owned by {plain}; drop role {plain}")


# -- by age ------------------------------------------------------------------------------------------------------------


def test_claim_oldest_takes_the_oldest_run_of_any_priority(admin: SqlClient, worker: SqlClient) -> None:
    runs = [
        admin.enqueue(priority=priority, run_at=f"2020-01-0{day} 00:00Z")
        for day, priority in enumerate([2, 5, 1, 3, 4, 1, 5], start=1)
    ]
    assert [lease.id for _ in range(7) for lease in worker.claim_oldest(1)] == runs


def test_claim_oldest_scans_a_bounded_number_of_rows(admin: SqlClient, worker: SqlClient) -> None:
    admin.sql(
        "insert into job_runs (job_type, priority, run_at)"
        " select 'unknown', n %% 5 + 1, %s from generate_series(1, 25) as n",
        "2020-01-01 00:00Z",
    )
    run = admin.enqueue(priority=1)
    assert worker.claim_oldest(scan_limit=25) == []
    assert [lease.id for lease in worker.claim_oldest(scan_limit=26)] == [run]


def test_claim_oldest_scans_nothing_before_its_positions(admin: SqlClient, worker: SqlClient) -> None:
    runs = [admin.enqueue(run_at="2020-01-01 00:00Z") for _ in range(3)]
    assert {lease.id for lease in worker.claim_oldest(behind=("2020-01-01 00:00Z", runs[0]))} == set(runs[1:])


def test_one_start_in_twenty_goes_to_a_keys_oldest_run(admin: SqlClient, worker: SqlClient) -> None:
    """Runs of priority 5 never end. One in twenty: 30 of 600, and chance has its part."""
    slots = 3
    worker.sql("select set_limit('k', %s)", slots)
    worker.sql("select setseed(0.5)")
    old = {admin.enqueue(priority=1, limit_key="k", run_at="2020-01-01 00:00Z") for _ in range(200)}
    started = 0
    for _ in range(600 // slots):
        for _ in range(slots):
            admin.enqueue(priority=5, limit_key="k")
        leases = worker.claim_limited("k", by_chance=True)
        started += len(old & {lease.id for lease in leases})
        for lease in leases:
            worker.complete(lease)
    assert 12 <= started <= 58


# -- what makes claims fast --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("claim", ["claim", "claim_oldest"])
def test_every_claim_is_a_hot_update(admin: SqlClient, worker: SqlClient, claim: str) -> None:
    count = 2000
    admin.sql(
        "insert into job_runs (job_type, priority) select 'ping', n %% 5 + 1 from generate_series(1, %s) n", count
    )
    with worker.conn.transaction():
        assert sum(len(CLAIMS[claim](worker, 100)) for _ in range(20)) == count
        updated, hot = worker.sql(
            "select pg_stat_get_xact_tuples_updated(oid), pg_stat_get_xact_tuples_hot_updated(oid)"
            " from pg_class where oid = 'job_runs'::regclass"
        )[0]
    assert (updated, hot) == (count, count)
