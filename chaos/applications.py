"""The load of a campaign: applications that enqueue, and a user who cancels, retries and replays.

Applications connect through the proxy, so faults hit them too. They record each reply outside the database, and the
checker compares these records with the tables.
"""

from __future__ import annotations

import itertools
import random
import threading
import time
import traceback
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

import psycopg
from psycopg.types.json import Jsonb

import wakeboard
from chaos.chaotic_handlers import GOOD
from chaos.connection import connect
from chaos.customers import Customers
from chaos.pipelines import Pipelines

if TYPE_CHECKING:
    from collections.abc import Callable
    from uuid import UUID

RATE: Final = 50.0  # enqueued runs per second
LIMITS: Final = {"printer": 2, "api": 4}  # others have 1
LIMIT_KEYS: Final = (*LIMITS, "plotter")
RATES: Final = {"metered": (240, 60, 5)}  # starts, per so many seconds, burst
WRONG: Final = (psycopg.errors.InsufficientPrivilege, psycopg.errors.UndefinedFunction, psycopg.errors.UndefinedTable)

_ENQUEUE: Final = """
select id, uuid from wakeboard.enqueue(%s, %s, idempotency_key => %s, limit_key => %s, priority => %s,
  max_attempts => 100, timeout_s => %s, backoff => 'fixed', backoff_base_s => 1)
"""
_ENQUEUE_UNIQUE: Final = """
select id, created from wakeboard.enqueue('quick', %s, run_at => now() + make_interval(secs => %s),
  max_attempts => 100, timeout_s => 15, backoff => 'fixed', backoff_base_s => 1,
  unique_for => 86400, unique_by => '{customer}', if_exists => %s)
"""
_ENQUEUE_AFTER: Final = """
select id from wakeboard.enqueue('charges', %s, max_attempts => 100, timeout_s => 15,
  backoff => 'fixed', backoff_base_s => 1, after => %s, after_uuids => %s)
"""
_SOME_RUNS: Final = """
select id, uuid from wakeboard.job_runs where status = any (%s::wakeboard.run_status[]) and job_type = any (%s)
 order by random() limit %s
"""


@dataclass
class ClientRecord:
    """The replies that clients received. A tag identifies a request; it is in the payload of its run."""

    acknowledged: dict[str, int] = field(default_factory=dict[str, int])  # tag -> run
    unsure: set[str] = field(default_factory=set[str])  # no reply
    bulks: list[set[str]] = field(default_factory=list["set[str]"])  # all tags of a bulk, or none, are in the database
    changed_by_users: set[int] = field(default_factory=set[int])  # runs that a user may have retried
    contradicted: list[str] = field(default_factory=list[str])  # replies that name another run than the one before
    refused: list[str] = field(default_factory=list[str])  # requested runs of schedules whose circuit was open
    wrong: set[str] = field(default_factory=set[str])  # what no request can do: the campaign would test less, silently


class _Reconnecting:
    """Opens a new connection when the last one is broken."""

    def __init__(self, dsn: str, name: str) -> None:
        self._dsn, self._name = dsn, name
        self._conn: psycopg.Connection[Any] | None = None

    def __call__(self) -> psycopg.Connection[Any]:
        if self._conn is None or self._conn.closed:
            # Not prepared: intercepts recognise statements by their text.
            self._conn = connect(self._dsn, self._name, prepare_threshold=None)
        return self._conn


class Applications:
    """Threads that put load on the store from `start` to `stop`: RATE enqueued runs per second, about."""

    def __init__(self, app_dsn: str, admin_dsn: str, record: ClientRecord) -> None:
        self._app_dsn, self._admin_dsn, self.record = app_dsn, admin_dsn, record
        self._runs = _Reconnecting(admin_dsn, "chaos runs")  # the role of applications may not read them
        self._pause_s = 5.0 / RATE
        self._over = threading.Event()
        self._numbers, self._customers, self._invoices = (itertools.count(1) for _ in range(3))
        self._random = random.Random()  # not seeded: only the faults are replayed
        self._threads: list[threading.Thread] = []

    def start(self) -> None:
        """Starts the threads."""
        schedules = _Reconnecting(self._admin_dsn, "chaos schedules")
        pipelines = Pipelines(self._admin_dsn, schedules)
        backfills = Pipelines(self._admin_dsn, _Reconnecting(self._admin_dsn, "chaos backfills"))
        customers = Customers()
        clients: list[tuple[str, float, Callable[[_Reconnecting], None], str]] = [
            ("keyed", self._pause_s, self._enqueue_with_key, self._app_dsn),
            ("orders", self._pause_s, self._enqueue_in_transaction, self._app_dsn),
            ("bulk", 6 * self._pause_s, self._enqueue_bulk, self._app_dsn),
            ("unique", 5 * self._pause_s, self._enqueue_unique, self._app_dsn),
            ("after", 3 * self._pause_s, self._enqueue_after, self._app_dsn),
            ("customers", 0.6, lambda connect: customers.change_one(connect()), self._app_dsn),
            ("more customers", 1.1, lambda connect: customers.change_one(connect()), self._app_dsn),
            ("schedules", 1.5, lambda _: pipelines.create_schedule(), self._admin_dsn),
            ("pipelines", 4.0, lambda _: pipelines.declare_pipeline(), self._admin_dsn),
            ("backfills", 0.7, lambda _: backfills.act_on_backfills(), self._admin_dsn),
            ("user", 0.5, self._act_as_user, self._admin_dsn),
        ]
        for name, pause_s, do, dsn in clients:
            thread = threading.Thread(target=self._repeat, args=(name, pause_s, do, dsn), name=name, daemon=True)
            self._threads.append(thread)
            thread.start()

    def stop(self) -> None:
        """Sends no more requests, and waits for those that are running."""
        self._over.set()
        for thread in self._threads:
            thread.join(20)

    def _repeat(self, name: str, pause_s: float, do: Callable[[_Reconnecting], None], dsn: str) -> None:
        connection = _Reconnecting(dsn, f"chaos {name}")
        while not self._over.wait(pause_s):
            try:
                do(connection)
            except WRONG as error:
                self.record.wrong.add(f"{name}: {error}")
            except (psycopg.Error, wakeboard.WakeboardError):
                pass  # a fault: the next request may succeed
            except Exception:  # noqa: BLE001 - whatever it is, this load must not end without a word
                self.record.wrong.add(f"{name}: {traceback.format_exc()}")

    # -- applications --------------------------------------------------------------------------------------------------

    def _request(self) -> tuple[str, dict[str, Any], str | None, int]:
        """A random job type, payload without a tag, limit key and timeout."""
        chance = self._random
        job_type = chance.choice(
            ["quick", "quick", "charges", "charges", "charges-in-a-thread", "two-effects", "ships", "flaky", "naps",
             "naps", "limited", "limited", "metered", "snoozes", "invoices", "invoices", "overruns", "discards"]
        )  # fmt: skip
        if job_type == "overruns" and chance.random() < 0.7:
            job_type = "quick"
        payload: dict[str, Any] = {"seconds": round(chance.uniform(0.05, 0.4), 3), "failures": chance.choice([1, 2])}
        if job_type == "invoices":  # several runs have one invoice, and meet
            payload["invoice"] = next(self._invoices) // 6 + chance.randint(0, 1)
        if job_type in {"naps", "invoices"}:
            payload["seconds"] = round(chance.uniform(0.2, 2.5), 3)
        key = {"limited": chance.choice(LIMIT_KEYS), "metered": "metered"}.get(job_type)
        return job_type, payload, key, 2 if job_type == "overruns" else 15

    def _enqueue_with_key(self, connection: _Reconnecting) -> None:
        """Enqueues with an idempotency key until it receives a reply. Sometimes repeats the request afterwards."""
        key = tag = f"key-{next(self._numbers)}"
        job_type, payload, limit_key, timeout_s = self._request()
        values = (job_type, Jsonb({**payload, "tag": tag}), key, limit_key, self._random.randint(1, 5), timeout_s)
        repeats = 1 if self._random.random() < 0.3 else 0
        deadline = time.monotonic() + 60
        while time.monotonic() < deadline:
            try:
                self.record.acknowledged[tag], _ = _first(connection().execute(_ENQUEUE, values))
            except psycopg.Error:
                self.record.unsure.add(tag)
                time.sleep(0.1)
                continue
            if not repeats:
                return
            repeats -= 1

    def _enqueue_in_transaction(self, connection: _Reconnecting) -> None:
        """Enqueues and inserts a row of its own in one transaction. It does not repeat a request without a reply."""
        tag = f"order-{next(self._numbers)}"
        job_type, payload, limit_key, timeout_s = self._request()
        values = (job_type, Jsonb({**payload, "tag": tag}), None, limit_key, 3, timeout_s)
        conn = connection()
        try:
            with conn.transaction():
                run, _ = _first(conn.execute(_ENQUEUE, values))
                conn.execute("insert into chaos.orders values (%s, %s)", (tag, run))
        except psycopg.Error:
            self.record.unsure.add(tag)
        else:
            self.record.acknowledged[tag] = run

    def _enqueue_bulk(self, connection: _Reconnecting) -> None:
        """Twenty runs in one statement: all or none."""
        tags = [f"bulk-{next(self._numbers)}" for _ in range(20)]
        jobs = [wakeboard.Job("quick", {"tag": tag}) for tag in tags]
        self.record.bulks.append(set(tags))
        try:
            made = wakeboard.enqueue_many(connection(), jobs, max_attempts=100, timeout_s=15)
        except (psycopg.Error, wakeboard.WakeboardError):
            self.record.unsure.update(tags)
        else:
            self.record.acknowledged.update({tag: run.id for tag, run in zip(tags, made, strict=True)})

    def _enqueue_unique(self, connection: _Reconnecting) -> None:
        """Enqueues for a customer who has a run already, in most cases, until it receives a reply."""
        customer = self._random.randint(1, 10 + next(self._customers) // 4)
        tag, replaces = f"unique-{customer}", self._random.random() < 0.5
        payload = Jsonb({"tag": tag, "customer": customer, "version": self._random.random()})
        values = payload, self._random.uniform(0, 1), "replace" if replaces else "keep"
        deadline = time.monotonic() + 60
        while time.monotonic() < deadline:
            try:
                run, created = _first(connection().execute(_ENQUEUE_UNIQUE, values))
            except psycopg.Error:
                self.record.unsure.add(tag)
                time.sleep(0.1)
                continue
            known = self.record.acknowledged.setdefault(tag, run)
            if known != run:
                self.record.contradicted.append(f"{tag}: runs {known} and {run}")
            if replaces and not created:
                self.record.changed_by_users.add(run)  # its attempts begin again
            return

    def _enqueue_after(self, connection: _Reconnecting) -> None:
        """Two runs and one that waits for them, and for an older run if it can; a row of its own; one transaction."""
        tag = f"order-{next(self._numbers)}"
        conn = connection()
        older = _runs(self._runs(), ["queued", "running", "failed"], 1) if self._random.random() < 0.5 else []
        try:
            with conn.transaction():
                parents: list[tuple[int, UUID]] = []
                for part in ("pay", "pack"):
                    job_type, payload, limit_key, timeout_s = self._request()
                    values = job_type, Jsonb({**payload, "part": part}), None, limit_key, 3, timeout_s
                    parents.append(_first(conn.execute(_ENQUEUE, values)))
                ids, uuids = map(list, zip(*parents, *older, strict=True))
                (run,) = _first(conn.execute(_ENQUEUE_AFTER, (Jsonb({"tag": tag}), ids, uuids)))
                conn.execute("insert into chaos.orders values (%s, %s)", (tag, run))
        except psycopg.Error:
            self.record.unsure.add(tag)
        else:
            self.record.acknowledged[tag] = run

    # -- users ---------------------------------------------------------------------------------------------------------

    def _act_as_user(self, connection: _Reconnecting) -> None:
        """Cancels, retries or replays some runs, or runs a schedule now."""
        conn = connection()
        match self._random.randrange(4):
            case 0:
                conn.execute("select wakeboard.cancel(%s)", (_ids(conn, ["queued", "running", "failed"], 2),))
            case 1:
                ids = _ids(conn, ["failed", "dead"], 3)  # not those that kill workers: a user would not retry them
                self.record.changed_by_users.update(ids)
                conn.execute("select wakeboard.retry(%s)", (ids,))
            case 2:
                self._run_now(conn)
            case _:
                conn.execute(
                    "select wakeboard.replay(array(select id from wakeboard.job_run_history"
                    " where status = 'succeeded' and (payload = '{}' or job_type = 'invoices' and not payload ? 'tag')"
                    " order by job_type = 'invoices' and random() < 0.3 desc, random() limit 1))"
                )

    def _run_now(self, conn: psycopg.Connection[Any]) -> None:
        """Runs a schedule, often one whose circuit is open, which must not matter."""
        schedule = conn.execute(
            "select id, concurrency_policy, circuit_opened_at is not null from wakeboard.job_definitions"
            " order by circuit_opened_at is not null and random() < 0.5 desc, random() limit 1"
        ).fetchone()
        if schedule is None:
            return
        definition, policy, is_open = schedule
        _, answer = _first(conn.execute("select id, answer from wakeboard.run_now(%s)", (definition,)))
        if is_open and policy in {"Allow", "Queue"} and answer != "queued":
            self.record.refused.append(f"schedule {definition}: {answer}")


def _ids(conn: psycopg.Connection[Any], statuses: list[str], count: int) -> list[int]:
    return [run for run, _ in _runs(conn, statuses, count)]


def _runs(conn: psycopg.Connection[Any], statuses: list[str], count: int) -> list[tuple[int, UUID]]:
    return conn.execute(_SOME_RUNS, (statuses, [*GOOD, "discards"], count)).fetchall()


def _first(cursor: psycopg.Cursor[Any]) -> Any:
    row = cursor.fetchone()
    assert row is not None
    return row
