"""Enqueueing from Python: the run has the arguments of the application, in its transaction."""

from __future__ import annotations

from contextlib import closing
from datetime import UTC, date, datetime, timedelta
from typing import TYPE_CHECKING, Any, cast

import anyio
import psycopg
import psycopg_pool
import pytest
import sqlalchemy
from psycopg.rows import dict_row

import wakeboard
from tests.postgres_servers import running_pooler
from wakeboard import Job
from wakeboard.errors import InvalidValue, KeyReused
from wakeboard.store.connection import connect
from wakeboard_worker.attempt import Attempt

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from concurrent.futures import ThreadPoolExecutor
    from pathlib import Path

    from tests.store.sql_clients import SqlClient

LATER = datetime(2031, 1, 1, 8, tzinfo=UTC)
AWKWARD = ['"', "\\", "{a,b}", "null", "", "ü€😀", "a'b", " ", "%s"]


@pytest.fixture
def application(database: str) -> Iterator[psycopg.Connection[Any]]:
    """An application's connection, as applications open them."""
    with closing(psycopg.connect(database)) as conn:
        yield conn


def store(admin: SqlClient, columns: str, join: str = "") -> list[tuple[Any, ...]]:
    return [tuple(row) for row in admin.sql(f"select {columns} from job_runs as run {join} order by run.id")]


def test_payloads_arrive_as_they_are(application: psycopg.Connection[Any], admin: SqlClient) -> None:
    payloads = [None, {}, [], [1, [2, None]], {"text": AWKWARD}, *({text: text} for text in AWKWARD), {"big": 2**53}]
    wakeboard.enqueue_many(application, [Job("ping", payload) for payload in payloads])
    for payload in payloads:
        wakeboard.enqueue(application, "ping", payload)
    application.commit()
    expected = [{} if payload is None else payload for payload in payloads]
    assert [payload for (payload,) in store(admin, "payload::jsonb")] == expected * 2


def test_each_of_many_may_have_everything_of_its_own(application: psycopg.Connection[Any], admin: SqlClient) -> None:
    wakeboard.enqueue_many(
        application,
        [
            Job("one", queue="q/1", priority=5, run_at=LATER, limit_key="l"),
            Job("t.wo"),
            Job("three", queue="null", limit_key="null", idempotency_key="{k\\'ü,\"}"),
        ],
        max_attempts=2,
        timeout_s=9,
    )
    application.commit()
    assert store(admin, "job_type, queue, priority, run_at = '2031-01-01 08:00Z', limit_key, idempotency_key") == [
        ("one", "q/1", 5, True, "l", None),
        ("t.wo", "default", 3, False, None, None),
        ("three", "null", 3, False, "null", "{k\\'ü,\"}"),
    ]
    assert set(store(admin, "max_attempts, timeout_s")) == {(2, 9)}


def test_a_key_makes_one_run_however_often_it_comes(application: psycopg.Connection[Any], admin: SqlClient) -> None:
    first = wakeboard.enqueue(application, "ping", {"n": 1}, idempotency_key="a")
    jobs = [Job("ping", {"n": 2}, idempotency_key="b"), Job("ping", {"n": 1}, idempotency_key="a"), Job("ping")]
    made = wakeboard.enqueue_many(application, [*jobs, jobs[0]])
    application.commit()
    assert [run.created for run in made] == [True, False, True, False]
    assert (made[1].id, made[3].id) == (first.id, made[0].id)
    again = [Job("ping", {"n": 2, "absent": None}, idempotency_key="b"), Job("ping", {"a": None}, idempotency_key="c")]
    assert [run.created for run in wakeboard.enqueue_many(application, again)] == [False, True]
    assert not wakeboard.enqueue(application, "ping", idempotency_key="c").created
    with pytest.raises(KeyReused):
        wakeboard.enqueue(application, "ping", {"a": 0}, idempotency_key="c")
    application.rollback()
    assert admin.value("select count(*) from job_runs") == 3


@pytest.mark.parametrize("ends", ["commit", "rollback"])
def test_enqueue_waits_for_a_key_that_another_transaction_is_inserting(
    application: psycopg.Connection[Any],
    admin: SqlClient,
    open_client: Callable[[int], SqlClient],
    meanwhile: ThreadPoolExecutor,
    ends: str,
) -> None:
    holder = open_client(0)
    holder.sql("begin")
    theirs = holder.enqueue(idempotency_key="a")
    jobs = [Job("ping", idempotency_key="b"), Job("ping", idempotency_key="a")]
    ours = meanwhile.submit(wakeboard.enqueue_many, application, jobs)
    admin.wait_until_a_session_waits()
    holder.sql(ends)
    b, a = ours.result(30)
    assert (b.created, a.created) == (True, ends == "rollback")
    assert (a.id == theirs) == (ends == "commit")


def test_runs_come_and_go_with_the_transaction_of_the_application(
    application: psycopg.Connection[Any], admin: SqlClient
) -> None:
    wakeboard.enqueue_many(application, [Job("ping")] * 3)
    assert store(admin, "id") == []
    application.rollback()
    assert store(admin, "id") == []


def test_enqueue_many_notifies_the_workers_once(application: psycopg.Connection[Any], admin: SqlClient) -> None:
    admin.sql("listen wakeboard")
    wakeboard.enqueue_many(application, [Job("ping")] * 1000)
    application.commit()
    assert len(list(admin.conn.notifies(timeout=5, stop_after=1))) == 1
    assert list(admin.conn.notifies(timeout=0)) == []


def test_an_application_with_rows_of_its_own_kind_gets_ours(database: str) -> None:
    with closing(psycopg.Connection[dict[str, Any]].connect(database, row_factory=dict_row)) as conn:
        (made,) = wakeboard.enqueue_many(conn, [Job("ping")])
        assert made.created


def test_many_runs_over_an_async_connection_and_a_transaction_pooler(
    database: str, tmp_path: Path, admin: SqlClient
) -> None:
    async def enqueue(dsn: str) -> None:
        async with await connect(dsn) as conn:
            for _ in range(2):
                await wakeboard.enqueue_many(conn, [Job("ping", {"text": AWKWARD}, queue="q")] * 10)

    tmp_path.chmod(0o755)
    with running_pooler(database, tmp_path, "transaction") as dsn:
        anyio.run(enqueue, dsn)
    assert set(store(admin, "queue, payload::text")) == {("q", store(admin, "payload::text")[0][0])}
    assert admin.value("select count(*) from job_runs") == 20


@pytest.mark.parametrize(
    ("named", "sentence"),
    [
        ({"job_type": 5}, "job_type is 5, which is not text"),
        ({"queue": b"mail"}, "queue is b'mail', which is not text"),
        ({"run_at": "2031-01-01T08:00Z"}, "run_at is '2031-01-01T08:00Z', which is no datetime"),
        ({"run_at": date(2031, 1, 1)}, "which is no datetime"),
        ({"priority": "3"}, "priority is '3'; write a whole number"),
        ({"priority": None}, "priority is None; write a whole number"),
        ({"timeout_s": timedelta(minutes=1)}, "timeout_s is datetime.timedelta.*; write a number of seconds"),
        ({"max_attempts": 2.0}, "max_attempts is 2.0; write a whole number"),
        ({"backoff": 5}, "backoff is 5, which is not text"),
    ],
)
def test_a_value_of_another_type_is_refused_by_its_name(
    application: psycopg.Connection[Any], named: dict[str, Any], sentence: str
) -> None:
    """Postgres would know no such function, which reads as a schema that is too old."""
    job: dict[str, Any] = {"job_type": "ping", **named}
    with pytest.raises(InvalidValue, match=sentence):
        wakeboard.enqueue(application, **job)
    if "backoff" not in job:
        of_all: dict[str, Any] = {name: job.pop(name) for name in ("timeout_s", "max_attempts") if name in job}
        with pytest.raises(InvalidValue, match=sentence):
            wakeboard.enqueue_many(application, [Job("ping"), Job(**job)], **of_all)


def test_a_pool_or_an_engine_is_refused_with_a_hint() -> None:
    given: dict[str, Any] = {
        "connection": psycopg_pool.ConnectionPool(open=False),
        "connect": sqlalchemy.create_engine("postgresql+psycopg://"),
    }
    for opener, pool in given.items():
        with pytest.raises(InvalidValue, match=rf"SQLAlchemy 2, such as one of its {opener}\(\)$"):
            wakeboard.enqueue(pool, "ping")


@pytest.mark.parametrize("kind", ["cursor", "session", "no connection"])
def test_what_is_no_connection_is_refused_with_what_to_pass(application: psycopg.Connection[Any], kind: str) -> None:
    session = type("Session", (), {"__module__": "sqlalchemy.orm.session"})()
    given: dict[str, Any] = {"cursor": application.cursor(), "session": session, "no connection": None}
    enqueue, enqueue_many, once = cast("list[Any]", [wakeboard.enqueue, wakeboard.enqueue_many, Attempt.once])
    calls = (enqueue, "ping"), (enqueue_many, [Job("ping")])
    name = {"cursor": "psycopg.Cursor", "session": "sqlalchemy.orm.session.Session", "no connection": "NoneType"}[kind]
    for call, what in calls:
        with pytest.raises(InvalidValue, match=f"{name}; pass a connection of psycopg 3, .* SQLAlchemy 2$"):
            call(given[kind], what)
    with pytest.raises(InvalidValue, match=name):  # before the attempt keeps the connection
        once(None, given[kind], "charge")
