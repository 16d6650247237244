"""Whatever order a batch names its runs in, it locks them by id: two batches never end as a deadlock."""

from __future__ import annotations

from contextlib import suppress
from itertools import combinations_with_replacement
from typing import TYPE_CHECKING

import psycopg
import pytest

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from concurrent.futures import ThreadPoolExecutor

    from tests.store.sql_clients import Lease, SqlClient

OF_WORKERS = ("complete", "fail", "release", "cancel")
OF_THE_DEAD = ("retry", "discard", "cancel")


def made(client: SqlClient, call: str, leases: Sequence[Lease]) -> object:
    if call in {"cancel", "retry", "discard"}:
        return getattr(client, call)(*[lease.id for lease in leases])
    return getattr(client, call)(*leases)


@pytest.mark.parametrize(("status", "calls"), [("running", OF_WORKERS), ("dead", OF_THE_DEAD)])
def test_two_batches_that_name_the_same_runs_in_opposite_orders_both_end(
    admin: SqlClient,
    worker: SqlClient,
    open_client: Callable[[int], SqlClient],
    meanwhile: ThreadPoolExecutor,
    status: str,
    calls: Sequence[str],
) -> None:
    """A third client holds the middle run; both batches pass it by, or wait for it or each other; then it lets go."""
    one, two, holder = open_client(worker.worker_id), open_client(worker.worker_id), open_client(0)
    for first, second in combinations_with_replacement(calls, 2):
        admin.sql("delete from job_runs")
        for _ in range(5):
            admin.enqueue()
        leases = worker.claim()
        if status == "dead":
            worker.fail(*leases, outcome="discarded")
        with holder.conn.transaction():
            holder.sql("select from job_runs where id = %s for update", leases[2].id)
            down = meanwhile.submit(made, one, first, leases[::-1])
            admin.wait_until_blocked(one, down.done)
            up = meanwhile.submit(made, two, second, leases)
            admin.wait_until_blocked(two, up.done)
        down.result(30)
        up.result(30)


def test_two_callers_that_enqueue_the_same_keys_in_opposite_orders_both_end(
    admin: SqlClient, open_client: Callable[[int], SqlClient], meanwhile: ThreadPoolExecutor
) -> None:
    keys = list("abcde")
    query = (
        "select id, created from enqueue_many(array_fill('ping'::text, '{5}'), array_fill('{}'::jsonb, '{5}'),"
        " idempotency_keys => %s)"
    )
    one, two, holder = open_client(0), open_client(0), open_client(0)
    with holder.conn.transaction():
        holder.enqueue(idempotency_key="c")
        down = meanwhile.submit(one.sql, query, keys[::-1])
        assert admin.wait_until_blocked(one, down.done)
        up = meanwhile.submit(two.sql, query, keys)
        assert admin.wait_until_blocked(two, up.done)
    by_key = dict(zip(keys[::-1], down.result(30), strict=True))
    assert {key: run.id for key, run in by_key.items()} == {
        key: run.id for key, run in zip(keys, up.result(30), strict=True)
    }
    assert admin.value("select count(*) from job_runs") == 5


def test_replays_lock_schedules_and_waiting_runs_in_one_order(
    admin: SqlClient, open_client: Callable[[int], SqlClient], meanwhile: ThreadPoolExecutor
) -> None:
    """Two replays that name the same runs in opposite orders, and the sync of their schedules, all end."""
    schedules = [admin.define(name) for name in "abc"]
    past = [admin.value("select id from run_now(%s)", schedule) for schedule in schedules]
    for run in past:
        admin.enqueue(after=[run])
    admin.cancel(*past)
    query = "select answer from replay(%s::bigint[])"
    one, two, three, holder = (open_client(0) for _ in range(4))
    with holder.conn.transaction():
        holder.sql("select from job_definitions where id = %s for update", schedules[1])
        calls = [meanwhile.submit(one.column, query, past[::-1])]
        admin.wait_until_blocked(one, calls[0].done)
        for client, sql, ids in ((two, query, past), (three, "select lock_definitions(%s)", schedules)):
            calls.append(meanwhile.submit(client.column, sql, ids))
            admin.wait_until_blocked(client, calls[-1].done)
    for call in calls:
        with suppress(psycopg.errors.LockNotAvailable):  # on a slow machine; a deadlock is another error
            call.result(30)
