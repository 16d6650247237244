"""Each connection of an application that `enqueue` takes: its transaction, its errors, its refusals."""

from __future__ import annotations

import inspect
import json
import re
import subprocess
import sys
from contextlib import asynccontextmanager, suppress
from datetime import UTC, datetime
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast
from uuid import UUID

import anyio
import psycopg
import pytest
from psycopg.conninfo import conninfo_to_dict

import wakeboard
from wakeboard import Job
from wakeboard.engine.effects import Lease, once
from wakeboard.errors import (
    DatabaseUnavailable,
    InvalidValue,
    KeyReused,
    LeaseLost,
    Refused,
    SchemaMismatch,
    WakeboardError,
)
from wakeboard.store.callers_connection import callers_connection

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Callable
    from contextlib import AbstractAsyncContextManager

    from tests.store.sql_clients import SqlClient

    Door = Callable[..., AbstractAsyncContextManager[Any]]

LATER = datetime(2031, 1, 1, 8, tzinfo=UTC)
asyncpg: Any = import_module("asyncpg")  # some of these have no types
django_db: Any = import_module("django.db")
django_transaction: Any = import_module("django.db.transaction")
sqlalchemy: Any = import_module("sqlalchemy")
orm: Any = import_module("sqlalchemy.orm")
sqlalchemy_asyncio: Any = import_module("sqlalchemy.ext.asyncio")


def configure_django() -> None:
    settings: Any = import_module("django.conf").settings
    if not settings.configured:
        settings.configure(USE_TZ=True)
        import_module("django").setup()


async def value_of(answer: Any) -> Any:
    return await answer if inspect.isawaitable(answer) else answer


# Each opens a connection in one transaction, and ends it by a commit or a rollback. `autocommit`: in none.


async def end(transaction: Any, *, commit: bool) -> None:
    if commit:
        await value_of(transaction.commit())
    else:
        with suppress(Exception):  # a lost connection
            await value_of(transaction.rollback())


@asynccontextmanager
async def psycopg_connection(dsn: str, *, commit: bool = False, autocommit: bool = False) -> AsyncGenerator[Any]:
    with psycopg.connect(dsn, autocommit=autocommit, cursor_factory=psycopg.ClientCursor) as conn:
        yield conn
        await end(conn, commit=commit)


@asynccontextmanager
async def psycopg_async(dsn: str, *, commit: bool = False, autocommit: bool = False) -> AsyncGenerator[Any]:
    async with await psycopg.AsyncConnection.connect(dsn, autocommit=autocommit) as conn:
        yield conn
        await end(conn, commit=commit)


@asynccontextmanager
async def asyncpg_connection(dsn: str, *, commit: bool = False, autocommit: bool = False) -> AsyncGenerator[Any]:
    """With codecs of the application's own, as asyncpg's documentation shows them."""
    conn = await asyncpg.connect(**named(dsn, "database"))
    await conn.set_type_codec("jsonb", encoder=json.dumps, decoder=json.loads, schema="pg_catalog")
    for name in ("timestamptz", "uuid"):
        await conn.set_type_codec(name, encoder=repr, decoder=str, schema="pg_catalog", format="text")
    try:
        if autocommit:
            yield conn
        else:
            transaction = conn.transaction()
            await transaction.start()
            yield conn
            await end(transaction, commit=commit)
    finally:
        await conn.close()


@asynccontextmanager
async def asyncpg_pool(dsn: str, *, commit: bool = False, autocommit: bool = False) -> AsyncGenerator[Any]:
    async with asyncpg.create_pool(**named(dsn, "database"), min_size=1) as pool, pool.acquire() as conn:
        if autocommit:
            yield conn
            return
        transaction = conn.transaction()
        await transaction.start()
        yield conn
        await end(transaction, commit=commit)


def named(dsn: str, name_of_database: str) -> dict[str, Any]:
    given = conninfo_to_dict(dsn)
    return {name: given[name] for name in ("host", "port", "user")} | {name_of_database: given["dbname"]}


def sqlalchemy_door(kind: Any) -> Door:
    @asynccontextmanager
    async def opened(dsn: str, *, commit: bool = False, autocommit: bool = False) -> AsyncGenerator[Any]:
        options = engine_options(dsn, "dbname", autocommit=autocommit)
        with kind(sqlalchemy.create_engine("postgresql+psycopg://", **options)) as conn:
            yield conn
            await end(conn, commit=commit)

    return opened


def sqlalchemy_async_door(kind: Any, driver: str) -> Door:
    @asynccontextmanager
    async def opened(dsn: str, *, commit: bool = False, autocommit: bool = False) -> AsyncGenerator[Any]:
        name = "database" if driver == "asyncpg" else "dbname"
        options = engine_options(dsn, name, autocommit=autocommit)
        async with kind(sqlalchemy_asyncio.create_async_engine(f"postgresql+{driver}://", **options)) as conn:
            yield conn
            await end(conn, commit=commit)

    return opened


def engine_options(dsn: str, name_of_database: str, *, autocommit: bool) -> dict[str, Any]:
    level = {"isolation_level": "AUTOCOMMIT"} if autocommit else {}
    return {"poolclass": sqlalchemy.NullPool, "connect_args": named(dsn, name_of_database), **level}


def django_database(dsn: str) -> dict[str, Any]:
    given = conninfo_to_dict(dsn)
    names = {"host": "HOST", "port": "PORT", "user": "USER", "dbname": "NAME"}
    return {"ENGINE": "django.db.backends.postgresql", **{names[name]: given[name] for name in names}}


@asynccontextmanager
async def django_connection(dsn: str, *, commit: bool = False, autocommit: bool = False) -> AsyncGenerator[Any]:
    connections = django_db.connections
    connections.settings = connections.configure_settings({"default": django_database(dsn)})
    try:
        if autocommit:
            yield django_db.connection
        else:
            with django_transaction.atomic():
                yield django_db.connection
                django_transaction.set_rollback(not commit)
    finally:
        connections["default"].close()
        del connections["default"]


DOORS: dict[str, Door] = {
    "psycopg": psycopg_connection,
    "psycopg async": psycopg_async,
    "asyncpg": asyncpg_connection,
    "asyncpg pool": asyncpg_pool,
    "SQLAlchemy Connection": sqlalchemy_door(sqlalchemy.Engine.connect),
    "SQLAlchemy Session": sqlalchemy_door(orm.Session),
    "SQLAlchemy AsyncConnection, psycopg": sqlalchemy_async_door(sqlalchemy_asyncio.AsyncEngine.connect, "psycopg"),
    "SQLAlchemy AsyncSession, psycopg": sqlalchemy_async_door(sqlalchemy_asyncio.AsyncSession, "psycopg"),
    "SQLAlchemy AsyncConnection, asyncpg": sqlalchemy_async_door(sqlalchemy_asyncio.AsyncEngine.connect, "asyncpg"),
    "SQLAlchemy AsyncSession, asyncpg": sqlalchemy_async_door(sqlalchemy_asyncio.AsyncSession, "asyncpg"),
    "Django": django_connection,
}


@pytest.fixture(params=DOORS)
def door(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Door:
    monkeypatch.setenv("DJANGO_ALLOW_ASYNC_UNSAFE", "1")
    configure_django()
    return DOORS[request.param]


async def use_everything(conn: Any, lease: Lease) -> list[Any]:
    first = await value_of(wakeboard.enqueue(conn, "ping", {"a": "%s ü"}, run_at=LATER, idempotency_key="k"))
    options: dict[str, Any] = {"unique_for": 9, "unique_by": ["a"], "if_exists": "replace"}
    second = await value_of(wakeboard.enqueue(conn, "ping", {"a": 1}, priority=5, after=[first], **options))
    jobs = [Job("ping", {"b": 1}, "q", 4, None, None, "l", [first]), Job("ping", run_at=LATER, idempotency_key='"{')]
    many = await value_of(wakeboard.enqueue_many(conn, jobs))
    assert (await value_of(wakeboard.schedule(conn, "a/b", "ping", {"a": 1}, cron="0 8 * * MON", jitter_s=9))).id
    assert [one.name for one in await value_of(wakeboard.list_schedules(conn, "a/*"))] == ["a/b"]
    assert isinstance(first.uuid, UUID)
    assert [run.created for run in (first, second, *many)] == [True] * 4
    assert [(await value_of(once(conn, lease, "charge"))).is_first for _ in range(2)] == [True, False]
    return [first.id, second.id, *(run.id for run in many)]


def test_what_it_commits_exists_and_what_it_rolls_back_does_not(
    door: Door, database: str, admin: SqlClient, worker: SqlClient
) -> None:
    admin.enqueue()
    claimed = worker.claim()[0]
    lease = Lease(worker.worker_id, claimed.id, worker.run(claimed.id).uuid, claimed.epoch)
    rows = "select array_agg(id order by id) from job_runs where id <> %s", claimed.id

    async def story() -> None:
        async with door(database) as conn:
            await use_everything(conn, lease)
            assert callers_connection(conn).is_in_transaction()
        assert not callers_connection(conn).is_in_transaction()
        assert (admin.value(*rows), admin.value("select count(*) from job_definitions")) == (None, 0)
        async with door(database, commit=True) as conn:
            ids = await use_everything(conn, lease)
        assert (admin.value(*rows), admin.value("select count(*) from job_definitions")) == (ids, 1)

    anyio.run(story)
    columns = admin.sql("select run_at, priority, queue from job_runs where id <> %s order by id", claimed.id)
    assert [tuple(row[1:]) for row in columns] == [(3, "default"), (5, "default"), (4, "q"), (3, "default")]
    assert [row[0] == LATER for row in columns] == [True, False, False, True]
    assert admin.value("select payload ->> 'a' from job_runs where idempotency_key = 'k'") == "%s ü"


def test_its_errors_mean_the_same(door: Door, database: str, empty_database: str) -> None:
    lost = Lease(7, 1, UUID(int=1), 1)
    enqueue, enqueue_many = cast("list[Any]", [wakeboard.enqueue, wakeboard.enqueue_many])

    async def refused(kind: type[WakeboardError], sentence: str, call: Callable[[Any], Any], **options: Any) -> None:
        async with door(options.pop("dsn", database), **options) as conn:
            with pytest.raises(kind, match=sentence):
                await value_of(call(conn))

    async def reuse(conn: Any) -> None:
        for number in (1, 2):
            await value_of(wakeboard.enqueue(conn, "ping", {"n": number}, idempotency_key="k"))

    async def lose_connection(conn: Any) -> None:
        await value_of(wakeboard.enqueue(conn, "ping"))
        with psycopg.connect(database, autocommit=True) as admin:
            others = "where datname = current_database() and pid <> pg_backend_pid()"
            admin.execute(
                f"select pg_terminate_backend(pid, 5000) from pg_stat_activity {others} and state like 'idle%'"
            )
        await value_of(wakeboard.enqueue(conn, "ping"))

    async def story() -> None:
        await refused(KeyReused, "another payload", reuse)
        await refused(InvalidValue, "after holds run 99", lambda conn: enqueue(conn, "ping", after=[99]))
        wrong = [Job("ping"), Job("ping", queue="-")]
        await refused(InvalidValue, r"jobs\[1\] \(ping\): queue", lambda conn: enqueue_many(conn, wrong))
        await refused(LeaseLost, "roll this transaction back", lambda conn: once(conn, lost, "charge"))
        await refused(Refused, "needs a transaction", lambda conn: once(conn, lost, "charge"), autocommit=True)
        await refused(SchemaMismatch, "migrate`", lambda conn: enqueue(conn, "ping"), dsn=empty_database)
        await refused(DatabaseUnavailable, "connection", lose_connection)

    anyio.run(story)


def test_a_read_only_transaction_of_the_application_is_refused(database: str) -> None:
    with psycopg.connect(database) as conn:
        conn.read_only = True
        with pytest.raises(Refused, match="the transaction is read-only"):
            wakeboard.enqueue(conn, "ping")
    options = engine_options(database, "dbname", autocommit=False)
    engine = sqlalchemy.create_engine("postgresql+psycopg://", **options)
    with (
        engine.connect().execution_options(postgresql_readonly=True) as over,
        pytest.raises(Refused, match="the transaction is read-only"),
    ):
        wakeboard.enqueue(over, "ping")


def test_another_driver_under_sqlalchemy_is_refused_by_name() -> None:
    with (
        sqlalchemy.create_engine("sqlite://").connect() as conn,
        pytest.raises(InvalidValue, match=r"pysqlite; .*\+psycopg://"),
    ):
        wakeboard.enqueue(conn, "ping")


_FIRST_USE = """
import sys, django, wakeboard
from django.conf import settings
settings.configure(DATABASES={"default": eval(sys.argv[1])})
django.setup()
from django.db import connection
print(wakeboard.enqueue(connection, "ping").id)
"""


def test_django_opens_its_first_connection_of_a_process_for_the_call(admin: SqlClient) -> None:
    """Until then it has not imported the backend, whose class tells its connections from others."""
    command = [sys.executable, "-c", _FIRST_USE, repr(django_database(admin.dsn))]
    process = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
    assert process.stdout.strip() == str(admin.value("select id from job_runs")), process.stderr


def test_the_examples_of_the_guide_enqueue_with_their_order(
    database: str, admin: SqlClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    """docs/frameworks.md: all its Python is executed, except the requests to its FastAPI application."""
    monkeypatch.setenv("DJANGO_ALLOW_ASYNC_UNSAFE", "1")
    configure_django()
    text = (Path(__file__).parents[2] / "docs" / "frameworks.md").read_text("utf-8")
    guide: dict[str, Any] = {}
    for block in re.findall(r"^```python\n(.*?)^```$", text, re.DOTALL | re.MULTILINE):
        exec(compile(block, "frameworks.md", "exec", dont_inherit=True), guide)
    admin.sql("create table public.orders (id integer primary key)")

    async def story() -> None:
        async with DOORS["SQLAlchemy Session"](database, commit=True) as session:
            guide["place_order"](session, 1)
        async with DOORS["SQLAlchemy AsyncSession, asyncpg"](database, commit=True) as session:
            await guide["place_order_async"](session, 2)
        async with DOORS["asyncpg pool"](database, autocommit=True) as conn:
            await guide["place_order_asyncpg"](conn, 3)
        async with DOORS["Django"](database, autocommit=True):
            guide["place_order_django"](4)

    anyio.run(story)
    assert guide["make_app"](database).title == "FastAPI"
    assert admin.value("select array_agg((payload ->> 'order')::integer order by id) from job_runs") == [1, 2, 3, 4]
