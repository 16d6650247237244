"""What goes on while faults happen: applications that enqueue, new schedules, and a person who decides about runs.

Applications go through the switchboard, and faults meet them too. What they were told they write down here, outside the
database: the checker compares it with the tables.
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

LIMITS: Final = {"printer": 2, "api": 4}  # others have 1
LIMIT_KEYS: Final = (*LIMITS, "plotter")
POLICIES: Final = ("Allow", "Allow", "Forbid", "Queue", "Replace")
CATCH_UPS: Final = ("All", "Latest", "Skip")
LONGEST_BACKLOG: Final = 40  # minutes

_ENQUEUE: Final = """
select id, created from wakeboard.enqueue(%s, %s, idempotency_key => %s, limit_key => %s, priority => %s,
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
class Told:
    """What applications and people know. Tags name what was asked for; each stands in its run's payload."""

    acknowledged: dict[str, int] = field(default_factory=dict[str, int])  # tag -> run
    unsure: set[str] = field(default_factory=set[str])  # the answer was lost
    by_key: dict[str, set[int]] = field(default_factory=dict[str, "set[int]"])  # idempotency key -> runs it gave
    created: dict[str, int] = field(default_factory=dict[str, int])  # idempotency key -> how often it said created
    bulks: list[set[str]] = field(default_factory=list["set[str]"])  # all of these or none of them
    orders: set[str] = field(default_factory=set[str])  # of our own rows: they and their runs, or neither
    decided: set[int] = field(default_factory=set[int])  # runs that a person may have retried


class _Caller:
    """A connection that is opened again when it breaks."""

    def __init__(self, dsn: str, name: str) -> None:
        self._dsn, self._name = dsn, name
        self._conn: psycopg.Connection[Any] | None = None

    def __call__(self) -> psycopg.Connection[Any]:
        if self._conn is None or self._conn.closed:
            self._conn = psycopg.connect(
                self._dsn,
                autocommit=True,
                prepare_threshold=None,  # traps know statements by their text
                application_name=self._name,
                connect_timeout=5,
                tcp_user_timeout=5000,
            )
        return self._conn


class Applications:
    """Threads that enqueue, declare and decide from `start` to `stop`. `rate`: enqueued runs a second, about."""

    def __init__(self, app_dsn: str, person_dsn: str, told: Told, rate: float) -> None:
        self._app_dsn, self._person_dsn, self.told = app_dsn, person_dsn, told
        self._pause_s = 5.0 / rate
        self._over = threading.Event()
        self._numbers = itertools.count(1)
        self._random = random.Random()  # what is enqueued need not be replayed: the faults are
        self._threads: list[threading.Thread] = []

    def start(self) -> None:
        """Begins."""
        keepers: list[tuple[str, float, Callable[[_Caller], None], str]] = [
            ("shop", self._pause_s, self._shop, self._app_dsn),
            ("orders", self._pause_s, self._order, self._app_dsn),
            ("bulk", 6 * self._pause_s, self._bulk, self._app_dsn),
            ("schedules", 1.5, self._declare, self._person_dsn),
            ("person", 0.5, self._decide, self._person_dsn),
        ]
        for name, pause_s, do, dsn in keepers:
            thread = threading.Thread(target=self._keep, args=(name, pause_s, do, dsn), name=name, daemon=True)
            self._threads.append(thread)
            thread.start()

    def stop(self) -> None:
        """Asks nothing more of the board; waits for what is under way."""
        self._over.set()
        for thread in self._threads:
            thread.join(20)

    def _keep(self, name: str, pause_s: float, do: Callable[[_Caller], None], dsn: str) -> None:
        caller = _Caller(dsn, f"chaos {name}")
        while not self._over.wait(pause_s):
            with suppress(psycopg.Error, wakeboard.WakeboardError):
                do(caller)

    # -- applications --------------------------------------------------------------------------------------------------

    def _asked(self) -> tuple[str, dict[str, Any], str | None, int]:
        """Job type, payload without a tag, limit key, timeout."""
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

    def _shop(self, caller: _Caller) -> None:
        """Enqueues under an idempotency key until it is told the run; sometimes asks again later."""
        key = tag = f"key-{next(self._numbers)}"
        job_type, payload, limit_key, timeout_s = self._asked()
        values = (job_type, Jsonb({**payload, "tag": tag}), key, limit_key, self._random.randint(1, 5), timeout_s)
        again = 1 if self._random.random() < 0.3 else 0
        deadline = time.monotonic() + 60
        while time.monotonic() < deadline:
            try:
                run, created = _first(caller().execute(_ENQUEUE, values))
            except psycopg.Error:
                self.told.unsure.add(tag)
                time.sleep(0.1)
                continue
            self._hear(tag, run, created=created)
            if not again:
                return
            again -= 1

    def _hear(self, key: str, run: int, *, created: bool) -> None:
        self.told.acknowledged[key] = run
        self.told.by_key.setdefault(key, set()).add(run)
        self.told.created[key] = self.told.created.get(key, 0) + created

    def _order(self, caller: _Caller) -> None:
        """Writes a row of its own and enqueues, in one transaction, once: no answer means that nobody knows."""
        tag = f"order-{next(self._numbers)}"
        job_type, payload, limit_key, timeout_s = self._asked()
        self.told.orders.add(tag)
        values = (job_type, Jsonb({**payload, "tag": tag}), None, limit_key, 3, timeout_s)
        conn = caller()
        try:
            with conn.transaction():
                run, _ = _first(conn.execute(_ENQUEUE, values))
                conn.execute("insert into chaos.orders values (%s, %s)", (tag, run))
        except psycopg.Error:
            self.told.unsure.add(tag)
        else:
            self.told.acknowledged[tag] = run

    def _bulk(self, caller: _Caller) -> None:
        """Twenty runs in one statement: all of them or none."""
        tags = [f"bulk-{next(self._numbers)}" for _ in range(20)]
        jobs = [wakeboard.Job("quick", {"tag": tag}) for tag in tags]
        self.told.bulks.append(set(tags))
        try:
            made = wakeboard.enqueue_many(caller(), jobs, max_attempts=100, timeout_s=15)
        except (psycopg.Error, wakeboard.WakeboardError):
            self.told.unsure.update(tags)
        else:
            self.told.acknowledged.update({tag: run.id for tag, run in zip(tags, made, strict=True)})

    # -- people --------------------------------------------------------------------------------------------------------

    def _declare(self, caller: _Caller) -> None:
        """A new schedule that has missed some ticks, and ticks each minute or every other one from now on."""
        every = self._random.choice([1, 1, 2])
        line = "* * * * *" if every == 1 else "*/2 * * * *"
        name = f"schedule-{next(self._numbers)}"
        back = self._random.randint(0, LONGEST_BACKLOG // every) * every * 60
        catch_up, policy = self._random.choice(CATCH_UPS), self._random.choice(POLICIES)
        fields = parse_cron(line, name=name).to_text()
        step = every * 60
        with suppress(psycopg.Error):
            caller().execute(_DEFINE, (name, line, fields, catch_up, policy, step, step, back))

    def _decide(self, caller: _Caller) -> None:
        """Cancels some runs, tries some again, runs a schedule now."""
        conn = caller()
        match self._random.randrange(4):
            case 0:
                conn.execute("select wakeboard.cancel(%s)", (_ids(conn, ["queued", "running", "failed"], 2),))
            case 1:
                ids = _ids(conn, ["failed", "dead"], 3)  # not what kills workers: somebody looked at that
                self.told.decided.update(ids)
                conn.execute("select wakeboard.retry(%s)", (ids,))
            case 2:
                conn.execute("select wakeboard.run_now(id) from wakeboard.job_definitions order by random() limit 1")
            case _:
                conn.execute(
                    "select wakeboard.replay(array(select id from wakeboard.job_run_history"
                    " where status = 'succeeded' and payload = '{}' order by random() limit 1))"
                )


def _ids(conn: psycopg.Connection[Any], states: list[str], count: int) -> list[int]:
    return [row[0] for row in conn.execute(_SOME_RUNS, (states, [*GOOD, "discards"], count)).fetchall()]


def _first(cursor: psycopg.Cursor[Any]) -> Any:
    row = cursor.fetchone()
    assert row is not None
    return row
