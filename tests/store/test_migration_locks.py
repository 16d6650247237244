"""`migrate` beside applications: nothing waits long behind it, nothing fails, and it says what it waits for."""

from __future__ import annotations

import threading
from contextlib import contextmanager
from queue import Queue
from typing import TYPE_CHECKING, Any

import anyio
import psycopg
import pytest
from psycopg.conninfo import make_conninfo
from psycopg.rows import scalar_row

import wakeboard
from chaos.lock_waits import LockWaits
from tests.store.sql_clients import SqlClient
from wakeboard.errors import DatabaseUnavailable, SchemaMismatch
from wakeboard.store import migrate
from wakeboard.store.migration_locks import LOCK_WAIT_S
from wakeboard.store.roles import Roles
from wakeboard.store.schema_files import Migration, SqlFunction, migrations, sql_functions

if TYPE_CHECKING:
    from collections.abc import Callable, Generator
    from concurrent.futures import ThreadPoolExecutor

    from wakeboard.store.migrate import Migrated

pytestmark = pytest.mark.every_postgres

LATER = Migration(
    len(migrations()) + 1,
    "later",
    "-- locks: job_definitions, job_keys, job_runs\n"
    "alter table job_runs add column later text; alter table job_definitions add column later text;"
    " alter table job_keys add column later text",
)
A_STATEMENT_WAITS_S = 0.2
UNDO = (  # each in a transaction of its own: in one, it would deadlock with the applications
    *(f"alter table wakeboard.{table} drop column later" for table in ("job_definitions", "job_keys", "job_runs")),
    f"delete from wakeboard.migrations where version = {LATER.version}",
    "update wakeboard.installation set functions_hash = ''",
)


WATCH_FUNCTIONS = """
create table written (name text, under_lock boolean);
create function watch() returns event_trigger language plpgsql as $$
begin
  insert into public.written
  select object_identity, exists (select from pg_locks where pid = pg_backend_pid() and mode = 'AccessExclusiveLock'
                                     and relation = 'wakeboard.job_runs'::regclass)
    from pg_event_trigger_ddl_commands() where command_tag = 'CREATE FUNCTION';
end $$;
create event trigger watch on ddl_command_end when tag in ('CREATE FUNCTION') execute function watch();
"""


@pytest.fixture(autouse=True)
def _a_migration_is_pending(database: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Another migration has come with a release that replaces all functions."""
    monkeypatch.setattr(migrate, "migrations", lambda: (*migrations(), LATER))
    with psycopg.connect(database, autocommit=True) as conn:
        conn.execute("update wakeboard.installation set functions_hash = ''")


def migrated(dsn: str, say: Callable[[str], None] = lambda _: None, **named: Any) -> Migrated:
    async def go() -> Migrated:
        return await migrate.migrate(dsn, say=say, **named)

    return anyio.run(go)


@contextmanager
def enqueueing(dsn: str, meanwhile: ThreadPoolExecutor) -> Generator[list[int]]:
    """Two applications enqueue and a worker claims and completes, all the time. Yields how many calls there were."""
    stop, calls = threading.Event(), [0]

    def repeat(act: Callable[[], object]) -> None:
        while not stop.is_set():
            act()
            calls[0] += 1

    def enqueue() -> None:
        with psycopg.connect(dsn, autocommit=True) as conn:
            keys = iter(range(1_000_000))
            repeat(lambda: wakeboard.enqueue(conn, "ping", idempotency_key=f"{threading.get_ident()}-{next(keys)}"))

    def work() -> None:
        worker = SqlClient(dsn, 71)
        repeat(lambda: worker.complete(*worker.claim()))
        worker.close()

    running = [meanwhile.submit(act) for act in (enqueue, enqueue, work)]
    try:
        yield calls
    finally:
        stop.set()
    for one in running:
        one.result()


def test_a_migration_under_load_delays_no_call_and_fails_none(database: str, meanwhile: ThreadPoolExecutor) -> None:
    said: Queue[str] = Queue()
    with psycopg.connect(database, application_name="a long one") as holder, enqueueing(database, meanwhile) as calls:
        pid = holder.info.backend_pid
        wakeboard.enqueue(holder, "held")
        migrating = meanwhile.submit(migrated, database, said.put)
        sentence = said.get(timeout=60)
        assert f"pid {pid} (user " in sentence
        assert "application_name a long one, idle in transaction, open for " in sentence
        assert "uses job_runs)" in sentence
        before = calls[0]
        said.get(timeout=60)  # it says so again while it waits
        assert calls[0] > before
        holder.commit()
        assert migrating.result().applied == ("later",)


def test_only_functions_of_a_new_type_are_written_under_the_locks(
    database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """To write all takes many times as long as what a migration changes."""
    text = "-- locks: job_runs\ncreate type later as (number bigint); alter table job_runs add column later later"
    monkeypatch.setattr(migrate, "migrations", lambda: (*migrations(), Migration(LATER.version, "later", text)))
    function = SqlFunction(
        "of_later",
        "create or replace function wakeboard.of_later(given wakeboard.later)\nreturns bigint language sql\nas $$\n"
        "  select given.number\n$$;\n",
        frozenset({"worker"}),
        "It needs the type.",
    )
    monkeypatch.setattr(migrate, "sql_functions", lambda: (*sql_functions(), function))
    with psycopg.connect(database, autocommit=True) as conn:
        worker = f"worker_{conn.info.dbname}"
        conn.execute(WATCH_FUNCTIONS)
        conn.execute(f"create role {worker}".encode())
        try:
            assert migrated(database, roles=Roles(worker=worker)).applied == ("later",)
            assert dict(conn.execute("select under_lock, count(*) from written group by 1")) == {
                False: len(sql_functions()),
                True: 1,
            }
            granted = conn.execute(
                "select has_function_privilege(%s, 'wakeboard.of_later(wakeboard.later)', 'execute'),"
                " proacl::text !~ '(^|[{,])=X' from pg_proc where proname = 'of_later'",
                (worker,),
            )
            assert granted.fetchone() == (True, True)
        finally:
            conn.execute(f"drop owned by {worker}; drop role {worker}".encode())


def test_a_migration_says_how_long_it_held_up_others(database: str, meanwhile: ThreadPoolExecutor) -> None:
    """How long that is, the machine decides. The bound is twice LOCK_WAIT_S; `chaos.upgrade` measures it."""
    said = list[float]()
    with enqueueing(database, meanwhile), psycopg.connect(database, autocommit=True) as conn:
        for _ in range(3):
            with LockWaits(database) as waits:
                said.append(migrated(database).held_up_s)
            assert waits.longest_s <= said[-1]
            for statement in UNDO:
                conn.execute(statement.encode())
    assert min(said) > 0
    assert 2 * LOCK_WAIT_S <= A_STATEMENT_WAITS_S


def test_a_session_whose_state_is_hidden_is_named(empty_database: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of transactions of other roles, Postgres shows state and age to members of pg_read_all_stats only."""
    with psycopg.connect(empty_database, autocommit=True) as conn, conn.cursor(row_factory=scalar_row) as cursor:
        base = cursor.execute("select current_database()").fetchone()
        conn.execute(f"create role owner_{base} login; grant create on database {base} to owner_{base}".encode())
        owner = make_conninfo(empty_database, user=f"owner_{base}")
        try:
            with monkeypatch.context() as before:
                before.setattr(migrate, "migrations", migrations)
                migrated(owner)
            with psycopg.connect(empty_database, application_name="other") as holder:
                holder.execute("select count(*) from wakeboard.job_keys")
                named = rf"pid {holder.info.backend_pid} \(user \w+, application_name other, uses job_keys\)"
                with pytest.raises(SchemaMismatch, match=named):
                    migrated(owner, wait_s=1.2)
            assert migrated(owner, wait_s=5).applied == ("later",)
        finally:
            conn.execute(f"drop owned by owner_{base} cascade; drop role owner_{base}".encode())


def test_a_session_that_maintains_a_table_is_named(database: str) -> None:
    """Such as a VACUUM. The migration asks for its lock before applications could wait for that."""
    with psycopg.connect(database) as vacuum:
        vacuum.execute("lock table wakeboard.job_runs in share update exclusive mode")
        with pytest.raises(SchemaMismatch, match=f"pid {vacuum.info.backend_pid} .*uses job_runs"):
            migrated(database, wait_s=0)


@pytest.mark.parametrize(
    ("held", "change"),
    [
        ("select wakeboard.enqueue('ping', idempotency_key => 'a')", "alter table job_keys add column later text"),
        (
            "lock table wakeboard.job_run_history in share update exclusive mode",
            "comment on table job_run_history is 'later'",
        ),
    ],
)
def test_a_session_that_holds_an_undeclared_lock_is_named(
    database: str, monkeypatch: pytest.MonkeyPatch, held: str, change: str
) -> None:
    monkeypatch.setattr(migrate, "migrations", lambda: (*migrations(), Migration(LATER.version, "later", change)))
    said = list[str]()
    with psycopg.connect(database) as holder:
        holder.execute(held.encode())
        named = f"pid {holder.info.backend_pid} "
        with pytest.raises(SchemaMismatch, match=f"{named}.*End them"):
            migrated(database, said.append, wait_s=1.5)
    assert named in said[0]


def test_a_migration_that_loses_its_connection_while_it_waits_says_so(
    database: str, meanwhile: ThreadPoolExecutor
) -> None:
    """As in a failover: `wakeboard migrate --wait` then tries again."""
    said: Queue[str] = Queue()
    with psycopg.connect(database, autocommit=True) as conn, psycopg.connect(database) as holder:
        holder.execute("select count(*) from wakeboard.job_keys")
        migrating = meanwhile.submit(migrated, database, said.put)
        said.get(timeout=60)
        conn.execute(
            "select pg_terminate_backend(pid) from pg_stat_activity where application_name = 'wakeboard migrate'"
        )
        assert isinstance(migrating.exception(timeout=60), DatabaseUnavailable)


def test_after_its_time_a_migration_ends_and_has_changed_nothing(database: str) -> None:
    with psycopg.connect(database, application_name="forgotten") as holder:
        holder.execute("select count(*) from wakeboard.job_keys")
        with pytest.raises(
            SchemaMismatch, match=r"nothing was migrated: for 0\.7 s other .* application_name forgotten"
        ):
            migrated(database, wait_s=0.7)
        state = holder.execute("select max(version) from wakeboard.migrations").fetchone()
        assert state == (LATER.version - 1,)
    assert migrated(database, wait_s=0).applied == ("later",)
