"""Measures a worker's rate while another session's snapshot prevents the removal of dead rows."""

from __future__ import annotations

import threading
import time
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import psycopg

from bench.tables import Table, at_least, number, spread
from bench.workers import worker_group

if TYPE_CHECKING:
    from collections.abc import Generator

    from bench.database import BenchmarkServer, Database
    from bench.plan import Plan

BACKLOG: Final = 50_000  # runs that wait
FEED: Final = "insert into wakeboard.job_runs (job_type) select 'noop' from generate_series(1, 10000)"
FED: Final = 10_000
FINISHED: Final = "select coalesce(max(id), 0) from wakeboard.job_run_history"  # ids are given in order
DEAD: Final = "select pg_stat_get_dead_tuples('wakeboard.job_runs'::regclass)"
POLL_S: Final = 0.02
AT_FULL_LOAD_S: Final = 5.0  # afterwards: the first second fills the backlog, the others count
FILLS_S: Final = 1.0


@dataclass(frozen=True, slots=True)
class SteadyRate:
    """Runs per second at full load, and the dead rows then."""

    rate: float
    dead_rows: float


def measure_pinned(server: BenchmarkServer, plan: Plan) -> Table:
    """In turn: without and with a snapshot."""
    free: list[SteadyRate] = []
    pinned: list[SteadyRate] = []
    for _ in range(plan.few_repetitions):
        free.append(_steady(server, plan, pinned=False))
        pinned.append(_steady(server, plan, pinned=True))
    ratios = [with_it.rate / without.rate for with_it, without in zip(pinned, free, strict=True)]
    load = f"{plan.pinned_load:,} runs/s" if plan.pinned_load else "as much as it can take"
    return Table(
        title="A pinned snapshot",
        note=f"{'Once' if plan.few_repetitions == 1 else f'{plan.few_repetitions} times'} each."
        f" One worker under load for {plan.pinned_s:.0f} s ({load}), then for {AT_FULL_LOAD_S:.0f} s with"
        f" {BACKLOG:,} runs waiting at any time, which count. Pinned: a transaction that began before stays open, so"
        f" that no dead row can be removed. Pinned is {spread(ratios)} times as fast as free.",
        head=("snapshot", "runs/s", "dead rows at the end"),
        rows=[_row("none", free), _row("pinned", pinned)],
        thresholds=[at_least("under load with a snapshot pinned: times as fast as without", 0.8, ratios)],
    )


def _row(name: str, found: list[SteadyRate]) -> list[str]:
    return [name, spread([each.rate for each in found]), number(max(each.dead_rows for each in found))]


def _steady(server: BenchmarkServer, plan: Plan, *, pinned: bool) -> SteadyRate:
    feed = _Feed(plan.pinned_load)
    with (
        server.database() as database,
        worker_group() as workers,
        _snapshot(database, pinned=pinned),
        feed.into(database),
    ):
        worker = workers.start(database.dsn, "--forever")
        workers.wait_until(lambda: database.ask(FINISHED))
        time.sleep(plan.pinned_s)
        feed.per_s = 0
        time.sleep(FILLS_S)
        began, before = time.monotonic(), database.ask(FINISHED)
        time.sleep(AT_FULL_LOAD_S - FILLS_S)
        rate = (database.ask(FINISHED) - before) / (time.monotonic() - began)
        if worker.dead():
            raise RuntimeError(f"the worker ended: {worker.output()}")
        return SteadyRate(rate, database.ask(DEAD))


@contextmanager
def _snapshot(database: Database, *, pinned: bool) -> Generator[None]:
    with psycopg.connect(database.dsn) as conn:
        if pinned:
            conn.execute("set transaction isolation level repeatable read")
            conn.execute("select 1")
        yield
        conn.rollback()


class _Feed:
    """New runs: so many per second, or (0) as many as keep the backlog full."""

    def __init__(self, per_s: int) -> None:
        self.per_s = per_s
        self._enough = threading.Event()

    @contextmanager
    def into(self, database: Database) -> Generator[None]:
        """Feeds meanwhile."""
        feeder = threading.Thread(target=self._feed, args=[database.dsn])
        feeder.start()
        try:
            yield
        finally:
            self._enough.set()
            feeder.join()

    def _feed(self, dsn: str) -> None:
        fed, began = 0, time.monotonic()
        with psycopg.connect(dsn, autocommit=True) as conn:
            conn.execute("set search_path = pg_catalog, wakeboard, pg_temp")  # so that runs may belong to a definition
            while not self._enough.is_set():
                finished = conn.execute(FINISHED).fetchone()
                assert finished is not None
                early = self.per_s and fed >= self.per_s * (time.monotonic() - began)
                if early or fed - finished[0] >= BACKLOG:
                    self._enough.wait(POLL_S)
                else:
                    conn.execute(FEED)
                    fed += FED
