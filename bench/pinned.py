"""How a worker holds its rate while somebody's snapshot keeps dead rows from being removed."""

from __future__ import annotations

import threading
import time
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import psycopg

from bench.goals import at_least
from bench.tables import Table, number, spread
from bench.workers import workplace

if TYPE_CHECKING:
    from collections.abc import Generator

    from bench.arena import Arena, Database
    from bench.plan import Plan

BACKLOG: Final = 50_000  # runs that wait
FEED: Final = "insert into wakeboard.job_runs (job_type) select 'noop' from generate_series(1, 10000)"
FED: Final = 10_000
FINISHED: Final = "select coalesce(max(id), 0) from wakeboard.job_run_history"  # ids are given in order
DEAD: Final = "select pg_stat_get_dead_tuples('wakeboard.job_runs'::regclass)"
LOOK_EVERY_S: Final = 0.02
LAST_PART: Final = 1 / 3  # of the time, which counts


@dataclass(frozen=True, slots=True)
class Steady:
    """Runs per second in the last third of the time, and the dead rows at its end."""

    rate: float
    dead_rows: float


def measure_pinned(arena: Arena, plan: Plan) -> Table:
    """In turn: without and with a snapshot."""
    free: list[Steady] = []
    pinned: list[Steady] = []
    for _ in range(plan.few_repetitions):
        free.append(_steady(arena, plan.pinned_s, pinned=False))
        pinned.append(_steady(arena, plan.pinned_s, pinned=True))
    ratios = [held.rate / loose.rate for held, loose in zip(pinned, free, strict=True)]
    return Table(
        title="A pinned snapshot",
        note=f"{plan.few_repetitions} times each."
        f" One worker under load for {plan.pinned_s:.0f} s: {BACKLOG:,} runs wait at any time. Pinned: a"
        " transaction that began before stays open, so that no dead row can be removed. Runs per second in the last"
        f" third of that time. Pinned is {spread(ratios)} times as fast as free.",
        head=("snapshot", "runs/s", "dead rows at the end"),
        rows=[_row("none", free), _row("pinned", pinned)],
        goals=[at_least("under load with a snapshot pinned: times as fast as without", 0.8, ratios)],
    )


def _row(name: str, found: list[Steady]) -> list[str]:
    return [name, spread([each.rate for each in found]), number(max(each.dead_rows for each in found))]


def _steady(arena: Arena, seconds: float, *, pinned: bool) -> Steady:
    with arena.database() as database, workplace() as place, _snapshot(database, pinned=pinned), _fed(database):
        worker = place.start(database.dsn, "--forever")
        place.wait_until(lambda: database.ask(FINISHED))
        time.sleep(seconds * (1 - LAST_PART))
        began, before = time.monotonic(), database.ask(FINISHED)
        time.sleep(seconds * LAST_PART)
        rate = (database.ask(FINISHED) - before) / (time.monotonic() - began)
        if worker.dead():
            raise RuntimeError(f"the worker ended: {worker.said()}")
        return Steady(rate, database.ask(DEAD))


@contextmanager
def _snapshot(database: Database, *, pinned: bool) -> Generator[None]:
    with psycopg.connect(database.dsn) as conn:
        if pinned:
            conn.execute("set transaction isolation level repeatable read")
            conn.execute("select 1")
        yield
        conn.rollback()


@contextmanager
def _fed(database: Database) -> Generator[None]:
    """Keeps the backlog full meanwhile."""
    enough = threading.Event()

    def feed() -> None:
        fed = 0
        with psycopg.connect(database.dsn, autocommit=True) as conn:
            while not enough.is_set():
                row = conn.execute(FINISHED).fetchone()
                assert row is not None
                if fed - row[0] < BACKLOG:
                    conn.execute(FEED)
                    fed += FED
                else:
                    enough.wait(LOOK_EVERY_S)

    feeder = threading.Thread(target=feed)
    feeder.start()
    try:
        yield
    finally:
        enough.set()
        feeder.join()
