"""Measures schedules that an application creates: how fast it creates them and they become due."""

from __future__ import annotations

import asyncio
import time
from datetime import timedelta
from statistics import median
from typing import TYPE_CHECKING, Final

import wakeboard
from bench.tables import Table, at_least, at_most, spread
from wakeboard.engine.maintenance_api import MaintenanceStore
from wakeboard.schedules.scheduler import schedule_due_ticks
from wakeboard.store.connection import connect

if TYPE_CHECKING:
    from bench.database import BenchmarkServer, Database
    from bench.plan import Plan

BATCH: Final = 5_000  # schedules that one schedule_many creates
MISFIRE_GRACE: Final = timedelta(minutes=5)
IDLE_PASSES: Final = 500
PAYLOAD: Final = {"customer": 4711, "kind": "report"}
# As if the scheduler had seen them long ago: each second of the minute before now has the same number of due ticks.
SPREAD: Final = """
update wakeboard.job_definitions
   set next_run_at = date_trunc('second', statement_timestamp()) - make_interval(secs => id % 60)
"""


def measure_application_schedules(server: BenchmarkServer, plan: Plan) -> Table:
    """In bulk and one by one, beside `enqueue`; then the scheduler's first pass, and a minute of ticks."""
    bulk: list[float] = []
    shares: list[float] = []
    compiled: list[float] = []
    due: list[float] = []
    idle: list[float] = []
    for _ in range(plan.few_repetitions):
        with server.database(of_a_definition=False) as few, server.database(of_a_definition=False) as database:
            shares.append(_single_rate(database, plan.singles))
            bulk.append(_bulk_rate(database, plan.definitions))
            compiled.append(pass_s(database))
            database.vacuum()
            idle.append(idle_share(database, few))
            database.do(SPREAD)
            database.vacuum()
            due.append(pass_s(database))
    return Table(
        title="Schedules from code",
        note=f"{plan.few_repetitions} times each. {plan.definitions:,} daily schedules over one connection, durable"
        f" commits: `schedule_many` with {BATCH:,} schedules a call, and `schedule` with a transaction for each,"
        " compared with `enqueue` of the same payload.",
        head=("figure", "value"),
        rows=[
            ("in bulk, schedules/s", spread(bulk)),
            ("one by one, share of the rate of `enqueue`", spread(shares)),
            ("the first pass of the scheduler, which compiles all of them, s", spread(compiled)),
            ("a pass with a tick of each due, s", spread(due)),
            ("a pass without a due tick, share of its time without schedules", spread(idle)),
        ],
        thresholds=[
            at_least("schedules created in bulk, 1/s", 5_000, bulk),
            at_least("schedules created one by one, share of the rate of enqueue", 0.8, shares),
            at_most(f"{plan.definitions:,} ticks of schedules from code, s", 5, due),
        ],
    )


def _bulk_rate(database: Database, schedules: int) -> float:
    began = time.perf_counter()
    for start in range(0, schedules, BATCH):
        wakeboard.schedule_many(
            database.conn,
            [
                wakeboard.Schedule(f"bulk/{n}", "noop", PAYLOAD, cron=f"{n % 60} {n // 60 % 24} * * *")
                for n in range(start, min(start + BATCH, schedules))
            ],
        )
    return schedules / (time.perf_counter() - began)


def _single_rate(database: Database, calls: int) -> float:
    """The rate of `schedule`, as a share of that of `enqueue`. They take turns, so that both see the same machine."""
    took = {"schedule": 0.0, "enqueue": 0.0}
    for n in range(calls):
        began = time.perf_counter()
        wakeboard.schedule(database.conn, f"single/{n}", "noop", PAYLOAD, cron="0 8 * * MON", time_zone="Asia/Tokyo")
        between = time.perf_counter()
        wakeboard.enqueue(database.conn, "noop", PAYLOAD)
        took["schedule"] += between - began
        took["enqueue"] += time.perf_counter() - between
    return took["enqueue"] / took["schedule"]


def pass_s(database: Database) -> float:
    """Seconds of a whole pass of the scheduler."""

    async def go() -> float:
        async with await connect(database.dsn) as conn:
            began = time.perf_counter()
            await schedule_due_ticks(MaintenanceStore(conn), misfire_grace=MISFIRE_GRACE)
            return time.perf_counter() - began

    return asyncio.run(go())


def idle_share(database: Database, few: Database) -> float:
    """How long a pass without a due tick takes, as a share of one in `few`: medians, the two called in turn."""

    async def go() -> float:
        async with await connect(database.dsn) as conn, await connect(few.dsn) as conn_of_few:
            took: dict[MaintenanceStore, list[float]] = {MaintenanceStore(conn): [], MaintenanceStore(conn_of_few): []}
            for _ in range(IDLE_PASSES):
                for store, seconds in took.items():
                    began = time.perf_counter()
                    await schedule_due_ticks(store, misfire_grace=MISFIRE_GRACE)
                    seconds.append(time.perf_counter() - began)
            many, few_s = map(median, took.values())
            return many / few_s

    return asyncio.run(go())
