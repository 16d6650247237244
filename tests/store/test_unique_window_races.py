"""Callers with the same unique window at the same time: they wait for each other, and do not deadlock."""

from __future__ import annotations

from contextlib import closing
from typing import TYPE_CHECKING, Any

import psycopg
import pytest

import wakeboard
from tests.store.unique_windows import END_WINDOWS, HOUR, REPLACE, sync
from wakeboard import Job

if TYPE_CHECKING:
    from collections.abc import Callable
    from concurrent.futures import ThreadPoolExecutor

    from tests.store.sql_clients import SqlClient

Connection = psycopg.Connection[Any]


@pytest.mark.parametrize("many", [False, True])
@pytest.mark.parametrize("window", ["new", "ended"])
@pytest.mark.parametrize("ends", ["commit", "rollback"])
def test_enqueue_waits_for_a_transaction_that_creates_the_run(
    application: Connection,
    other_application: Connection,
    admin: SqlClient,
    meanwhile: ThreadPoolExecutor,
    *,
    many: bool,
    window: str,
    ends: str,
) -> None:
    if window == "ended":
        sync(application, 7)
        admin.sql(END_WINDOWS)
    theirs = sync(other_application, 7)
    if many:
        ours = meanwhile.submit(wakeboard.enqueue_many, application, [Job("ping", {"customer": 7})], **HOUR)
    else:
        ours = meanwhile.submit(sync, application, 7)
    admin.wait_until_a_session_waits()
    getattr(other_application, ends)()
    found = ours.result(30)
    run = found[0] if isinstance(found, list) else found
    assert run.created == (ends == "rollback")
    assert (run.id == theirs.id) == (ends == "commit")
    assert admin.value("select run_id from job_unique_keys") == run.id


def test_enqueue_does_not_wait_for_a_transaction_that_found_the_run(
    application: Connection, other_application: Connection
) -> None:
    sync(application, 7)
    assert not sync(other_application, 7).created
    application.execute("set lock_timeout = '5s'")
    assert not sync(application, 7).created


def test_two_that_replace_a_run_do_so_one_after_the_other(
    application: Connection, other_application: Connection, admin: SqlClient, meanwhile: ThreadPoolExecutor
) -> None:
    first = wakeboard.enqueue(application, "ping", {"customer": 7, "at": 1}, **REPLACE)
    wakeboard.enqueue(other_application, "ping", {"customer": 7, "at": 2}, **REPLACE)
    ours = meanwhile.submit(wakeboard.enqueue, application, "ping", {"customer": 7, "at": 3}, **REPLACE)
    admin.wait_until_a_session_waits()
    other_application.commit()
    assert ours.result(30).id == first.id
    assert admin.column("select (payload ->> 'at')::integer from job_runs") == [3]


@pytest.mark.parametrize("ends", ["commit", "rollback"])
def test_a_run_is_replaced_only_if_its_claim_fails(
    application: Connection, admin: SqlClient, worker: SqlClient, meanwhile: ThreadPoolExecutor, ends: str
) -> None:
    wakeboard.enqueue(application, "ping", {"customer": 7, "at": 1}, **REPLACE)
    worker.sql("begin")
    worker.claim()
    ours = meanwhile.submit(wakeboard.enqueue, application, "ping", {"customer": 7, "at": 2}, **REPLACE)
    admin.wait_until_a_session_waits()
    worker.sql(ends)
    assert not ours.result(30).created
    assert admin.column("select (payload ->> 'at')::integer from job_runs") == [1 if ends == "commit" else 2]


def test_a_caller_within_the_window_replaces_after_its_end(
    application: Connection,
    other_application: Connection,
    admin: SqlClient,
    meanwhile: ThreadPoolExecutor,
    worker: SqlClient,
) -> None:
    """It waits for the run when the window ends. Another caller waits for it, and finds the window that it begins."""
    other_application.autocommit = True
    first = wakeboard.enqueue(application, "ping", {"customer": 7, "at": 1}, **REPLACE)
    worker.sql("begin")
    worker.sql("select from job_runs where id = %s for update", first.id)
    admin.sql("update job_unique_keys set unique_until = now() + interval '1 s'")
    ours = meanwhile.submit(wakeboard.enqueue, application, "ping", {"customer": 7, "at": 2}, **REPLACE)
    admin.wait_until_a_session_waits()
    admin.sql("select pg_sleep_until(unique_until) from job_unique_keys")
    theirs = meanwhile.submit(wakeboard.enqueue, other_application, "ping", {"customer": 7, "at": 3}, **HOUR)
    admin.wait_until_a_session_waits(2)
    worker.sql("commit")
    assert ours.result(30).id == first.id
    assert (theirs.result(30).id, theirs.result().created) == (first.id, False)
    assert admin.column("select (payload ->> 'at')::integer from job_runs") == [2]


def test_callers_at_once_create_one_run_for_each_window(
    database: str, admin: SqlClient, meanwhile: ThreadPoolExecutor
) -> None:
    def call(caller: int) -> list[wakeboard.Enqueued]:
        with closing(psycopg.connect(database, autocommit=True)) as conn:
            return [sync(conn, turn // 2, if_exists=("keep", "replace")[caller % 2]) for turn in range(40)]

    made = [run for runs in meanwhile.map(call, range(8)) for run in runs]
    assert len({run.id for run in made}) == 20
    assert sum(run.created for run in made) == 20
    assert admin.value("select count(*) from job_runs") == 20


@pytest.mark.parametrize("window", ["new", "ended", "open"])
def test_two_callers_that_enqueue_many_in_opposite_orders_both_end(
    application: Connection,
    other_application: Connection,
    admin: SqlClient,
    open_client: Callable[[int], SqlClient],
    meanwhile: ThreadPoolExecutor,
    window: str,
) -> None:
    jobs = [Job("ping", {"customer": customer}) for customer in range(5)]
    if window != "new":
        wakeboard.enqueue_many(application, jobs, **HOUR)
        if window == "ended":
            admin.sql(END_WINDOWS)
    holder = open_client(0)
    with holder.conn.transaction():
        sync(holder.conn, 2, if_exists="replace")
        other_application.autocommit = True
        down = meanwhile.submit(wakeboard.enqueue_many, other_application, jobs[::-1], **REPLACE)
        admin.wait_until_a_session_waits()
        up = meanwhile.submit(wakeboard.enqueue_many, application, jobs, **REPLACE)
    assert {run.id for run in down.result(30)} == {run.id for run in up.result(30)}


def test_two_callers_that_wait_for_keys_do_not_deadlock(
    application: Connection,
    other_application: Connection,
    admin: SqlClient,
    open_client: Callable[[int], SqlClient],
    meanwhile: ThreadPoolExecutor,
) -> None:
    """Keys are locked in their order. The run of the last one is committed while one caller waits at the third."""
    other_application.autocommit = True
    query = "select unique_key(jsonb_build_object('customer', %s::integer)::run_payload, '{customer}')"
    customers = sorted(range(5), key=lambda customer: bytes(admin.value(query, customer)))
    jobs = [Job("ping", {"customer": customer}) for customer in customers]
    middle, last = open_client(0), open_client(1)
    middle.sql("begin")
    last.sql("begin")
    sync(middle.conn, customers[2])
    sync(last.conn, customers[4])
    first = meanwhile.submit(wakeboard.enqueue_many, application, jobs, **REPLACE)
    admin.wait_until_a_session_waits()
    last.sql("commit")
    second = meanwhile.submit(wakeboard.enqueue_many, other_application, jobs, **REPLACE)
    admin.wait_until_a_session_waits(2)
    middle.sql("commit")
    found = {run.id for run in first.result(30)}
    assert {run.id for run in second.result(30)} == found
