"""Errors of connection strings repeat no password and are final; tasks share a connection without harm."""

from __future__ import annotations

import asyncio
import os
import select
import signal
import time
import traceback
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final

import psycopg
import pytest
from psycopg.conninfo import conninfo_to_dict, make_conninfo
from psycopg.rows import dict_row

from wakeboard.actions.admin_api import AdminStore
from wakeboard.errors import DatabaseUnavailable, InvalidSettings, LoginRefused, WakeboardError
from wakeboard.store import reply_limit
from wakeboard.store.connection import (
    cancel_and_abort,
    connect,
    connect_blocking,
    connection_error,
    describe_dsn,
    require_schema,
)
from wakeboard.store.migrate import migrate
from wakeboard.store.reconnecting import ReconnectingConnection
from wakeboard.store.reply_limit import ReplyLimit
from wakeboard.store.statements import connection_lock, read
from wakeboard.views.queries.listings import Listings

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = pytest.mark.anyio

# A password in the two parts alpha and omega, with a character between them that means something in a URL.
MALFORMED = [
    "postgresql://ada:alpha%omega@127.0.0.1:1/board",
    "postgresql://ada:alpha%zzomega@127.0.0.1:1/board",
    "postgresql://ada:alpha%00omega@127.0.0.1:1/board",
    "postgresql://ada:alpha/omega@127.0.0.1:1/board",
    "postgresql://ada:x@alpha:omega@127.0.0.1:1/board",
    "postgresql://ada:alpha/omega",
    "postgres:/ada:alpha@omega",
    "host=127.0.0.1 port=1 password=alpha omega user=ada",
    "host=127.0.0.1 port=1 password='alpha omega user=ada",
    "host=127.0.0.1 port=alpha password=omega",
    "host=127.0.0.1,password=alphaomega",
    "alphaomega",
]
ODD = [
    "postgresql://ada:[alpha:omega@127.0.0.1:1/board",
    "postgresql://ada:x@alpha@127.0.0.1:1/board",
    "postgresql://ada:alpha omega@127.0.0.1:1/board",
    "postgresql://ada:alpha?omega@127.0.0.1:1/board",
    "postgresql://ada:alpha#omega@127.0.0.1:1/board",
    "postgresql://ada:x@alpha/omega@127.0.0.1:1/board",
    "postgresql://ada:12/alpha@omega:1/board",
    'postgresql://ada:x"alpha"omega@127.0.0.1:1/board',
    "host=127.0.0.1 port=1 password=alpha@omega user=ada",
]


@pytest.mark.parametrize(
    ("dsn", "sentence"),
    [
        (
            "postgresql://u@127.0.0.1:1,127.0.0.1:2/d",
            "cannot connect to database d on 127.0.0.1:1 or 127.0.0.1:2 as u: Connection refused.",
        ),
        (
            "host=/nowhere,127.0.0.1 port=1 user=u dbname=d",
            (
                "cannot connect to database d on /nowhere:1 or 127.0.0.1:1 as u: /nowhere: No such file or directory;"
                " 127.0.0.1: Connection refused."
            ),
        ),
    ],
)
async def test_one_sentence_says_why_no_host_answers(dsn: str, sentence: str) -> None:
    with pytest.raises(DatabaseUnavailable) as caught:
        await connect(dsn)
    assert str(caught.value) == sentence


FAILED: Final = 'connection failed: connection to server at "db1" (10.0.0.1), port 5432 failed: '


@pytest.mark.parametrize(
    ("failure", "hint"),
    [
        ("session is read-only", "read-only or a standby: promote one"),
        ("server is in hot standby mode", "read-only or a standby: promote one"),
        ("server is not in hot standby mode", "target_session_attrs in the DSN asks for a standby"),
        ("FATAL:  sorry, too many clients already", "raise max_connections"),
        ('FATAL:  too many connections for role "ada"', "the connection limit of the role"),
        ('FATAL:  too many connections for database "shop"', "the connection limit of the role"),
        ("FATAL:  remaining connection slots are reserved for roles with the SUPERUSER attribute", "End sessions"),
        ("FATAL:  no more connections allowed (max_client_conn)", "the pooler"),
        ("FATAL:  the database system is starting up", "starting or shutting down"),
        ('FATAL:  password authentication failed for user "ada"', "the user and the password"),
        ('FATAL:  role "ada" does not exist', "--print-roles"),
        ('FATAL:  no pg_hba.conf entry for host "10.0.0.9", user "ada", database "shop", no encryption', "pg_hba.conf"),
        ('FATAL:  pg_hba.conf rejects connection for host "10.0.0.9", user "ada"', "pg_hba.conf"),
        ('FATAL:  database "shop" does not exist', "Create the database"),
        (
            'FATAL:  permission denied for database "shop"\nDETAIL:  User does not have CONNECT privilege.',
            "Grant the role CONNECT",
        ),
        ("server does not support SSL, but SSL was required", "Check sslmode"),
        ("SSL error: certificate verify failed", "sslrootcert"),
        ("SSL error: wrong version number", "Check sslmode"),
        ("FATAL:  server login has been failing, try again later (server_login_retry)", "PgBouncer gets no connection"),
        ("Connection refused\n\tIs the server running on that host?", "Check that the server runs"),
        ("timeout expired", "Check that the server runs"),
        ("SCHWERWIEGEND:  tut mir leid, schon zu viele Verbindungen", "The server answers and refuses"),
    ],
)
def test_a_connection_that_cannot_be_made_says_what_to_do(failure: str, hint: str) -> None:
    dsn = "postgresql://ada@db1,db2/shop"
    assert hint in connection_error(dsn, psycopg.OperationalError(FAILED + failure)).hint
    of_hosts = "".join(f"\n- host: '{host}', port: None: {FAILED}{failure}" for host in ("db1", "db2"))
    assert hint in connection_error(dsn, psycopg.OperationalError(f"{FAILED}{failure}{of_hosts}")).hint


async def test_hosts_that_fail_differently_have_a_hint_each(database: str) -> None:
    dsn = make_conninfo(database, options="-c default_transaction_read_only=on", target_session_attrs="read-write")
    here = conninfo_to_dict(dsn)["host"]
    with pytest.raises(DatabaseUnavailable) as caught:
        await connect(make_conninfo(dsn, host=f"{here},/nowhere"))
    assert "promote one" in caught.value.hint
    assert "Check that the server runs" in caught.value.hint


@pytest.mark.parametrize("dsn", [*MALFORMED, *ODD])
async def test_no_part_of_a_password_is_repeated(dsn: str) -> None:
    """Not in the sentence, not in a traceback, not in the name of the place."""
    texts = describe_dsn(dsn)
    with pytest.raises(WakeboardError) as one:
        await connect(f"{dsn}")
    with pytest.raises(WakeboardError) as two:
        connect_blocking(dsn)
    for caught in (one, two):
        texts += str(caught.value) + "".join(traceback.format_exception_only(caught.value))
        assert caught.value.__cause__ is None
        assert caught.value.__suppress_context__ or caught.value.__context__ is None
    for part in ("alpha", "omega"):
        assert part not in texts


@pytest.mark.parametrize("dsn", MALFORMED)
async def test_a_malformed_connection_string_is_final(dsn: str) -> None:
    with pytest.raises(InvalidSettings, match="the DSN cannot be read: write postgresql://") as caught:
        await connect(dsn)
    assert not isinstance(caught.value, DatabaseUnavailable)


@pytest.mark.parametrize(
    ("dsn", "name"),
    [
        ("postgresql://u:alpha@h:6543/db?pgbouncer=true&connection_limit=1", "connection_limit"),
        ("postgresql://u:alpha@h/db?sslmode=require&supa=base-pooler.x", "supa"),
        ("host=h password=alpha schema=app", "schema"),
    ],
)
async def test_a_parameter_of_another_library_is_named(dsn: str, name: str) -> None:
    with pytest.raises(InvalidSettings, match=f"has the parameter {name}, which is of another") as caught:
        await connect(dsn)
    assert "alpha" not in str(caught.value)


@pytest.mark.parametrize(
    ("dsn", "says"),
    [
        (
            "postgresql://u:alpha@h/db?target_session_attr=any",
            "target_session_attr, .* not know: write target_session_a",
        ),
        ("host=h password=alpha sslmod=require", "sslmod, which libpq does not know: write sslmode"),
        ("postgresql://u:alpha@h/db?answer=42", "answer, which libpq does not know$"),
        ("postgresql://u@h/db?password=x&alpha=42", "cannot be read"),
        ("postgresql://u:x?alpha=42", "cannot be read"),
        ("host=h password=x alpha=42", "cannot be read"),
    ],
)
async def test_an_unknown_parameter_is_named_unless_it_may_be_a_password(dsn: str, says: str) -> None:
    with pytest.raises(InvalidSettings, match=says) as caught:
        await connect(dsn)
    assert "alpha" not in str(caught.value)


@pytest.fixture
def login(database: str) -> Iterator[str]:
    """A role that may not log in."""
    name = "may_not_log_in"
    with psycopg.connect(database, autocommit=True) as conn:
        conn.execute(f"create role {name} nologin")
        yield name
        conn.execute(f"drop role {name}")


async def test_a_refused_login_is_reported_as_such(database: str, login: str) -> None:
    with pytest.raises(LoginRefused, match=f"as {login}: role is not permitted to log in"):
        await connect(f"{database}&user={login}")
    with pytest.raises(LoginRefused, match="as nobody_made_it: role does not exist"):
        await connect(f"{database}&user=nobody_made_it")


async def test_a_database_that_is_missing_may_be_made_yet(database: str) -> None:
    with pytest.raises(DatabaseUnavailable, match=r"database not_made_yet on .*: database does not exist") as caught:
        await connect(f"{database}&dbname=not_made_yet")
    assert not isinstance(caught.value, LoginRefused)


async def test_reads_and_calls_of_many_tasks_do_not_meet_in_a_transaction(database: str):
    async with await connect(database) as conn:
        reports, store = Listings(conn), AdminStore(conn)

        for _ in range(5):
            await asyncio.gather(*(reports.pauses() for _ in range(5)), *(store.pause("all", "x") for _ in range(5)))
            await asyncio.gather(*(store.resume("all") for _ in range(5)), *(reports.now() for _ in range(5)))

        assert not conn.info.transaction_status


async def test_a_read_that_fails_takes_no_call_of_another_task_with_it(database: str):
    async with await connect(database) as conn:
        failing = [asyncio.create_task(_fail(conn)) for _ in range(10)]
        paused = [asyncio.create_task(AdminStore(conn).pause(f"queue:q{number}", "")) for number in range(10)]
        await asyncio.gather(*failing, *paused)

        assert len(await Listings(conn).pauses()) == 10


async def test_a_cancelled_task_releases_the_connection(database: str):
    async with await connect(database) as conn:
        async with connection_lock(conn):
            waiting = asyncio.create_task(Listings(conn).pauses())
            await asyncio.sleep(0)
            waiting.cancel()
            await asyncio.wait([waiting])
        assert await Listings(conn).pauses() == []


async def test_a_connection_without_an_answer_is_replaced(database: str) -> None:
    """Also one that the server keeps open: what waits for the answer must go on."""
    connection = ReconnectingConnection(database, "test", Listings, reply_s=0.5)
    first = (await connection.store()).conn
    with pytest.raises(DatabaseUnavailable, match=r"no reply came within 0\.5 s"):
        await read(first, dict_row, "select pg_sleep(60)")
    second = (await connection.store()).conn
    assert second is not first
    assert await read(second, dict_row, "select 1 as one") == [{"one": 1}]
    await asyncio.sleep(0.6)  # longer than the limit: it counts while a statement waits, not between two
    assert (await connection.store()).conn is second
    assert await read(second, dict_row, "select 1 as one") == [{"one": 1}]
    await connection.close()


async def test_a_statement_that_is_given_up_ends_in_the_server(database: str) -> None:
    """Its backend waits for a lock, so it does not notice that its client has gone."""
    async with await connect(database) as other:
        await other.execute("create table held ()")
        async with other.transaction():
            await other.execute("lock table held")
            blocking = connect_blocking(database, reply_limit=ReplyLimit(0.2))
            waiting = await connect(database, reply_limit=ReplyLimit(0.2))
            pids = [blocking.info.backend_pid, waiting.info.backend_pid]
            with pytest.raises(psycopg.OperationalError, match=r"no reply came within 0\.2 s"):
                await asyncio.to_thread(blocking.execute, "select from held")
            with pytest.raises(psycopg.OperationalError, match=r"no reply came within 0\.2 s"):
                await waiting.execute("select from held")
            for pid in pids:
                await _until(other, "select count(*) from pg_stat_activity where pid = %s", pid, 0)


async def test_sessions_that_do_not_end_are_not_followed_by_others(
    database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A backend that waits for its disk ends neither with a cancel nor with its connection."""
    monkeypatch.setattr(reply_limit, "CANCEL_S", 0.2)
    connection = ReconnectingConnection(database, "test", Listings, reply_s=0.2)
    frozen: list[int] = []
    try:
        for _ in range(2):
            conn = (await connection.store()).conn
            await read(conn, dict_row, "select 1 as one")
            frozen.append(conn.info.backend_pid)
            os.kill(frozen[-1], signal.SIGSTOP)
            with pytest.raises(DatabaseUnavailable, match="no reply came"):
                await read(conn, dict_row, "select 1 as one")
        with pytest.raises(DatabaseUnavailable, match="has not ended 2 statements"):
            await connection.store()
    finally:
        for pid in frozen:
            os.kill(pid, signal.SIGCONT)
    async with asyncio.timeout(30):
        while True:
            with suppress(DatabaseUnavailable):
                await read((await connection.store()).conn, dict_row, "select 1 as one")
                break
            await asyncio.sleep(0.01)
    await connection.close()


async def test_sessions_that_cannot_be_cancelled_are_bounded(database: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A libpq older than 17 has no safe cancel."""
    monkeypatch.setattr(psycopg.capabilities, "has_cancel_safe", lambda: False)
    async with await psycopg.AsyncConnection.connect(database) as holder:
        await holder.execute("lock table wakeboard.job_limits")
        connection = ReconnectingConnection(database, "test", Listings, reply_s=0.2)
        for _ in range(2):
            conn = (await connection.store()).conn
            with pytest.raises(DatabaseUnavailable, match="no reply came"):
                await read(conn, dict_row, "select from wakeboard.job_limits")
        with pytest.raises(DatabaseUnavailable, match="has not ended 2 statements"):
            await connection.store()
    await connection.close()


async def test_a_note_about_a_failed_statement_is_not_kept(database: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reply_limit, "WAITS_FOR_STANDBY", "exec_stmt_raise")
    raises = b"do $$ begin raise warning 'as of a commit'; raise exception 'failed'; end $$"
    async with await connect(database, reply_limit=ReplyLimit(5)) as conn:
        with pytest.raises(psycopg.errors.RaiseException):
            await conn.execute(raises)
        await conn.execute("select 1")
    with connect_blocking(database, reply_limit=ReplyLimit(5)) as blocking:
        with pytest.raises(psycopg.errors.RaiseException):
            blocking.execute(raises)
        blocking.execute("select 1")


async def test_a_session_that_the_server_has_ended_says_why(database: str) -> None:
    """Between two statements, libpq reports it as a notice."""
    async with await connect(database) as conn:
        await conn.execute("set idle_session_timeout = 1")  # ms; not before: it may end a login that is as slow as that
        await asyncio.to_thread(select.select, [conn.fileno()], [], [], 30)
        with suppress(psycopg.OperationalError):  # the end of the connection may have come with the reason
            conn.pgconn.consume_input()
        conn.pgconn.notifies()
        with pytest.raises(DatabaseUnavailable, match="lost: terminating connection due to idle-session") as caught:
            await read(conn, dict_row, "select 1 as one")
    assert "at least 10 s" in caught.value.hint


async def test_connections_that_do_not_last_become_rarer(database: str) -> None:
    """A pooler accepts connections while its server is away."""
    connection = ReconnectingConnection(database, "test", Listings)
    began = time.monotonic()
    for _ in range(5):
        await connection.store()
        await connection.pause()
    assert time.monotonic() - began > 0.75  # half of 50, 100, 200, 400 and 800 ms


async def _fail(conn: psycopg.AsyncConnection[Any]) -> None:
    with pytest.raises(WakeboardError):
        await read(conn, dict_row, "select 1 / 0")


def test_a_database_that_quotes_all_identifiers_accepts_the_inserts_of_the_functions(empty_database: str) -> None:
    with psycopg.connect(empty_database, autocommit=True) as conn:
        conn.execute(f"alter database {conn.info.dbname} set quote_all_identifiers = on".encode())
    asyncio.run(migrate(empty_database))
    with psycopg.connect(empty_database, autocommit=True) as conn:
        conn.execute("select wakeboard.enqueue('ping', limit_key => 'k')")


@pytest.mark.parametrize("is_reachable", [True, False])
@pytest.mark.parametrize("is_async", [True, False])
async def test_a_cancelled_statement_and_its_connection_end(
    database: str, is_async: bool, is_reachable: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also if the server cannot be reached for the cancel."""
    conn: Any = await connect(database) if is_async else connect_blocking(database)
    pid = conn.info.backend_pid

    def unreachable(**_: float) -> None:
        raise psycopg.OperationalError("no route to host")

    if not is_reachable:
        monkeypatch.setattr(conn, "cancel_safe", unreachable)

    async def execute(query: str) -> None:
        await (conn.execute(query) if is_async else asyncio.to_thread(conn.execute, query))

    async with await connect(database) as other:
        await other.execute("create table held ()")
        async with other.transaction():
            await other.execute("lock table held")
            asked = asyncio.create_task(execute("select from held"))
            waits = "select count(*) from pg_stat_activity where pid = %s and wait_event_type = 'Lock'"
            await _until(other, waits, pid, 1)
            await asyncio.to_thread(cancel_and_abort(conn).join)
            with pytest.raises(psycopg.OperationalError):
                await asked
            with pytest.raises(psycopg.OperationalError):
                await execute("select 1")
            if is_reachable:
                await _until(other, "select count(*) from pg_stat_activity where pid = %s", pid, 0)
    await conn.close() if is_async else conn.close()


async def _until(conn: psycopg.AsyncConnection[Any], query: str, pid: int, count: int) -> None:
    while True:
        await conn.execute("select pg_stat_clear_snapshot()")
        if await (await conn.execute(query.encode(), (pid,))).fetchone() == (count,):
            return
        await asyncio.sleep(0.01)


async def test_a_connection_that_is_lost_at_the_first_look_is_an_outage(database: str) -> None:
    async with await connect(database) as conn:
        await conn.close()
        with pytest.raises(DatabaseUnavailable):
            await require_schema(conn)
