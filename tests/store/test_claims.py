"""A claim leases what is due, in order, without waiting and without looking at more than it must."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import psycopg
import pytest

if TYPE_CHECKING:
    from collections.abc import Callable
    from concurrent.futures import ThreadPoolExecutor

    from tests.store.sql_clients import SqlClient

pytestmark = pytest.mark.every_postgres

LOOK_AHEAD = "from advance_scan('{default}', '{3}', array[%s]::timestamptz[], array[%s], '{ping}', 10)"
WRITTEN_BY_CLAIMS = {"status", "attempts", "started_at", "locked_by", "locked_until", "lease_epoch"}


def test_a_due_run_is_leased_and_says_so(admin: SqlClient, worker: SqlClient) -> None:
    run = admin.enqueue("ping", {"to": "ann"}, timeout_s=600)
    (lease,) = worker.claim(lease_s=60)
    assert lease == (run, 1)
    row = admin.run(run)
    assert (row.status, row.locked_by, row.lease_epoch, row.attempts) == ("running", worker.worker_id, 1, 1)
    assert (row.locked_until - row.started_at).total_seconds() == 60


def test_a_lease_is_never_longer_than_the_runs_timeout_and_ten_seconds(admin: SqlClient, worker: SqlClient) -> None:
    run = admin.enqueue(timeout_s=5)
    worker.claim(lease_s=60)
    row = admin.run(run)
    assert (row.locked_until - row.started_at).total_seconds() == 15


def test_a_leased_run_is_nobody_elses(admin: SqlClient, worker: SqlClient, other: SqlClient) -> None:
    admin.enqueue()
    assert len(worker.claim()) == 1
    assert other.claim() == []
    assert worker.claim() == []


def test_a_lapsed_lease_is_not_taken_by_a_claim(admin: SqlClient, worker: SqlClient, other: SqlClient) -> None:
    run = admin.enqueue()
    worker.claim()
    admin.let_lapse(run)
    assert other.claim() == []
    admin.reap()
    assert [lease.id for lease in other.claim()] == [run]


def test_priority_goes_first_then_the_queues_as_given_then_the_time(admin: SqlClient, worker: SqlClient) -> None:
    made = {
        (priority, queue, at): admin.enqueue(priority=priority, queue=queue, run_at=f"2020-01-0{at} 00:00Z")
        for priority in (1, 5, 3)
        for queue in ("mail", "default")
        for at in (2, 1)
    }
    expected = [made[priority, queue, at] for priority in (5, 3, 1) for queue in ("default", "mail") for at in (1, 2)]
    claimed = [lease.id for _ in range(12) for lease in worker.claim(1, queues=["default", "mail"])]
    assert claimed == expected


def test_runs_that_are_due_at_one_moment_go_by_their_ids(admin: SqlClient, worker: SqlClient) -> None:
    runs = [admin.enqueue(run_at="2020-01-01 00:00Z") for _ in range(5)]
    assert [lease.id for _ in range(5) for lease in worker.claim(1)] == runs


@pytest.mark.parametrize(
    "named",
    [
        {"run_at": "2999-01-01 00:00Z"},
        {"queue": "elsewhere"},
        {"job_type": "unknown"},
        {"timeout_s": 601},
        {"limit_key": "one-at-a-time"},
    ],
    ids=["not due yet", "another queue", "a job type it does not know", "a longer timeout than it takes", "limited"],
)
def test_what_a_worker_may_not_take_stays(admin: SqlClient, worker: SqlClient, named: dict[str, Any]) -> None:
    others = {name: value for name, value in named.items() if name != "job_type"}
    run = admin.enqueue(str(named.get("job_type", "ping")), **others)
    assert worker.claim(max_timeout_s=600) == []
    assert admin.status(run) == "queued"


def test_a_run_is_not_started_after_its_deadline_but_may_be_tried_again(admin: SqlClient, worker: SqlClient) -> None:
    late, retried = admin.enqueue(), admin.enqueue()
    (lease,) = [lease for lease in worker.claim() if lease.id == retried]
    admin.sql("update job_runs set status = 'queued', locked_by = 0, started_at = 'epoch' where id = %s", late)
    worker.fail(lease, delay_s=0)
    admin.sql("update job_runs set start_before = now() - interval '1 s'")
    assert [lease.id for lease in worker.claim()] == [retried]


def test_a_paused_queue_gives_nothing_and_its_neighbour_goes_on(admin: SqlClient, worker: SqlClient) -> None:
    mail, plain = admin.enqueue(queue="mail"), admin.enqueue()
    assert admin.value("select pause('queue:mail', 'too many bounces')") is True
    assert admin.value("select pause('queue:mail')") is False
    assert [lease.id for lease in worker.claim(queues=["mail", "default"])] == [plain]
    assert admin.value("select resume('queue:mail')") is True
    assert admin.value("select resume('queue:mail')") is False
    assert [lease.id for lease in worker.claim(queues=["mail", "default"])] == [mail]


def test_a_pause_of_all_stops_every_claim(admin: SqlClient, worker: SqlClient) -> None:
    admin.enqueue()
    admin.enqueue(limit_key="one")
    suspect = admin.enqueue()
    admin.crashed(suspect, 2)
    admin.value("select pause('all')")
    assert [worker.claim(), worker.claim_limited("one"), worker.claim_quarantined()] == [[], [], []]
    admin.value("select resume('all')")
    assert [len(worker.claim()), len(worker.claim_limited("one")), len(worker.claim_quarantined())] == [1, 1, 1]


def test_one_claim_looks_at_a_bounded_number_of_rows_and_look_ahead_says_where_to_go_on(
    admin: SqlClient, worker: SqlClient
) -> None:
    admin.sql("select enqueue_many(array_fill('unknown'::text, '{25}'), array_fill('{}'::jsonb, '{25}'))")
    wanted = admin.enqueue()
    mark, looks = ("-infinity", 0), 0
    while not (found := worker.claim(behind=mark, scan_limit=10)):
        (ahead,) = admin.sql(f"select run_at::text, id {LOOK_AHEAD}", *mark)
        mark, looks = (ahead.run_at, ahead.id), looks + 1
    assert [lease.id for lease in found] == [wanted]
    assert looks == 2
    assert not admin.sql(f"select * {LOOK_AHEAD}", *mark)


def test_look_ahead_passes_no_run_that_came_since_the_claim(admin: SqlClient, worker: SqlClient) -> None:
    admin.sql("select enqueue_many(array_fill('unknown'::text, '{5}'), array_fill('{}'::jsonb, '{5}'))")
    mark: tuple[str, int] = ("-infinity", 0)
    assert worker.claim(behind=mark, scan_limit=10) == []
    wanted = admin.enqueue()
    admin.sql("select enqueue_many(array_fill('unknown'::text, '{5}'), array_fill('{}'::jsonb, '{5}'))")
    (ahead,) = admin.sql(f"select run_at::text, id {LOOK_AHEAD}", *mark)
    assert [lease.id for lease in worker.claim(behind=(ahead.run_at, ahead.id))] == [wanted]


def test_a_claim_does_not_look_before_its_mark(admin: SqlClient, worker: SqlClient) -> None:
    runs = [admin.enqueue(run_at="2020-01-01 00:00Z") for _ in range(3)]
    assert [lease.id for lease in worker.claim(behind=("2020-01-01 00:00Z", runs[0]))] == runs[1:]


def test_two_claims_at_once_share_the_runs_and_neither_waits(
    admin: SqlClient, worker: SqlClient, other: SqlClient
) -> None:
    runs = {admin.enqueue() for _ in range(10)}
    with worker.conn.transaction():
        mine = {lease.id for lease in worker.claim(5)}
        theirs = {lease.id for lease in other.claim(100)}
    assert len(mine) == 5
    assert theirs == runs - mine


def test_a_claim_that_is_rolled_back_never_happened(admin: SqlClient, worker: SqlClient, other: SqlClient) -> None:
    run = admin.enqueue()
    with worker.conn.transaction(force_rollback=True):
        assert len(worker.claim()) == 1
    assert other.claim() == [(run, 1)]


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


def test_a_run_that_failed_while_a_claim_was_looking_waits_for_its_next_try(
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
        claim = admin.value("select oid::regprocedure::text from pg_proc where proname = 'claim'")
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


# -- what makes claims fast --------------------------------------------------------------------------------------------


def test_every_claim_is_a_hot_update(admin: SqlClient, worker: SqlClient) -> None:
    count = 2000
    admin.sql(
        "select enqueue_many(array_fill('ping'::text, array[%s]), array_fill('{}'::jsonb, array[%s]))", count, count
    )
    with worker.conn.transaction():
        assert sum(len(worker.claim(100)) for _ in range(20)) == count
        updated, hot = worker.sql(
            "select pg_stat_get_xact_tuples_updated(oid), pg_stat_get_xact_tuples_hot_updated(oid)"
            " from pg_class where oid = 'job_runs'::regclass"
        )[0]
    assert (updated, hot) == (count, count)


def test_no_column_that_a_claim_writes_stands_in_an_index_or_its_predicate(admin: SqlClient) -> None:
    indexed = admin.column(
        "select distinct attname::text from pg_index"
        "  join pg_attribute on attrelid = indrelid and attnum = any (indkey) where indrelid = 'job_runs'::regclass"
    )
    assert {"queue", "priority", "run_at", "id"} <= set(indexed)
    assert not WRITTEN_BY_CLAIMS & set(indexed)
    # What a predicate or expression reads stands in the index's dependencies.
    read = admin.column(
        "select distinct attname::text from pg_index"
        "  join pg_depend on classid = 'pg_class'::regclass and objid = indexrelid and refobjid = indrelid"
        "  join pg_attribute on attrelid = refobjid and attnum = refobjsubid where indrelid = 'job_runs'::regclass"
    )
    assert {"limit_key", "crash_count", "dead_at"} <= set(read)
    assert not WRITTEN_BY_CLAIMS & set(read)


def test_what_a_claim_writes_never_widens_a_row(admin: SqlClient) -> None:
    columns = admin.sql(
        "select attname::text, attnotnull, attlen, atthasdef from pg_attribute"
        " where attrelid = 'job_runs'::regclass and attname = any (%s)",
        list(WRITTEN_BY_CLAIMS),
    )
    assert len(columns) == len(WRITTEN_BY_CLAIMS)
    assert all(row.attnotnull and row.attlen > 0 and row.atthasdef for row in columns)


def test_half_of_each_page_is_left_for_claims(admin: SqlClient) -> None:
    assert "fillfactor=50" in admin.value("select reloptions from pg_class where oid = 'job_runs'::regclass")


def test_a_worker_that_is_nobody_claims_nothing(admin: SqlClient, open_client: Callable[[int], SqlClient]) -> None:
    admin.enqueue()
    with pytest.raises(psycopg.errors.CheckViolation, match="only_a_running_run_has_a_lease"):
        open_client(0).claim()
