"""`migrate` builds an index of a large table beside all else. A build that ended early is done again."""

from __future__ import annotations

import asyncio
import threading
from contextlib import contextmanager
from queue import Queue
from typing import TYPE_CHECKING, Any, Final

import psycopg
import pytest
from psycopg.conninfo import make_conninfo

import wakeboard
from chaos.lock_waits import LockWaits
from testbed.processes import wait_for
from tests.postgres_servers import running_pooler
from wakeboard.errors import DatabaseUnavailable, WakeboardError
from wakeboard.store import migrate
from wakeboard.store.schema_files import Migration, migrations

if TYPE_CHECKING:
    from collections.abc import Callable, Generator
    from concurrent.futures import ThreadPoolExecutor
    from pathlib import Path

    from wakeboard.store.migrate import Migrated

pytestmark = pytest.mark.every_postgres

NEWEST: Final = migrations()[-1].version
LATER: Final = Migration(
    NEWEST + 1,
    "later",
    "-- An index beside another change.\n-- locks: job_keys\nalter table job_keys add column later text;\n"
    "create index concurrently later on wakeboard.job_definitions (name)\n  where removed_at is null;\n",
)
IS_VALID: Final = "select indisvalid from pg_index where indexrelid = to_regclass('wakeboard.later')"
BUILDERS: Final = (
    "select pid from pg_stat_activity where query like 'create index concurrently later%' and state = 'active'"
)


@pytest.fixture(autouse=True)
def _an_index_is_pending(database: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(migrate, "migrations", lambda: (*migrations(), LATER))


def migrated(dsn: str, say: Callable[[str], None] = lambda _: None, **named: Any) -> Migrated:
    return asyncio.run(migrate.migrate(dsn, say=say, **named))


def ask(dsn: str, query: str) -> Any:
    with psycopg.connect(dsn, autocommit=True) as conn:
        row = conn.execute(query.encode()).fetchone()
        return row[0] if row else None


@contextmanager
def old_transaction(dsn: str) -> Generator[psycopg.Connection[Any]]:
    """A transaction that may still read older rows, and has a lock on no table of ours: as that of pg_dump."""
    with psycopg.connect(dsn, application_name="a report") as conn:
        conn.isolation_level = psycopg.IsolationLevel.REPEATABLE_READ
        conn.execute("select 1")
        yield conn


@contextmanager
def scheduling(dsn: str, meanwhile: ThreadPoolExecutor) -> Generator[list[int]]:
    """An application writes schedules all the time. Yields how many it has written."""
    stop, written = threading.Event(), [0]

    def write() -> None:
        with psycopg.connect(dsn, autocommit=True) as conn:
            while not stop.is_set():
                wakeboard.schedule(conn, f"app/{written[0] % 50}", "ping", cron="0 3 * * *")
                written[0] += 1

    running = meanwhile.submit(write)
    try:
        yield written
    finally:
        stop.set()
    running.result()


def test_nothing_waits_for_an_index_that_waits_for_a_transaction(database: str, meanwhile: ThreadPoolExecutor) -> None:
    said: Queue[str] = Queue()
    with scheduling(database, meanwhile) as written, LockWaits(database) as waits, old_transaction(database) as holder:
        migrating = meanwhile.submit(migrated, database, said.put)
        sentence = said.get(timeout=60)
        assert "s more to build later, for which no statement waits. Transactions are in the way: pid " in sentence
        assert f"pid {holder.info.backend_pid} (user " in sentence
        assert "application_name a report, idle in transaction, open for " in sentence
        before = written[0]
        wait_for(lambda: written[0] > before + 50)
        assert ask(database, f"select max(version) = {LATER.version} from wakeboard.migrations")
        holder.rollback()
        done = migrating.result(timeout=60)
    assert (done.applied, done.built, done.unbuilt) == (("later",), ("later",), ())
    assert waits.longest_s <= done.held_up_s
    assert ask(database, IS_VALID)


def test_an_index_not_built_in_time_is_named_and_built_later(database: str) -> None:
    said = list[str]()
    with old_transaction(database) as holder:
        done = migrated(database, said.append, wait_s=0)
        pid = holder.info.backend_pid
    assert said[-1].startswith(f"not built: later, because transactions were in the way for 0.5 s. pid {pid} (user ")
    assert (done.applied, done.built, done.unbuilt) == (("later",), (), ("later",))
    assert ask(database, BUILDERS) is None
    assert ask(database, IS_VALID) is False
    done = migrated(database)
    assert (done.applied, done.built) == ((), ("later",))
    assert ask(database, IS_VALID)


def test_after_a_build_was_killed_the_next_migrator_builds_the_index(
    database: str, meanwhile: ThreadPoolExecutor
) -> None:
    said: Queue[str] = Queue()
    with old_transaction(database):
        killed = meanwhile.submit(migrated, database, said.put)
        said.get(timeout=60)
        ask(database, f"select pg_terminate_backend(pid) from ({BUILDERS}) as builder")
        assert isinstance(killed.exception(timeout=60), DatabaseUnavailable)
    assert ask(database, IS_VALID) is False
    assert migrated(database).built == ("later",)
    assert migrated(database).built == ()


def test_a_build_that_its_user_interrupts_ends_on_the_server(database: str) -> None:
    async def interrupt() -> None:
        def say(_: str) -> None:
            migrating.cancel()

        migrating = asyncio.ensure_future(migrate.migrate(database, say=say))
        with pytest.raises(asyncio.CancelledError):
            await migrating

    with old_transaction(database):
        asyncio.run(interrupt())
        assert ask(database, BUILDERS + "") is None
    assert ask(database, IS_VALID) is False


def test_of_migrators_at_once_one_builds_the_index(database: str, meanwhile: ThreadPoolExecutor) -> None:
    said: Queue[str] = Queue()
    with old_transaction(database) as holder:
        all_four = [meanwhile.submit(migrated, database, said.put) for _ in range(4)]
        for _ in all_four:
            while f"pid {holder.info.backend_pid} (user " not in said.get(timeout=60):
                pass  # another migrator, which had locked the table at that moment
        assert ask(database, f"select count(*) from ({BUILDERS}) as builder") == 1
    done = [one.result(timeout=60) for one in all_four]
    assert sorted(one.applied for one in done) == [(), (), (), ("later",)]
    assert sorted(one.built for one in done) == [(), (), (), ("later",)]
    assert all(not one.unbuilt for one in done)
    assert ask(database, IS_VALID)


def test_a_build_waits_behind_vacuum_and_names_it(database: str, meanwhile: ThreadPoolExecutor) -> None:
    """An autovacuum ends only if a session waits for it. This one waits for a page that a cursor reads."""
    said: Queue[str] = Queue()
    with psycopg.connect(database, autocommit=True) as conn, psycopg.connect(database) as reader:
        wakeboard.schedule(conn, "app/a", "ping", cron="0 3 * * *")
        wakeboard.schedule(conn, "app/b", "ping", cron="0 3 * * *")
        reader.execute("declare rows cursor for select from wakeboard.job_definitions; fetch 1 from rows")
        vacuuming = meanwhile.submit(conn.execute, "vacuum (freeze) wakeboard.job_definitions")
        wait_for(lambda: ask(database, "select true from pg_stat_activity where wait_event = 'BufferPin'"))
        migrating = meanwhile.submit(migrated, database, said.put)
        assert f"pid {conn.info.backend_pid} (" in said.get(timeout=60)
        assert ask(database, BUILDERS) is not None
        conn.cancel_safe()
        assert isinstance(vacuuming.exception(), psycopg.errors.QueryCanceled)
        reader.rollback()
        assert migrating.result(timeout=60).built == ("later",)


def test_a_schema_of_a_newer_release_gets_no_older_index(database: str) -> None:
    """The newer one may have dropped it."""
    ask(
        database,
        "insert into wakeboard.migrations (version, name, applied_by) values (99, 'newest', '9.9') returning version",
    )
    assert migrated(database, wait_s=0).built == ()
    assert ask(database, IS_VALID) is None


def test_a_new_schema_has_all_its_indexes_after_the_transaction(empty_database: str) -> None:
    with old_transaction(empty_database):
        assert migrated(empty_database, wait_s=0).built == ()
    assert ask(empty_database, IS_VALID)
    dropped = Migration(LATER.version + 1, "last", "drop index later")
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(migrate, "migrations", lambda: (*migrations(), LATER, dropped))
        assert migrated(empty_database).built == ()


@pytest.mark.parametrize(
    "setting",
    ["statement_timeout = '100ms'", "lock_timeout = '100ms'", "default_transaction_isolation = 'serializable'"],
)
def test_limits_of_an_administrator_end_no_build(database: str, meanwhile: ThreadPoolExecutor, setting: str) -> None:
    said: Queue[str] = Queue()
    with psycopg.connect(database, autocommit=True) as conn:
        conn.execute(f"alter database {conn.info.dbname} set {setting}".encode())
    with old_transaction(database):
        migrating = meanwhile.submit(migrated, database, said.put)
        said.get(timeout=60)
    assert migrating.result(timeout=60).built == ("later",)


def test_a_member_of_the_owner_builds_the_index_even_without_inheriting(empty_database: str) -> None:
    with psycopg.connect(empty_database, autocommit=True) as conn:
        base = conn.info.dbname
        owner, login = f"{base}_owner", f"{base}_login"
        for statement in (
            f"create role {owner}; create role {login} login noinherit; grant {owner} to {login}",
            f"grant create on database {base} to {owner}; create schema wakeboard authorization {owner}",
        ):
            conn.execute(statement.encode())
        try:
            with pytest.MonkeyPatch.context() as before:
                before.setattr(migrate, "migrations", migrations)
                migrated(make_conninfo(empty_database, user=login))
            assert migrated(make_conninfo(empty_database, user=login)).built == ("later",)
        finally:
            conn.execute(f"drop owned by {owner}, {login} cascade; drop role {owner}, {login}".encode())


@pytest.mark.parametrize("mode", ["transaction", "session"])
def test_an_index_is_built_through_pgbouncer(
    database: str, meanwhile: ThreadPoolExecutor, postgres_folder: Path, mode: str
) -> None:
    said: Queue[str] = Queue()
    with running_pooler(database, postgres_folder, mode, "postgres") as pooled:
        with old_transaction(database) as holder:
            migrating = meanwhile.submit(migrated, pooled, said.put)
            assert f"pid {holder.info.backend_pid} (" in said.get(timeout=60)
        assert migrating.result(timeout=60).built == ("later",)


def test_an_index_that_the_rows_contradict_ends_the_migration_with_the_reason(
    database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    unique = LATER.text.replace("create index", "create unique index").replace("(name)", "(source)")
    monkeypatch.setattr(migrate, "migrations", lambda: (*migrations(), Migration(LATER.version, "later", unique)))
    with psycopg.connect(database, autocommit=True) as conn:
        for name in ("a", "b"):
            wakeboard.schedule(conn, f"app/{name}", "ping", cron="0 3 * * *")
    with pytest.raises(WakeboardError, match="could not create unique index"):
        migrated(database)
