"""Unique windows: for a time, one run of a job type has the values of the payload's keys that an application names."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import anyio
import psycopg
import pytest

import wakeboard
from tests.store.unique_windows import END_WINDOWS, HOUR, REPLACE, sync
from wakeboard import Job
from wakeboard.errors import InvalidValue, WakeboardError
from wakeboard.store.connection import connect

if TYPE_CHECKING:
    from tests.store.sql_clients import SqlClient

Connection = psycopg.Connection[Any]

LATER = datetime(2031, 1, 1, 8, tzinfo=UTC)


# -- one run in a window -----------------------------------------------------------------------------------------------


def test_other_values_of_a_kept_run_do_not_change(application: Connection, admin: SqlClient) -> None:
    wakeboard.enqueue(application, "ping", {"customer": 7, "since": 1}, **HOUR)
    wakeboard.enqueue(application, "ping", {"customer": 7, "since": 2}, run_at=LATER, priority=5, **HOUR)
    query = "select payload::jsonb, priority, run_at <= now() from job_runs"
    assert admin.sql(query) == [({"customer": 7, "since": 1}, 3, True)]


@pytest.mark.parametrize("ending", ["succeeded", "cancelled", "dead", "discarded"])
@pytest.mark.parametrize(
    "equal", [{**HOUR, "if_exists": "keep"}, {**HOUR, "if_exists": "replace"}, {"idempotency_key": "7"}]
)
def test_the_run_that_absorbs_a_call_is_named_with_its_status(
    application: Connection, admin: SqlClient, worker: SqlClient, ending: str, equal: dict[str, Any]
) -> None:
    first = wakeboard.enqueue(application, "ping", {"customer": 7}, **equal)
    assert wakeboard.enqueue(application, "ping", {"customer": 7}, **equal).status == first.status == "queued"
    if ending == "cancelled":
        admin.cancel(first.id)
    elif ending == "succeeded":
        worker.complete(worker.claims(first.id))
    else:
        worker.fail(worker.claims(first.id), outcome="discarded")
        if ending == "discarded":
            admin.discard(first.id)
    again = wakeboard.enqueue(application, "ping", {"customer": 7}, **equal)
    status = "dead" if ending == "dead" else None
    assert again == (first.id, first.uuid, False, status)
    key = equal.get("idempotency_key")
    made = wakeboard.enqueue_many(
        application, [Job("ping", {"customer": 7}, idempotency_key=key)], **({} if key else equal)
    )
    assert made == [(first.id, str(first.uuid), False, status)]
    assert admin.column("select id from all_runs") == [first.id]


def test_a_window_of_another_job_type_or_without_one_does_not_count(application: Connection, admin: SqlClient) -> None:
    wakeboard.enqueue(application, "ping", {"customer": 7})
    assert sync(application, 7).created
    assert wakeboard.enqueue(application, "ping", {"customer": 7}).created
    assert wakeboard.enqueue(application, "pong", {"customer": 7}, **HOUR).created
    assert admin.value("select count(*) from job_runs") == 4


# -- equal values ------------------------------------------------------------------------------------------------------

EQUAL: list[tuple[Any, Any, list[str] | None]] = [
    ({"customer": 7, "at": 1}, {"at": 2, "customer": 7}, ["customer"]),
    ({"customer": 7, "shop": 1, "at": 1}, {"customer": 7, "shop": 1, "at": 2}, ["shop", "customer", "shop"]),
    ({"customer": {"b": [2, {"c": 3, "d": 4}]}}, {"customer": {"b": [2, {"d": 4, "c": 3}]}}, ["customer"]),
    ({"customer": 1}, {"customer": 1.0}, ["customer"]),
    ({"customer": [{"a": 10.50}, {}]}, {"customer": [{"a": 10.5}, {}]}, ["customer"]),
    ({}, {"customer": None}, ["customer"]),
    ({"customer": {"a": None}}, {"customer": {}}, ["customer"]),
    ({"customer": 7}, {"customer": 8}, []),
    ({"customer": 7, "at": 1}, {"at": 1, "customer": 7}, None),
    ({"customer": "x" * 60_000, "at": 1}, {"customer": "x" * 60_000, "at": 2}, ["customer"]),
]
DIFFERENT: list[tuple[Any, Any, list[str] | None]] = [
    ({"customer": 7}, {"customer": "7"}, ["customer"]),
    ({"customer": 7}, {"customer": 8}, ["customer"]),
    ({"customer": 7}, {"customer": 8}, None),
    ({"customer": 7}, {"customer": 7, "at": 1}, None),
    ({"customer": []}, {"customer": {}}, ["customer"]),
    ({"customer": [1, 2]}, {"customer": [2, 1]}, ["customer"]),
    ({"customer": False}, {"customer": None}, ["customer"]),
    ({"customer": "1.0"}, {"customer": "1"}, ["customer"]),
    ({"a": "x", "b": "y"}, {"a": "y", "b": "x"}, ["a", "b"]),
    ({"a": 1, "b": None}, {"a": None, "b": 1}, ["a", "b"]),
    ({"customer": "x" * 60_000 + "y"}, {"customer": "x" * 60_000 + "z"}, ["customer"]),
]


@pytest.mark.parametrize(("one", "two", "names"), EQUAL, ids=range(len(EQUAL)))
def test_payloads_with_the_same_meaning_are_equal(
    application: Connection, one: Any, two: Any, names: list[str] | None
) -> None:
    first = wakeboard.enqueue(application, "ping", one, unique_for=60, unique_by=names)
    (again,) = wakeboard.enqueue_many(application, [Job("ping", two)], unique_for=60, unique_by=names)
    assert (again.id, again.created) == (first.id, False)


@pytest.mark.parametrize(("one", "two", "names"), DIFFERENT, ids=range(len(DIFFERENT)))
def test_payloads_with_another_value_are_different(
    application: Connection, one: Any, two: Any, names: list[str] | None
) -> None:
    for payload in (one, two):
        assert wakeboard.enqueue(application, "ping", payload, unique_for=60, unique_by=names).created


# -- replacing a run that waits ----------------------------------------------------------------------------------------


def test_a_queued_run_gets_the_newest_payload_and_time(application: Connection, admin: SqlClient) -> None:
    first = wakeboard.enqueue(application, "ping", {"customer": 7, "at": 1}, queue="q", priority=5, **REPLACE)
    admin.sql("update job_unique_keys set unique_until = now() + interval '1 s'")
    again = wakeboard.enqueue(application, "ping", {"customer": 7, "at": 2}, run_at=LATER, **REPLACE)
    assert (again.id, again.uuid, again.created) == (first.id, first.uuid, False)
    query = "select id, payload::jsonb, run_at, scheduled_for, queue, priority from job_runs"
    assert admin.sql(query) == [(first.id, {"customer": 7, "at": 2}, LATER, LATER, "q", 5)]
    assert admin.value("select unique_until > now() + interval '59 min' from job_unique_keys"), "the window goes on"


def test_a_replaced_run_is_claimed_once_at_its_new_time(
    application: Connection, worker: SqlClient, admin: SqlClient
) -> None:
    first = wakeboard.enqueue(application, "ping", {"customer": 7, "at": 1}, **REPLACE)
    wakeboard.enqueue(application, "ping", {"customer": 7, "at": 2}, run_at=LATER, **REPLACE)
    assert worker.claim() == []
    admin.sql("listen wakeboard")
    wakeboard.enqueue(application, "ping", {"customer": 7, "at": 3}, **REPLACE)
    assert len(list(admin.conn.notifies(timeout=5, stop_after=1))) == 1, "waiting workers learn the new time"
    assert [lease.id for lease in worker.claim()] == [first.id]
    assert worker.claim() == []


def test_a_failed_run_gets_the_newest_payload_and_its_attempts_begin_again(
    application: Connection, admin: SqlClient, worker: SqlClient
) -> None:
    first = wakeboard.enqueue(application, "ping", {"customer": 7, "at": 1}, **REPLACE)
    lease = worker.claims(first.id)
    worker.step(lease, "Collect", 1)
    worker.fail(lease)
    wakeboard.enqueue(application, "ping", {"customer": 7, "at": 1}, **REPLACE)
    assert admin.value("select count(*) from job_steps") == 1, "the same payload keeps its steps"
    again = wakeboard.enqueue(application, "ping", {"customer": 7, "at": 2}, **REPLACE)
    assert (again.id, again.created) == (first.id, False)
    query = "select status, attempts, payload::jsonb, run_at <= now() from job_runs"
    assert admin.sql(query) == [("queued", 0, {"customer": 7, "at": 2}, True)]
    assert admin.value("select count(*) from job_steps") == 0, "a result of another payload is not used"
    worker.complete(worker.claims(first.id))


# -- many in one call --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("window", "kept"), [(HOUR, 1), (REPLACE, 3)], ids=["keep", "replace"])
def test_of_several_in_one_call_one_is_kept(
    application: Connection, admin: SqlClient, window: dict[str, Any], kept: int
) -> None:
    jobs = [Job("ping", {"customer": 7, "at": at}) for at in (1, 2, 3)]
    for created in (True, False):
        made = wakeboard.enqueue_many(application, jobs, **window)
        assert len({run.id for run in made}) == 1
        assert [run.created for run in made] == [created, False, False]
        assert admin.column("select (payload ->> 'at')::integer from job_runs") == [kept]


# -- rules -------------------------------------------------------------------------------------------------------------


def test_windows_that_have_ended_are_deleted(application: Connection, admin: SqlClient) -> None:
    sync(application, 7)
    admin.sql(END_WINDOWS)
    live = sync(application, 8)
    assert admin.value("select delete_expired(always => true)") == 1
    assert admin.column("select run_id from job_unique_keys") == [live.id]


def test_a_call_in_repeatable_read_fails_rather_than_creating_a_second_run(
    application: Connection, other_application: Connection
) -> None:
    other_application.isolation_level = psycopg.IsolationLevel.REPEATABLE_READ
    other_application.execute("select 1")
    sync(application, 7)
    with pytest.raises(WakeboardError, match="serialize"):
        sync(other_application, 7)


@pytest.mark.parametrize(
    ("named", "sentence"),
    [
        ({"unique_for": timedelta(hours=1)}, r"unique_for is datetime\.timedelta.*; write a number of seconds"),
        ({"unique_for": 0}, r"unique_for is 0; write a number of seconds from 1 to 2678400 \(31 days\)"),
        (
            {"unique_for": 9, "unique_by": "customer"},
            r"unique_by is 'customer'; write a list of keys of the payload, such as \['customer'\]",
        ),
        ({"unique_for": 9, "unique_by": [1]}, "unique_by is 1, which is not text"),
        ({"unique_for": 9, "unique_by": ["a\0"]}, "leave it out"),
        ({"unique_for": 9, "unique_by": [str(n) for n in range(17)]}, "write up to 16 keys of the payload"),
        ({"unique_for": 9, "if_exists": "drop"}, 'if_exists is "drop"; write keep or replace'),
        ({"unique_for": 9, "if_exists": 1}, "if_exists is 1, which is not text"),
        ({"unique_by": ["a"]}, "unique_for is None; write a number of seconds"),
        ({"if_exists": "replace"}, "unique_for is None; write a number of seconds"),
    ],
)
def test_arguments_that_define_no_window_are_refused(
    application: Connection, named: dict[str, Any], sentence: str
) -> None:
    with pytest.raises((InvalidValue, WakeboardError), match=sentence):
        wakeboard.enqueue(application, "ping", **named)
    with pytest.raises((InvalidValue, WakeboardError), match=sentence):
        wakeboard.enqueue_many(application, [Job("ping")], **named)


def test_an_async_application_may_use_windows(database: str) -> None:
    async def enqueue() -> list[bool]:
        async with await connect(database) as conn:
            first = await wakeboard.enqueue(conn, "ping", {"customer": 7}, **HOUR)
            many = await wakeboard.enqueue_many(conn, [Job("ping", {"customer": 7})], **HOUR)
            return [first.created, many[0].created]

    assert anyio.run(enqueue) == [True, False]
