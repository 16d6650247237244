"""The load of a campaign: applications that enqueue, new schedules, and a user who cancels, retries and replays.

Applications connect through the proxy, so faults hit them too. They record each reply outside the database, and the
checker compares these records with the tables.
"""

from __future__ import annotations

import itertools
import random
import threading
import time
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

import psycopg
from psycopg.types.json import Jsonb

import wakeboard
from chaos.chaotic_handlers import GOOD
from wakeboard.rules.cron_parser import parse_cron

if TYPE_CHECKING:
    from collections.abc import Callable

RATE: Final = 50.0  # enqueued runs per second
LIMITS: Final = {"printer": 2, "api": 4}  # others have 1
LIMIT_KEYS: Final = (*LIMITS, "plotter")
POLICIES: Final = ("Allow", "Allow", "Forbid", "Queue", "Replace")
CATCH_UPS: Final = ("All", "Latest", "Skip")
LONGEST_BACKLOG: Final = 40  # minutes

_ENQUEUE: Final = """
select id from wakeboard.enqueue(%s, %s, idempotency_key => %s, limit_key => %s, priority => %s,
  max_attempts => 100, timeout_s => %s, backoff => 'fixed', backoff_base_s => 1)
"""
_DEFINE: Final = """
insert into wakeboard.job_definitions (
  source, namespace, name, spec_hash, job_type, schedule, cron_fields, catch_up, catch_up_limit, concurrency_policy,
  max_attempts, backoff_strategy, backoff_base_s, timeout_s, next_run_at)
values ('file:chaos', 'chaos', %s, '', 'ticks', %s, %s, %s, 1000, %s, 100, 'fixed', 1, 15,
        to_timestamp(floor(extract(epoch from now()) / %s) * %s) - make_interval(secs => %s))
"""
_SOME_RUNS: Final = """
select id from wakeboard.job_runs where status = any (%s::wakeboard.run_status[]) and job_type = any (%s)
 order by random() limit %s
"""


@dataclass
class ClientRecord:
    """The replies that clients received. A tag identifies a request; it is in the payload of its run."""

    acknowledged: dict[str, int] = field(default_factory=dict[str, int])  # tag -> run
    unsure: set[str] = field(default_factory=set[str])  # no reply
    bulks: list[set[str]] = field(default_factory=list["set[str]"])  # all tags of a bulk, or none, are in the database
    changed_by_users: set[int] = field(default_factory=set[int])  # runs that a user may have retried


class _Reconnecting:
    """Opens a new connection when the last one is broken."""

    def __init__(self, dsn: str, name: str) -> None:
        self._dsn, self._name = dsn, name
        self._conn: psycopg.Connection[Any] | None = None

    def __call__(self) -> psycopg.Connection[Any]:
        if self._conn is None or self._conn.closed:
            self._conn = psycopg.connect(
                self._dsn,
                autocommit=True,
                prepare_threshold=None,  # intercepts recognise statements by their text
                application_name=self._name,
                connect_timeout=5,
                tcp_user_timeout=5000,
            )
        return self._conn


class Applications:
    """Threads that put load on the store from `start` to `stop`: RATE enqueued runs per second, about."""

    def __init__(self, app_dsn: str, admin_dsn: str, record: ClientRecord) -> None:
        self._app_dsn, self._admin_dsn, self.record = app_dsn, admin_dsn, record
        self._pause_s = 5.0 / RATE
        self._over = threading.Event()
        self._numbers = itertools.count(1)
        self._random = random.Random()  # not seeded: only the faults are replayed
        self._threads: list[threading.Thread] = []

    def start(self) -> None:
        """Starts the threads."""
        clients: list[tuple[str, float, Callable[[_Reconnecting], None], str]] = [
            ("keyed", self._pause_s, self._enqueue_with_key, self._app_dsn),
            ("orders", self._pause_s, self._enqueue_in_transaction, self._app_dsn),
            ("bulk", 6 * self._pause_s, self._enqueue_bulk, self._app_dsn),
            ("schedules", 1.5, self._create_schedule, self._admin_dsn),
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
            with suppress(psycopg.Error, wakeboard.WakeboardError):
                do(connection)

    # -- applications --------------------------------------------------------------------------------------------------

    def _request(self) -> tuple[str, dict[str, Any], str | None, int]:
        """A random job type, payload without a tag, limit key and timeout."""
        chance = self._random
        job_type = chance.choice(
            ["quick", "quick", "charges", "charges", "charges-in-a-thread", "two-effects", "ships", "flaky", "naps",
             "naps", "limited", "limited", "snoozes", "overruns", "discards"]
        )  # fmt: skip
        if job_type == "overruns" and chance.random() < 0.7:
            job_type = "quick"
        payload: dict[str, Any] = {"seconds": round(chance.uniform(0.05, 0.4), 3), "failures": chance.choice([1, 2])}
        if job_type == "naps":
            payload["seconds"] = round(chance.uniform(0.2, 2.5), 3)
        key = chance.choice(LIMIT_KEYS) if job_type == "limited" else None
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
                (self.record.acknowledged[tag],) = _first(connection().execute(_ENQUEUE, values))
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
                (run,) = _first(conn.execute(_ENQUEUE, values))
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

    # -- users ---------------------------------------------------------------------------------------------------------

    def _create_schedule(self, connection: _Reconnecting) -> None:
        """A new schedule that has missed some ticks, and ticks every minute or every two minutes from now on."""
        every = self._random.choice([1, 1, 2])
        cron = "* * * * *" if every == 1 else "*/2 * * * *"
        name = f"schedule-{next(self._numbers)}"
        back = self._random.randint(0, LONGEST_BACKLOG // every) * every * 60
        catch_up, policy = self._random.choice(CATCH_UPS), self._random.choice(POLICIES)
        fields = parse_cron(cron, name=name).to_text()
        step = every * 60
        with suppress(psycopg.Error):
            connection().execute(_DEFINE, (name, cron, fields, catch_up, policy, step, step, back))

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
                conn.execute("select wakeboard.run_now(id) from wakeboard.job_definitions order by random() limit 1")
            case _:
                conn.execute(
                    "select wakeboard.replay(array(select id from wakeboard.job_run_history"
                    " where status = 'succeeded' and payload = '{}' order by random() limit 1))"
                )


def _ids(conn: psycopg.Connection[Any], statuses: list[str], count: int) -> list[int]:
    return [row[0] for row in conn.execute(_SOME_RUNS, (statuses, [*GOOD, "discards"], count)).fetchall()]


def _first(cursor: psycopg.Cursor[Any]) -> Any:
    row = cursor.fetchone()
    assert row is not None
    return row
