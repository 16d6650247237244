"""Starts real worker processes, and waits for events in the database."""

from __future__ import annotations

import signal
from typing import TYPE_CHECKING, Any, Self

import psycopg

from testbed.processes import ModuleProcess, as_variables, wait_for

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

EFFECTS = "create table effects (run_id bigint, pid integer)"

started: list[Worker] = []  # of the running test; `wait_until` fails when one has crashed


class Worker(ModuleProcess):
    """A worker process with a short lease and the handlers of `crashing_handlers`."""

    def __init__(self, dsn: str, folder: Path, *options: str, **settings: object) -> None:
        defaults = {"handlers": "tests.chaos.crashing_handlers", "lease_seconds": 2, "grace_seconds": 1}
        defaults |= {"poll_seconds": 0.05, "log_format": "json", "log_level": "debug"}
        super().__init__(["wakeboard_worker", *options], folder, as_variables({"dsn": dsn, **defaults, **settings}))
        started.append(self)

    def __exit__(self, *_: object) -> None:
        super().__exit__()
        started.remove(self)

    def check(self) -> None:
        """Fails with its output if it has ended by itself."""
        if self._process.poll() not in (None, 0, -signal.SIGKILL):
            raise AssertionError(f"a worker ended with {self._process.poll()}:\n{self.log[-4000:]}")


class Watcher:
    """A superuser's connection that waits for changes in the database and reads results."""

    def __init__(self, dsn: str) -> None:
        self._dsn = dsn
        self._conn = psycopg.connect(dsn, autocommit=True)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._conn.close()

    def do(self, statement: str, *values: object) -> None:
        self._conn.execute(statement.encode(), values or None)

    def ask(self, query: str, *values: object) -> Any:
        """The first column of the first row, or None."""
        row = self._conn.execute(query.encode(), values or None).fetchone()
        return row[0] if row else None

    def rows(self, query: str, *values: object) -> list[tuple[Any, ...]]:
        return self._conn.execute(query.encode(), values or None).fetchall()

    def wait(self, query: str, *values: object) -> Any:
        """Repeats the query until its result is true, also through restarts of the server. Returns that result."""
        return wait_until(lambda: self._ask_or_reconnect(query, *values), query)

    def _ask_or_reconnect(self, query: str, *values: object) -> Any:
        try:
            return self.ask(query, *values)
        except psycopg.OperationalError:
            self._conn.close()
            try:
                self._conn = psycopg.connect(self._dsn, autocommit=True)
            except psycopg.OperationalError:
                return None
            return None

    def enqueue(self, job_type: str, count: int = 1, **columns: object) -> list[int]:
        """Enqueues runs that are retried after one second. Returns their ids."""
        names = "".join(f", {name}" for name in columns)
        positions = ", %s" * len(columns)
        self.do("set search_path = pg_catalog, wakeboard, pg_temp")  # or a plain INSERT sets no limit key
        made = [
            row[0]
            for row in self.rows(
                f"insert into wakeboard.job_runs (job_type, backoff_base_s{names})"
                f" select %s, 1{positions} from generate_series(1, %s) returning id",
                job_type,
                *columns.values(),
                count,
            )
        ]
        self.do("reset search_path")
        return made

    def status(self, run_id: int) -> str:
        return self.ask("select status::text from wakeboard.all_runs where id = %s", run_id)


def wait_until(happened: Callable[[], Any], what: str) -> Any:
    """Calls `happened` until its result is true, and returns it. Fails after a minute, naming `what`."""

    def found() -> Any:
        result = happened()
        if not result:
            for worker in started:
                worker.check()
        return result

    logs = (f"--- worker {worker.pid}\n{worker.log[-1500:]}" for worker in started)
    return wait_for(found, why=lambda: "\n".join([what, *logs]))
