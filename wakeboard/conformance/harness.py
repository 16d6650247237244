"""The harness of a scenario: a database, the tested worker behind a proxy, and queries about what happened.

Each has a database of its own, so scenarios run side by side. The suite does the maintenance of an installation: it
revokes expired leases once a second, and reports worker processes that have ended, as the operator does.
"""

from __future__ import annotations

import asyncio
import json
import os
import secrets
import shutil
import signal
import subprocess
import threading
import time
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple, Self
from urllib.parse import parse_qs, quote, urlsplit

from wakeboard.conformance.tcp_proxy import TcpProxy
from wakeboard.conformance.worker_output import WorkerOutput
from wakeboard.engine.maintenance_api import MaintenanceStore
from wakeboard.errors import WakeboardError
from wakeboard.local.child_process import ends_with_parent
from wakeboard.schedules.scheduler import schedule_due_ticks
from wakeboard.store.connection import connect, connect_blocking
from wakeboard.store.statements import translating
from wakeboard.text.humanize import counted

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

LEASE_S: Final = 6  # a busy machine renews a shorter one too late, and its worker gives healthy runs up
GRACE_S: Final = 2
CONCURRENCY: Final = 20
POLL_S: Final = 0.05
REAP_EVERY_S: Final = 1.0
OUTPUT_LINES: Final = 20  # of the worker, shown with a failure
MARK: Final = "CONFORMANCE_PROCESS"  # the variable by which processes of a worker are found

NOTES: Final = b"""
create schema conformance;
create table conformance.notes (
  id bigserial primary key, run_id bigint, epoch bigint, what text, at timestamptz default clock_timestamp());
create function conformance.note(run_id bigint, epoch bigint, what text) returns void language sql security definer
  as 'insert into conformance.notes (run_id, epoch, what) values ($1, $2, $3)';
create table conformance.leases (id bigserial primary key, run_id bigint, epoch bigint);
create function conformance.note_lease() returns trigger language plpgsql security definer
  as 'begin insert into conformance.leases (run_id, epoch) values (new.id, new.lease_epoch); return null; end';
create trigger leases after update on wakeboard.job_runs for each row
  when (old.locked_by = 0 and new.locked_by <> 0) execute function conformance.note_lease();
"""


class Violated(Exception):
    """The worker did not do what the scenario demands. The message says what it did."""


class Note(NamedTuple):
    """What a handler wrote down."""

    epoch: int
    what: str
    age_s: float


@dataclass(frozen=True, slots=True)
class TestedWorker:
    """The tested worker: its command, and variables for it in addition to those of the suite.

    `patience_s`: how long a scenario waits for something that must happen. It only bounds failures.
    """

    command: Sequence[str]
    environment: Mapping[str, str]
    patience_s: float
    interrupted: threading.Event = field(default_factory=threading.Event)


class Harness:
    """One execution of a scenario. Use it as a context manager: it ends the worker, what it started, and the proxy.

    `owner`: the owner's DSN of a database with the schema and NOTES. `user`, `password`: the worker's.
    """

    def __init__(self, tested: TestedWorker, name: str, owner: str, user: str, password: str) -> None:
        self._tested, self._name, self._owner = tested, name, owner
        self._user, self._password = user, password
        self.patience_s = tested.patience_s
        self._conn = connect_blocking(owner, name=f"conformance {name}")
        parts = urlsplit(owner)
        options = parse_qs(parts.query)
        host, port = options.get("host", [parts.hostname])[0], options.get("port", [parts.port or 5432])[0]
        self._database = parts.path
        self._socket = f"{host}/.s.PGSQL.{port}" if host and host.startswith("/") else int(port)
        self.proxy = TcpProxy(self._socket)
        self._processes: list[subprocess.Popen[bytes]] = []
        self._outputs: list[WorkerOutput] = []
        self._mark = secrets.token_hex(16)
        self._done = threading.Event()
        self._reaper = threading.Thread(target=self._reap, name="reaper", daemon=True)
        self.reaps = True

    def __enter__(self) -> Self:
        self.proxy.start()
        self._direct = TcpProxy(self._socket)  # for notes: no fault is injected into it
        self._direct.start()
        self._reaper.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._done.set()
        for process in self._processes:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
        _end_processes(f"{MARK}={self._mark}")
        self._reaper.join()
        self.proxy.stop()
        self._direct.stop()
        self._conn.close()

    # -- the worker ----------------------------------------------------------------------------------------------------

    def start(self, **settings: object) -> subprocess.Popen[bytes]:
        """Start the worker. `settings`: concurrency=2 is WAKEBOARD_CONCURRENCY=2."""
        defaults = {"lease_seconds": LEASE_S, "grace_seconds": GRACE_S, "poll_seconds": 0.2, "concurrency": CONCURRENCY}
        given = {**defaults, "queues": "default", "dsn": self._dsn(self.proxy), **settings}
        inherited = {name: text for name, text in os.environ.items() if not name.startswith(("PG", "WAKEBOARD_"))}
        environment = {
            **inherited,
            **self._tested.environment,
            **{f"WAKEBOARD_{name.upper()}": str(value) for name, value in given.items()},
            "CONFORMANCE_DSN": self._dsn(self._direct),
            MARK: self._mark,
        }
        program = shutil.which(self._tested.command[0])
        assert program, "Suite has checked it"
        process = subprocess.Popen(
            ends_with_parent([str(Path(program).absolute()), *self._tested.command[1:]]),
            bufsize=0,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        assert process.stdout, "it is a pipe"
        self._processes.append(process)
        self._outputs.append(WorkerOutput(process.stdout))
        return process

    def start_and_wait(self, **settings: object) -> subprocess.Popen[bytes]:
        """Start the worker and wait until it has registered, so that a later fault meets a worker that works."""
        process = self.start(**settings)
        self.wait("the worker did not register", b"select true from wakeboard.workers")
        return process

    def exit_code(self, process: subprocess.Popen[bytes], within_s: float) -> int:
        """Wait until the worker has ended, after SIGTERM. Returns its exit code."""
        try:
            return process.wait(within_s)
        except subprocess.TimeoutExpired:
            raise Violated(f"the worker had not ended {within_s:.0f} s after SIGTERM") from None

    def output(self) -> str:
        """What the worker has written so far: of each of its processes, the last 64 KiB."""
        for process, output in zip(self._processes, self._outputs, strict=True):
            if process.poll() is not None:
                output.wait()
        return "".join(output.text for output in self._outputs)

    def last_lines(self) -> list[str]:
        """The last lines of the worker's output."""
        return self.output().splitlines()[-OUTPUT_LINES:]

    def _dsn(self, proxy: TcpProxy) -> str:
        password = quote(self._password, safe="")
        return f"postgresql://{self._user}:{password}@127.0.0.1:{proxy.port}{self._database}?sslmode=disable"

    # -- runs ----------------------------------------------------------------------------------------------------------

    def enqueue(
        self,
        job_type: str,
        payload: Mapping[str, object] | None = None,
        *,
        max_attempts: int = 5,
        timeout_s: int = 60,
        limit_key: str | None = None,
        count: int = 1,
    ) -> list[int]:
        """Enqueue runs that are retried after one second. Returns their ids."""
        rows = self.rows(
            b"select run.id from generate_series(1, %s) as number cross join lateral wakeboard.enqueue(%s, %s::jsonb,"
            b" priority => 3 + 0 * number, max_attempts => %s, timeout_s => %s, limit_key => %s, backoff_base_s => 1)"
            b" as run",
            *(count, f"conformance.{job_type}", json.dumps(payload or {}), max_attempts, timeout_s, limit_key),
        )
        return [row[0] for row in rows]

    def one(self, job_type: str, payload: Mapping[str, object] | None = None, **columns: Any) -> int:
        """Enqueue one run. Returns its id."""
        return self.enqueue(job_type, payload, **columns)[0]

    def run(self, run_id: int) -> dict[str, Any]:
        """The row of a run, live or finished."""
        return self.rows(b"select to_jsonb(run) from wakeboard.all_runs as run where id = %s", run_id)[0][0]

    def succeeded(self, *runs: int, within_s: float | None = None) -> None:
        """Wait until all these runs have succeeded."""
        self.wait(
            f"some of {counted(len(runs), 'run')} did not succeed" if len(runs) > 1 else "the run did not succeed",
            b"select count(*) = cardinality(%s::bigint[]) from wakeboard.job_run_history"
            b" where id = any (%s) and status = 'succeeded'",
            list(runs),
            list(runs),
            within_s=within_s,
        )

    def ended(self, run_id: int, status: str, within_s: float | None = None) -> dict[str, Any]:
        """Wait until the run has this status. Returns its row."""
        query = b"select status::text = %s from wakeboard.all_runs where id = %s"
        self.wait(f"run {run_id} did not become {status}", query, status, run_id, within_s=within_s)
        return self.run(run_id)

    def noted(self, run_id: int, what: str, *, epoch: int | None = None, within_s: float | None = None) -> None:
        """Wait until a handler of the run has noted this."""
        self.wait(
            f"the handler of run {run_id} did not note '{what}'",
            b"select true from conformance.notes where run_id = %s and what = %s and epoch = coalesce(%s, epoch)",
            *(run_id, what, epoch),
            within_s=within_s,
        )

    def notes(self, run_id: int) -> list[Note]:
        """What the handlers of a run noted, in order."""
        query = (
            b"select epoch, what, extract(epoch from clock_timestamp() - at)::float8"
            b" from conformance.notes where run_id = %s order by id"
        )
        return [Note(*row) for row in self.rows(query, run_id)]

    def leases(self, run_id: int) -> list[int]:
        """The epochs of all leases of a run, in order."""
        return [
            row[0] for row in self.rows(b"select epoch from conformance.leases where run_id = %s order by id", run_id)
        ]

    def enqueue_due_ticks(self) -> None:
        """Create the runs of all schedules that are due, as the maintenance of an installation does."""

        async def one_pass() -> None:
            async with await connect(self._owner, name=f"conformance scheduler {self._name}") as conn:
                await schedule_due_ticks(MaintenanceStore(conn), misfire_grace=timedelta(minutes=5))

        asyncio.run(one_pass())

    # -- the database --------------------------------------------------------------------------------------------------

    def rows(self, query: bytes, *values: object) -> list[tuple[Any, ...]]:
        """The rows of a query of the owner."""
        return self._conn.execute(query, values or None).fetchall()

    def do(self, statement: bytes, *values: object) -> None:
        """Execute a statement as the owner."""
        self._conn.execute(statement, values or None)

    def wait(self, otherwise: str, query: bytes, *values: object, within_s: float | None = None) -> Any:
        """Repeat the query until the first column of its first row is true. Raises Violated with `otherwise`."""
        within_s = within_s or self.patience_s
        deadline = time.monotonic() + within_s
        while True:
            code = self._processes[-1].poll() if self._processes else None
            rows = self.rows(query, *values)
            if rows and rows[0][0]:
                return rows[0][0]
            if self._tested.interrupted.is_set():
                raise Violated("interrupted")
            if code is not None:
                raise Violated(f"{otherwise}: the worker ended with exit code {code}, before SIGTERM")
            if time.monotonic() > deadline:
                raise Violated(f"{otherwise} within {within_s:.0f} s")
            time.sleep(POLL_S)

    def _reap(self) -> None:
        """Revoke expired leases, as the maintenance of an installation does: after an error, again a moment later."""
        with connect_blocking(self._owner, name=f"conformance reaper {self._name}") as conn:
            while not self._done.wait(REAP_EVERY_S):
                if self.reaps:
                    with suppress(WakeboardError), translating():  # such as a lock: a worker records another server now
                        conn.execute(b"select * from wakeboard.reap(always => true)")


def _end_processes(variable: str) -> None:
    """Kill the processes of this user that have `variable` in their environment: those that left the worker's session.

    Repeats that until there are none, because one may start another meanwhile. Only Linux has /proc.
    """
    while found := [folder for folder in Path("/proc").glob("[0-9]*") if variable in _environment(folder)]:
        for folder in found:
            with suppress(ProcessLookupError):
                os.kill(int(folder.name), signal.SIGKILL)
        time.sleep(POLL_S)


def _environment(folder: Path) -> list[str]:
    try:
        return (folder / "environ").read_text(errors="replace").split("\0")
    except OSError:  # it has ended, or belongs to another user
        return []


def expect(condition: object, otherwise: str) -> None:
    """Raise Violated with `otherwise` unless the condition is true."""
    if not condition:
        raise Violated(otherwise)
