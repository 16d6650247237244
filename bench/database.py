"""The server that is measured, and a fresh database for each measurement."""

from __future__ import annotations

import asyncio
import itertools
import tempfile
from contextlib import closing, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import urlsplit, urlunsplit

import psycopg

import wakeboard
from bench.machine import cpu_s_of_tree
from wakeboard.local.postgres import EmbeddedPostgres
from wakeboard.store.migrate import migrate

if TYPE_CHECKING:
    from collections.abc import Callable, Generator

# Durable, and large enough that no measurement contains a checkpoint.
SETTINGS: Final = {
    "fsync": "on",
    "synchronous_commit": "on",
    "full_page_writes": "on",
    "wal_level": "replica",
    "shared_buffers": "1GB",
    "max_connections": "200",
    "max_wal_size": "8GB",
    "checkpoint_timeout": "30min",
    "autovacuum": "on",
}
BATCH: Final = 10_000  # runs that one enqueue_many makes
NOOP: Final = wakeboard.Job("noop")

# Each new run belongs to a definition, whichever way it is enqueued: changes of it write change rows.
OF_A_DEFINITION: Final = """
insert into wakeboard.job_definitions (source, namespace, name, spec_hash, job_type)
values ('file:bench', 'bench', 'noop', '', 'noop');
alter table wakeboard.job_runs
  alter definition_id set default 1, alter definition_generation set default 1, alter schedule set default 'bench/noop'
"""


class Database:
    """A fresh, migrated database: `dsn`, one open connection, and short ways to fill and ask it."""

    def __init__(self, dsn: str) -> None:
        self.dsn = dsn
        self.conn = psycopg.connect(dsn, autocommit=True)

    def ask(self, query: str, *values: Any) -> Any:
        """The first column of the first row, or None."""
        row = self.conn.execute(query.encode(), values or None, prepare=True).fetchone()
        return row[0] if row else None

    def do(self, statements: str) -> None:
        """Statements without an answer."""
        self.conn.execute(statements.encode())

    def enqueue(self, runs: int, job: wakeboard.Job = NOOP) -> None:
        """Enqueues equal runs."""
        for start in range(0, runs, BATCH):
            wakeboard.enqueue_many(self.conn, [job] * min(BATCH, runs - start))

    def close(self) -> None:
        """Ends the connection."""
        self.conn.close()

    def vacuum(self) -> None:
        """Vacuums, analyses and checkpoints, as the server does when it is idle."""
        self.do("vacuum analyze")
        self.do("checkpoint")


class BenchmarkServer:
    """A running server, and databases on it: copies of templates that are prepared once."""

    def __init__(self, server: EmbeddedPostgres) -> None:
        self._server = server
        self._numbers = itertools.count(1)
        self._templates: set[str] = set()

    @contextmanager
    def database(
        self, *, of_a_definition: bool = True, runs: int = 0, job: wakeboard.Job = NOOP
    ) -> Generator[Database]:
        """A fresh database with our schema and equal runs. `of_a_definition`: every run in it belongs to one."""
        template = f"wakeboard_{runs}_{job.job_type}_{'with' if of_a_definition else 'without'}_definition"

        def prepare(dsn: str) -> None:
            asyncio.run(migrate(dsn))
            with closing(Database(dsn)) as database:
                if of_a_definition:
                    database.do(OF_A_DEFINITION)
                database.enqueue(runs, job)

        with self.copy_of(template, prepare) as database:
            yield database

    @contextmanager
    def copy_of(self, template: str, prepare: Callable[[str], None]) -> Generator[Database]:
        """A database like the one that `prepare(dsn)` made of an empty one; in memory, vacuumed, dropped afterwards."""
        if template not in self._templates:
            self._make_template(template, prepare)
        name = f"bench_{next(self._numbers)}"
        self._command(f"create database {name} template {template} strategy wal_log")
        self._command("checkpoint")
        try:
            with closing(Database(self.dsn_of(name))) as database:
                yield database
        finally:
            self._command(f"drop database {name} with (force)")

    def drop_template(self, template: str) -> None:
        """Drops a template that is not needed any more."""
        self._command(f"drop database if exists {template} with (force)")
        self._templates.discard(template)

    def version(self) -> str:
        """The server's version, such as 18.1."""
        return str(self._command("show server_version")).split()[0]

    def cpu_s(self) -> float:
        """CPU seconds of all server processes so far."""
        return cpu_s_of_tree(self._server.pid or 0)

    def transactions(self, database: Database) -> int:
        """Transactions in this database so far, except those of other sessions in the last second."""
        database.do("select pg_stat_force_next_flush()")
        with psycopg.connect(self.dsn_of("postgres")) as conn:
            name = database.conn.info.dbname
            row = conn.execute("select xact_commit from pg_stat_database where datname = %s", [name]).fetchone()
        assert row is not None
        return int(row[0])

    def dsn_of(self, database: str) -> str:
        """The superuser's DSN of a database of this server."""
        return urlunsplit(urlsplit(self._server.dsn)._replace(path=f"/{database}"))

    def _make_template(self, template: str, prepare: Callable[[str], None]) -> None:
        self._command(f"drop database if exists {template} with (force)")
        self._command(f"create database {template}")
        prepare(self.dsn_of(template))
        with closing(Database(self.dsn_of(template))) as database:
            database.vacuum()
        self._templates.add(template)

    def _command(self, statement: str) -> Any:
        with psycopg.connect(self.dsn_of("postgres"), autocommit=True) as conn:
            cursor = conn.execute(statement.encode())
            row = cursor.fetchone() if cursor.description else None
            return row[0] if row else None


@contextmanager
def running_server(*, tcp: bool = True, binaries: Path | None = None) -> Generator[BenchmarkServer]:
    """A server in a temporary folder, gone afterwards: on loopback TCP as a real one, or on a socket."""
    with tempfile.TemporaryDirectory(prefix="wakeboard-bench-") as folder:
        Path(folder).chmod(0o755)  # the account that runs the server may differ from ours
        server = EmbeddedPostgres(Path(folder) / "server", settings=SETTINGS, tcp=tcp, binaries=binaries, trusting=True)
        with server:
            yield BenchmarkServer(server)
