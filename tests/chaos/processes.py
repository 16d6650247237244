"""Starts real worker processes, and waits for events in the database."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import psycopg

if TYPE_CHECKING:
    from collections.abc import Callable

ROOT = Path(__file__).parents[2]
TIMEOUT_S = 60.0  # until an event that has not happened is a failure
POLL_S = 0.02

EVENT_TABLES = """
create table events (run_id bigint, pid integer, what text, at timestamptz default clock_timestamp());
create table gate (open boolean);
create table ledger (run_id bigint, pid integer)
"""

started: list[Worker] = []  # of the running test; `wait_until` fails when one has crashed


class Worker:
    """A worker process with a short lease and the handlers of `crashing_handlers`. `log` is its output."""

    def __init__(self, dsn: str, folder: Path, *options: str, **settings: object) -> None:
        self._log = folder / f"worker-{time.monotonic_ns()}.log"
        environment = {
            **os.environ,
            "PYTHONPATH": os.pathsep.join([str(ROOT), str(ROOT / "worker")]),
            "WAKEBOARD_DSN": dsn,
            "WAKEBOARD_HANDLERS": "tests.chaos.crashing_handlers",
            "WAKEBOARD_LEASE_SECONDS": "2",
            "WAKEBOARD_GRACE_SECONDS": "1",
            "WAKEBOARD_POLL_SECONDS": "0.05",
            "WAKEBOARD_LOG_FORMAT": "json",
            "WAKEBOARD_LOG_LEVEL": "debug",
            **{f"WAKEBOARD_{name.upper()}": str(value) for name, value in settings.items()},
        }
        with self._log.open("wb") as log:
            command = [sys.executable, "-m", "wakeboard_worker", *options]
            self._process = subprocess.Popen(command, env=environment, stdout=log, stderr=log)
        self.pid = self._process.pid
        started.append(self)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self._process.poll() is None:
            self._process.send_signal(signal.SIGCONT)
            self._process.kill()
        self._process.wait()
        started.remove(self)

    @property
    def log(self) -> str:
        return self._log.read_text(errors="replace")

    def check(self) -> None:
        """Fails with its output if it has ended by itself."""
        if self._process.poll() not in (None, 0, -signal.SIGKILL):
            raise AssertionError(f"a worker ended with {self._process.poll()}:\n{self.log[-4000:]}")

    def send(self, number: signal.Signals) -> None:
        self._process.send_signal(number)

    def running(self) -> bool:
        return self._process.poll() is None

    def exit_code(self) -> int:
        """Waits for its end. The code is negative if a signal killed it."""
        return self._process.wait(TIMEOUT_S)


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
    end = time.monotonic() + TIMEOUT_S
    while time.monotonic() < end:
        if result := happened():
            return result
        for worker in started:
            worker.check()
        time.sleep(POLL_S)
    logs = "\n".join(f"--- worker {worker.pid}\n{worker.log[-1500:]}" for worker in started)
    raise AssertionError(f"never came true: {what}\n{logs}")
