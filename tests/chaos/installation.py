"""An installation on a Patroni cluster: its processes, each way to the primary, and when each part serves again."""

from __future__ import annotations

import os
import subprocess
import threading
import time
from collections import Counter
from contextlib import ExitStack, contextmanager, suppress
from functools import partial
from itertools import count
from typing import TYPE_CHECKING, Any, Final, Self
from urllib.request import urlopen

import psycopg
import psycopg_pool
import pytest
import sqlalchemy
from sqlalchemy.exc import SQLAlchemyError

import wakeboard
from testbed.board_server import serving
from testbed.clients import go_worker, typescript_command, typescript_worker
from testbed.cluster.job_schedules import install_crds, job_schedule
from testbed.cluster.operators import Environment, Operator
from testbed.pgbouncer import PgBouncer, find_pgbouncer
from testbed.processes import as_variables, inherited_environment, wait_for
from tests.chaos.processes import Worker
from wakeboard.board import BoardOptions
from wakeboard.store.connection import connect_blocking
from wakeboard.store.reply_limit import ReplyLimit

if TYPE_CHECKING:
    from collections.abc import Callable, Generator
    from pathlib import Path

    from testbed.cluster.cluster import Cluster
    from testbed.patroni import PatroniCluster, PatroniNode

HANDLERS: Final = "tests.chaos.ledger_handlers"
POOLED: Final = "pooled"  # the queue of the worker behind PgBouncer
CLIENTS: Final = ("go", "typescript")  # the queues of workers in other languages
PAUSE_S: Final = 0.05  # between two enqueues of an application
REPLY_S: Final = 10.0
SCHEDULE: Final = "yearly"
OF_POOLER: Final = "auth_type = any\nserver_login_retry = 0.2\nserver_connect_timeout = 3"
ENDED: Final = """
select queue, extract(epoch from min(finished_at))::float8 from wakeboard.job_run_history
 where job_type = 'conformance.echo' and status = 'succeeded' and created_at >= to_timestamp(%s) group by 1
"""
MAINTAINS: Final = "select from pg_stat_activity where application_name = 'wakeboard operator maintenance'"
RETRIES: Final = {"max_attempts": 100, "backoff": "fixed", "backoff_base_s": 1}


class Repeated:
    """Calls `do` again and again in a thread. `answers`: when each successful call began and ended, by its number."""

    def __init__(self, do: Callable[[int], None], pause_s: float) -> None:
        self._do, self._pause_s, self._over, self._rests = do, pause_s, threading.Event(), threading.Event()
        self.answers: dict[int, tuple[float, float]] = {}
        self._thread = threading.Thread(target=self._run, daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join(20)

    def rest(self, *, on: bool) -> None:
        (self._rests.set if on else self._rests.clear)()

    def _run(self) -> None:
        for number in count():
            if self._over.wait(self._pause_s):
                return
            began = time.time()
            with suppress(OSError, psycopg.Error, wakeboard.WakeboardError, SQLAlchemyError):
                if not self._rests.is_set():
                    self._do(number)
                    self.answers[number] = began, time.time()

    def first_since(self, moment: float) -> float | None:
        """When the first call that began after this moment was answered."""
        return next((ended for began, ended in list(self.answers.values()) if began >= moment), None)


class OwnConnection:
    """The connection of an application that has no pool: it opens another one after an error."""

    def __init__(self, dsn: str) -> None:
        self._dsn = dsn
        self._conn: psycopg.Connection | None = None

    def enqueue(self, *args: Any, **options: Any) -> None:
        try:
            if self._conn is None:
                self._conn = connect_blocking(self._dsn, name="application", reply_limit=ReplyLimit(REPLY_S))
            wakeboard.enqueue(self._conn, *args, **options)
        except Exception:
            self.close()
            raise

    def close(self) -> None:
        if self._conn is not None:
            self._conn.close()
        self._conn = None


class PsycopgPool:
    """An application with psycopg_pool."""

    def __init__(self, dsn: str) -> None:
        check = psycopg_pool.ConnectionPool[psycopg.Connection].check_connection
        self._pool = psycopg_pool.ConnectionPool(dsn, min_size=1, check=check, timeout=REPLY_S, open=True)
        self.close = self._pool.close

    def enqueue(self, *args: Any, **options: Any) -> None:
        with self._pool.connection() as conn:
            wakeboard.enqueue(conn, *args, **options)


class SqlAlchemyPool:
    """An application with an engine of SQLAlchemy."""

    def __init__(self, dsn: str) -> None:
        connect = partial(psycopg.connect, dsn, prepare_threshold=None)
        self._engine = sqlalchemy.create_engine("postgresql+psycopg://", creator=connect, pool_pre_ping=True)
        self.close = self._engine.dispose

    def enqueue(self, *args: Any, **options: Any) -> None:
        with self._engine.begin() as conn:
            wakeboard.enqueue(conn, *args, **options)


class Installation:
    """Workers, the operator, boards and applications. Some name all servers, others only a PgBouncer.

    PgBouncer has a load balancer behind it, which leads to the primary. `namespace`: of the operator's JobSchedule.
    """

    def __init__(self, patroni: PatroniCluster, kubernetes: Cluster, namespace: str, folder: Path) -> None:
        self._patroni, self._folder, self._ledger = patroni, folder, folder / "ledger"
        self.schedules = Environment(kubernetes, namespace, patroni.dsn())
        program = find_pgbouncer()
        assert program is not None, "PgBouncer is not installed; type: make test-packages"
        balancer = f"postgresql:///wakeboard?host=127.0.0.1&port={patroni.start_load_balancer().port}"
        self._pooler = PgBouncer(program, balancer, patroni.folder, "transaction", "postgres", OF_POOLER)
        self.pooler_ends = list[str]()  # what PgBouncer logged last each time that it ended by itself
        self.pooled_dsn = f"postgresql://postgres@127.0.0.1:{self._pooler.port}/wakeboard"

    @contextmanager
    def running(self) -> Generator[Self]:
        """Runs all of it, and waits until it serves."""
        dsn, folder = self._patroni.dsn(), self._folder
        settings = {"handlers": HANDLERS, "lease_seconds": 10, "log_level": "info"}
        self.schedules.cluster.call("POST", "/api/v1/namespaces", {"metadata": {"name": self.schedules.namespace}})
        install_crds(self.schedules.cluster)
        self.schedules.create(job_schedule(SCHEDULE, jobType="noted", cron="@yearly"))
        with ExitStack() as stack:
            stack.enter_context(pytest.MonkeyPatch.context()).setenv("LEDGER", str(self._ledger))
            self._pooler.start()
            stack.callback(self._pooler.end)
            worker = partial(Worker, **settings)
            self.worker = stack.enter_context(worker(dsn, folder, "--forever"))
            stack.enter_context(worker(self.pooled_dsn, folder, "--forever", queues=POOLED, listen=False))
            kubeconfig = self.schedules.cluster.admin
            only = {
                "namespaces": self.schedules.namespace,
                "source": "k8s:failover",
                "status_min_interval_seconds": 0.2,
            }
            self.operator = stack.enter_context(Operator(dsn, kubeconfig, folder, **only))
            commands = [str(go_worker())], typescript_command(typescript_worker())
            for queue, command in zip(CLIENTS, commands, strict=True):
                stack.enter_context(_client(command, dsn, queue, folder))
            self.applications = dict(self._applications(dsn, stack))
            self._parts = {
                **self.applications,
                "operator": stack.enter_context(Repeated(self._sync, 0.1)),
                "board": stack.enter_context(_board(BoardOptions(dsn=dsn))),
                "pooled board": stack.enter_context(_board(BoardOptions(dsn=self.pooled_dsn, listen=False))),
            }
            wait_for(lambda: all(part.answers for part in self._parts.values()), why=lambda: self.operator.log)
            wait_for(lambda: answers(dsn, MAINTAINS))
            yield self

    def _applications(self, dsn: str, stack: ExitStack) -> Generator[tuple[str, Repeated]]:
        for name, door in (
            ("application", OwnConnection(dsn)),
            ("psycopg_pool", PsycopgPool(dsn)),
            ("SQLAlchemy", SqlAlchemyPool(dsn)),
            ("pooled SQLAlchemy", SqlAlchemyPool(self.pooled_dsn)),
        ):
            stack.callback(door.close)
            yield name, stack.enter_context(Repeated(partial(_enqueue, door, name), PAUSE_S))

    def ledger(self) -> list[tuple[str, str, float]]:
        """What the handlers have noted: the tag, what happened, and when."""
        lines = self._ledger.read_text().splitlines() if self._ledger.exists() else []
        return [(tag, what, float(at)) for tag, what, at in map(str.split, lines)]

    def acknowledged(self, since: float = 0.0) -> set[str]:
        """The tags of the runs whose enqueueing was acknowledged to an application, that began since then."""
        applications = self.applications.items()
        return {
            _tag(name, number)
            for name, application in applications
            for number, (began, _) in list(application.answers.items())
            if began >= since
        }

    def is_healthy(self, reason: str) -> bool:
        """Whether the JobSchedule has this reason of its condition Healthy."""
        return self.schedules.condition(SCHEDULE, "Healthy")[1] == reason

    def serves_after(self, promoted: float, primary: PatroniNode, *, but: frozenset[str]) -> dict[str, float]:
        """Seconds from the promotion until each part worked again, other than those in `but`."""
        dsn = primary.dsn()
        with psycopg.connect(dsn, autocommit=True) as conn, Repeated(lambda _: _maintains(dsn), 0.05) as maintained:
            for queue in CLIENTS:
                conn.execute("select wakeboard.enqueue('conformance.echo', '{}', queue => %s)", (queue,))

            def parts() -> dict[str, float | None]:
                if self._pooler.ended:
                    self.pooler_ends.append(self._pooler.last_line)
                    self._pooler.start()  # as its supervisor would
                new = self.acknowledged(promoted)
                pooled = {tag for tag in new if _is_pooled(tag)}
                return {
                    **{name: part.first_since(promoted) for name, part in self._parts.items() if name not in but},
                    "worker": next((at for tag, _, at in self.ledger() if tag in new - pooled), None),
                    "pooled worker": next((at for tag, _, at in self.ledger() if tag in pooled), None),
                    "maintenance": maintained.first_since(promoted),
                    **dict.fromkeys(CLIENTS),
                    **dict(conn.execute(ENDED, (promoted,)).fetchall()),
                }

            logs = (self.worker, self.operator)
            wait_for(lambda: all(parts().values()), why=lambda: (parts(), *(each.log[-2000:] for each in logs)))
            return {name: round((at or 0) - promoted, 2) for name, at in parts().items()}

    def lost_and_doubled(self) -> tuple[set[str], set[str]]:
        """Acknowledged runs that no worker executed, and effects that happened twice, when all is done."""
        self._rest(on=True)
        with psycopg.connect(self._patroni.dsn(), autocommit=True) as conn:
            left = "select id, job_type, status, attempts, last_error from wakeboard.job_runs limit 3"
            wait_for(lambda: not conn.execute(left).fetchall(), why=lambda: conn.execute(left).fetchall())
        paid = Counter(tag for tag, what, _ in self.ledger() if what == "paid")
        known = {tag for tag, what, _ in self.ledger() if what != "began"}
        lost = self.acknowledged() - known
        self._rest(on=False)
        return lost, {tag for tag, times in paid.items() if times > 1}

    def forget(self) -> None:
        """Drops what was acknowledged and noted so far."""
        self.pooler_ends.clear()
        for application in self.applications.values():
            application.answers.clear()
        os.truncate(self._ledger, 0)

    def _rest(self, *, on: bool) -> None:
        for application in self.applications.values():
            application.rest(on=on)

    def _sync(self, number: int) -> None:
        """Edits the JobSchedule, and waits until its status says that the operator has stored it."""
        edited = self.schedules.edit(SCHEDULE, payload={"number": number})["metadata"]["generation"]
        until = time.monotonic() + REPLY_S
        while not self._is_stored(edited):
            if time.monotonic() > until:
                raise TimeoutError
            time.sleep(0.05)

    def _is_stored(self, generation: int) -> bool:
        status = self.schedules.status(SCHEDULE)
        ready = [each["status"] for each in status.get("conditions", []) if each["type"] == "Ready"]
        return status.get("observedGeneration") == generation and ready == ["True"]


def _tag(application: str, number: int) -> str:
    return f"{application.replace(' ', '-')}-{number}"


def _is_pooled(tag: str) -> bool:
    return int(tag.rpartition("-")[2]) % 2 == 1


def _enqueue(door: OwnConnection | PsycopgPool | SqlAlchemyPool, name: str, number: int) -> None:
    tag = _tag(name, number)
    door.enqueue("noted", {"tag": tag}, queue=POOLED if _is_pooled(tag) else "default", **RETRIES)


def _maintains(dsn: str) -> None:
    """Raises OSError unless the operator's maintenance has a session on this server."""
    if not answers(dsn, MAINTAINS):
        raise OSError("not yet")


def answers(dsn: str, query: str) -> bool:
    with psycopg.connect(dsn, autocommit=True) as conn:
        return conn.execute(query.encode()).fetchone() is not None


@contextmanager
def _board(options: BoardOptions) -> Generator[Repeated]:
    with (
        serving(options) as address,
        Repeated(lambda _: urlopen(f"{address}/runs", timeout=30).close(), 0.1) as pages,
    ):
        yield pages


@contextmanager
def _client(command: list[str], dsn: str, queue: str, folder: Path) -> Generator[None]:
    """A worker in another language."""
    settings = {"dsn": dsn, "queues": queue, "lease_seconds": 10}
    environment = {**inherited_environment(), **as_variables(settings), "CONFORMANCE_DSN": dsn}
    with (
        (folder / f"{queue}.log").open("wb") as log,
        subprocess.Popen(command, env=environment, stdout=log, stderr=log) as process,
    ):
        try:
            yield
        finally:
            process.kill()
