"""The PostgreSQL servers of one test process. Each test gets a database cloned from a template, in about 15 ms."""

from __future__ import annotations

import asyncio
import itertools
import os
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final
from urllib.parse import urlsplit, urlunsplit

import psycopg
import pytest

from testbed.pgbouncer import find_pgbouncer, running_pgbouncer
from wakeboard.errors import WakeboardError
from wakeboard.local.postgres import NOT_DURABLE, EmbeddedPostgres, find_binaries
from wakeboard.store.migrate import migrate

if TYPE_CHECKING:
    from collections.abc import Generator
    from pathlib import Path

    from pytest import FixtureRequest, Metafunc  # noqa: PT013 - types only

# Migrations create this week's partition and later ones; a test's runs may have ended in the days before.
LAST_WEEK = """
do $$
declare week timestamptz := date_trunc('week', now() at time zone 'UTC' - interval '1 week') at time zone 'UTC';
begin
  execute format('create table wakeboard.%I partition of wakeboard.job_run_history for values from (%L) to (%L)',
                 to_char(week at time zone 'UTC', '"job_run_history_"IYYY"w"IW'), week, week + interval '1 week');
end $$
"""
EMBEDDED: Final = "embedded"
DEBIAN: Final = "15"

SETTINGS = {
    **NOT_DURABLE,
    "max_connections": "200",
    "shared_buffers": "64MB",
    "max_wal_size": "256MB",  # the data may be in memory
    "autovacuum_naptime": "1h",  # it would start a process for each of hundreds of databases
    # Before the timeout of a test: a thread that waits for a lock of the test ends, and with it the test's cleanup.
    "lock_timeout": "60s",
    # Far from UTC, with an offset of 45 minutes, so that SQL which depends on the session's zone fails in the tests.
    "timezone": "Asia/Kathmandu",
}
NEWER_SETTINGS = {"file_copy_method": "clone"}  # the kernel copies a template's files, for a fifth less CPU; since 18


class PostgresServer:
    """A running server, and fresh databases on it. `dsn` is the superuser's, of the database `wakeboard`."""

    def __init__(self, dsn: str, version: str) -> None:
        self.dsn, self.version = dsn, version
        self._numbers = itertools.count(1)
        self._template: str | None = None
        self._commands = psycopg.connect(self.dsn_of("postgres"), autocommit=True)

    @contextmanager
    def empty_database(self) -> Generator[str]:
        """The superuser's DSN of an empty database, which is dropped afterwards, with its connections."""
        with self._database("template1") as name:
            yield self.dsn_of(name)

    @contextmanager
    def migrated_database(self) -> Generator[str]:
        """The superuser's DSN of a database with wakeboard's schema."""
        with self._database(self._migrated_template()) as name:
            yield self.dsn_of(name)

    def dsn_of(self, database: str) -> str:
        """The superuser's DSN of a database of this server."""
        return urlunsplit(urlsplit(self.dsn)._replace(path=f"/{database}"))

    @contextmanager
    def _database(self, template: str) -> Generator[str]:
        name = f"test_{next(self._numbers)}"
        self._command(f"CREATE DATABASE {name} TEMPLATE {template} STRATEGY file_copy")
        try:
            yield name
        finally:
            self._command(f"DROP DATABASE {name} WITH (FORCE)")

    def _migrated_template(self) -> str:
        if self._template is None:
            self._command("CREATE DATABASE migrated")
            asyncio.run(migrate(self.dsn_of("migrated")))
            with psycopg.connect(self.dsn_of("migrated"), autocommit=True) as conn:
                conn.execute(LAST_WEEK)
            self._template = "migrated"
        return self._template

    def _command(self, statement: str) -> None:
        self._commands.execute(statement.encode())

    def close(self) -> None:
        """Closes the connection that creates and drops databases."""
        self._commands.close()


class PostgresServers:
    """One server for each version, started at the first `get`."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._running: dict[str, tuple[EmbeddedPostgres, PostgresServer]] = {}

    def get(self, version: str) -> PostgresServer:
        """The running server of this version ("embedded" or "15"); fails or skips the test if it is not installed."""
        if version not in self._running:
            settings = SETTINGS | (NEWER_SETTINGS if version == EMBEDDED else {})
            engine = EmbeddedPostgres(
                self._folder / version, settings=settings, binaries=installed_binaries(version), trusting=True
            )
            self._running[version] = engine, PostgresServer(engine.start(), version)
        return self._running[version][1]

    def stop(self) -> None:
        """Stops them all."""
        for engine, server in self._running.values():
            server.close()
            engine.stop()
        self._running.clear()


def installed_binaries(version: str) -> Path:
    """The programs of a version; fails or skips the test if it is not installed."""
    try:
        return find_binaries(version)
    except WakeboardError as missing:
        if version == EMBEDDED or os.environ.get("CI"):
            pytest.fail(str(missing))
        pytest.skip(str(missing))


@contextmanager
def running_pooler(database: str, folder: Path, mode: str, user: str = "postgres") -> Generator[str]:
    """The DSN of `database` for `user` through a PgBouncer of its own; `mode` is transaction or session."""
    program = find_pgbouncer()
    if program is None:
        (pytest.fail if os.environ.get("CI") else pytest.skip)(
            "PgBouncer is not installed; `make test-packages` brings it"
        )
    with running_pgbouncer(program, database, folder, mode, user) as dsn:
        yield dsn


def versions_for(metafunc: Metafunc) -> list[str]:
    """The servers of a test: the embedded one, both if it is marked, or those that the environment names."""
    requested = os.environ.get("WAKEBOARD_TEST_POSTGRES", "")
    choices = {"": [EMBEDDED], EMBEDDED: [EMBEDDED], DEBIAN: [DEBIAN], "both": [EMBEDDED, DEBIAN]}
    if requested not in choices:
        raise pytest.UsageError(f"WAKEBOARD_TEST_POSTGRES={requested!r}: write one of embedded, 15, both.")
    marked = metafunc.definition.get_closest_marker("every_postgres") is not None
    return [EMBEDDED, DEBIAN] if marked and not requested else choices[requested]


def version_of(request: FixtureRequest) -> str:
    """The version for this test."""
    return getattr(request, "param", EMBEDDED)
