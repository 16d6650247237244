"""A lease from before a restore: its worker lives and goes on, and what it has committed since then is lost.

The database of these tests takes itself for that of another server, as one does into which a dump was loaded. The tests
of real failovers, crashes and dumps are in test_server_changes.py.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from typing import TYPE_CHECKING, Any, Final

import psycopg
import pytest

from testbed.processes import wait_for
from tests.store.sql_clients import Lease, SqlClient

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = pytest.mark.every_postgres
GO_BACK: Final = "update installation set server_system = server_system - 1, server_started_at = statement_timestamp()"
HELD: Final = "71, id, lease_epoch"
ONCE: Final = "select once(71, id, {uuid}, lease_epoch, 'charge') from job_runs"
# What a worker may say of its lease: the answer is true if the lease is refused.
ANSWERS: Final = {
    "complete": "select complete(71, array[id], array[lease_epoch]) = id from job_runs",
    "fail": "select fail(71, array[id], array[lease_epoch], '{failed}', '{E}', '{e}', '{s}', '{0}') = id from job_runs",
    "release": "select release(71, array[id], array[lease_epoch], '{0}', '{true}') = id from job_runs",
    "renew": "select answer = 'refused' from job_runs as run cross join lateral"
    " renew(71, 60, array[run.id], array[lease_epoch], '{1}', '{null}') where answer <> 'unregistered'",
}
# The error is WB001 then.
RAISES: Final = {
    "step": f"select step({HELD}, 'fetch') from job_runs",
    "effect": f"select effect({HELD}, 'charge') from job_runs",
    "effect_forever": f"select effect_forever({HELD}, 'charge') from job_runs",
    "once": ONCE.format(uuid="uuid"),
    "once for ever": ONCE.format(uuid="'00000000-0000-0000-0000-000000000000'"),
}


@pytest.fixture
def worker(database: str) -> Iterator[SqlClient]:
    with closing(SqlClient(database, 71)) as client:
        client.sql("select reap()")
        yield client


def claim_and_go_back(worker: SqlClient, **job: Any) -> Lease:
    worker.enqueue(**job)
    (lease,) = worker.fetch()
    worker.sql(GO_BACK)
    return lease


def test_the_number_of_a_backfill_or_bulk_action_comes_to_no_other(worker: SqlClient) -> None:
    """A user cancels or resumes by the number that a server said, which may have forgotten it since."""
    worker.define(schedule="@daily", cron_fields="0 0 * * *")
    ticks = "array['2026-01-0{0} 00:00Z'::timestamptz], '2026-01-0{0}', '2026-01-0{0} 01:00Z'"
    calls = (
        "select id from create_bulk_action('retry', '{1}')",
        f"select made.id from job_definitions as def cross join lateral create_backfill(def.id, {ticks}) as made",
    )
    for call in calls:
        before = worker.value(call.replace("{0}", "1"))
        worker.sql(GO_BACK)
        assert worker.value(call.replace("{0}", "2")) > before + 1_000_000
        assert worker.value(call.replace("{0}", "3")) < before + 1_000_100


def refused(worker: SqlClient, call: str) -> bool:
    if query := ANSWERS.get(call):
        return worker.value(query)
    try:
        worker.sql(RAISES[call])
    except psycopg.DatabaseError as error:
        assert error.sqlstate == "WB001"  # noqa: PT017 - no error is right, too
        return True
    return False


@pytest.mark.parametrize("call", [*ANSWERS, *RAISES])
def test_a_lease_from_before_a_restore_is_refused_by_the_first_call(worker: SqlClient, call: str) -> None:
    lease = claim_and_go_back(worker)
    assert refused(worker, call)
    worker.renew(lease)
    assert not worker.value("select exists (select still_leased(71, %s, %s))", [lease.id], [lease.epoch])
    assert all(refused(worker, again) for again in (*ANSWERS, *RAISES))


def test_a_restore_charges_the_run_neither_attempt_nor_crash(worker: SqlClient) -> None:
    lost = claim_and_go_back(worker, max_attempts=1)
    worker.sql("select reap(always => true)")
    run = worker.sql("select status, attempts, crash_count, release_count, start_before from job_runs")
    assert run == [("queued", 0, 0, 0, None)]
    attempt = "select outcome, error from job_attempts where lease_epoch = %s"
    assert worker.sql(attempt, lost.epoch) == [
        ("released", "the database went back in time: what this attempt has committed may be lost")
    ]
    (lease,) = worker.fetch()
    assert lease.epoch > lost.epoch
    assert not refused(worker, "once")
    assert worker.complete(lost, lease) == [lost.id]
    assert worker.value("select status from all_runs") == "succeeded"


def test_a_cancelled_run_is_cancelled_after_a_restore(worker: SqlClient) -> None:
    lease = claim_and_go_back(worker)
    worker.sql("select cancel(array[%s::bigint])", lease.id)
    worker.sql("select reap(always => true)")
    assert worker.value("select status from all_runs") == "cancelled"


def test_a_second_restore_voids_the_leases_since_the_first(worker: SqlClient) -> None:
    claim_and_go_back(worker)
    worker.sql("select reap(always => true)")
    (lease,) = worker.fetch()
    worker.sql(GO_BACK)
    assert worker.complete(lease) == [lease.id]


def test_no_outcome_is_accepted_while_a_new_server_is_not_recorded(worker: SqlClient, database: str) -> None:
    lease = claim_and_go_back(worker)
    with psycopg.connect(database) as other:
        other.execute("select from wakeboard.installation for update")
        for _ in range(2):
            with pytest.raises(psycopg.errors.LockNotAvailable):
                worker.complete(lease)
    assert worker.complete(lease) == [lease.id]


def test_once_waits_after_a_restart_until_a_call_records_the_server(worker: SqlClient, database: str) -> None:
    worker.enqueue()
    (lease,) = worker.fetch()
    worker.sql("update installation set server_started_at = server_started_at - interval '1 hour'")
    with closing(SqlClient(database, 71)) as handler, ThreadPoolExecutor(1) as thread:
        mine = thread.submit(handler.once, lease, "charge")
        wait_for(lambda: worker.value("select count(*) from pg_stat_activity where wait_event = 'PgSleep'") == 1)
        worker.renew(lease)
        assert mine.result(30)


def test_json_knows_epochs_exactly_after_five_hundred_restores(worker: SqlClient) -> None:
    worker.sql("select void_leases() from generate_series(1, 500)")
    worker.enqueue()
    (lease,) = worker.fetch()
    assert worker.value("select lease_base from installation") < lease.epoch < 2**53


def test_a_restore_voids_the_lease_of_a_run_that_had_thousands(worker: SqlClient) -> None:
    worker.enqueue()
    worker.sql("update job_runs set lease_epoch = 10000 * (1::bigint << 30)")  # a lease adds half of 2^31 on average
    (lease,) = worker.fetch()
    worker.sql(GO_BACK)
    assert worker.complete(lease) == [lease.id]


def test_leases_that_become_void_during_a_scan_need_no_minute(worker: SqlClient) -> None:
    run = worker.enqueue()
    worker.enqueue()
    worker.fetch()
    assert worker.value("select next_id from reap(slice => 1, always => true)") == run
    worker.sql("select void_leases()")
    worker.sql("select reap(%s)", worker.value("select next_id from reap(%s, 1)", run))
    worker.sql("update installation set reap_started_at = reap_started_at - interval '5 seconds'")
    worker.sql("select reap()")
    assert worker.column("select status from job_runs") == ["queued", "queued"]
