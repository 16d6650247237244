"""Measures how fast due ticks become runs: many schedules in one minute, and one schedule after three years."""

from __future__ import annotations

import asyncio
import time
from datetime import UTC, datetime, timedelta
from itertools import islice, product
from typing import TYPE_CHECKING, Any, Final

from bench.tables import Table, at_most, number, spread
from wakeboard.engine.maintenance_api import MaintenanceStore
from wakeboard.schedules import scheduler
from wakeboard.store.connection import connect
from wakeboard.ticks.cron_parser import parse_cron

if TYPE_CHECKING:
    from collections.abc import Iterator

    from bench.database import BenchmarkServer, Database
    from bench.plan import Plan

MISFIRE_GRACE: Final = timedelta(minutes=5)
ZONES: Final = (
    *("Etc/UTC", "Europe/Lisbon", "Europe/Berlin", "America/New_York", "America/Sao_Paulo", "Africa/Cairo"),
    *("Asia/Kolkata", "Asia/Tokyo", "Australia/Sydney", "Australia/Lord_Howe"),
)
YEARS: Final = 3
WHY: Final = "half of it the server writes runs and next ticks, half of it Python computes them"

_INSERT: Final = """
insert into wakeboard.job_definitions (
  source, namespace, name, spec_hash, job_type, schedule, cron_fields, time_zone, catch_up, catch_up_limit, next_run_at)
select 'file:bench', 'bench', 'schedule-' || place, '', 'noop', line, fields, zone, %s, %s, %s
  from unnest(%s::text[], %s::text[], %s::text[]) with ordinality as declared (line, fields, zone, place)
"""


def measure_ticking(server: BenchmarkServer, plan: Plan) -> Table:
    """`schedule_due_ticks` as a worker calls it, over one connection."""
    storms: list[float] = []
    latest: list[float] = []
    every: list[float] = []
    for _ in range(plan.few_repetitions):
        storms.append(_storm_s(server, plan.definitions))
        latest.append(_outage_s(server, "Latest", 1))
        every.append(_outage_s(server, "All", 10_000))
    ticks = YEARS * 365 * 24 * 60
    return Table(
        title="Ticks",
        note=f"{plan.few_repetitions} times each."
        f" Daily schedules, {24 * 60:,} times of day, {len(ZONES)} zones. What is timed is `schedule_due_ticks`: it"
        " reads due definitions, computes their ticks and next ticks, and writes runs.",
        head=("what is due", "seconds"),
        rows=[
            (f"{plan.definitions:,} schedules in the same minute, all enqueued", spread(storms)),
            (f"{number(ticks)} missed ticks of a minutely schedule, catchUp Latest", spread(latest)),
            ("the same, catchUp All with 10,000 runs", spread(every)),
        ],
        thresholds=[
            at_most(f"{plan.definitions:,} schedules in the same minute, s", 5, storms, WHY),
            at_most(f"{number(ticks)} missed ticks, s", 1, every),
        ],
    )


def _storm_s(server: BenchmarkServer, definitions: int) -> float:
    with server.database(of_a_definition=False) as database:
        lines = list(islice(_daily_schedules(), definitions))
        due = datetime.now(UTC).replace(second=0, microsecond=0)
        _declare(database, lines, due)
        database.vacuum()
        seconds = asyncio.run(_schedule_s(database.dsn))
        # A later tick of a few may have come meanwhile: some of the daily schedules are due in the next minute, too.
        made = database.ask("select count(*) from wakeboard.job_runs where scheduled_for = %s", due)
        if made != definitions:
            raise RuntimeError(f"{made} of {definitions} ticks became runs")
        return seconds


def _outage_s(server: BenchmarkServer, catch_up: str, newest: int) -> float:
    with server.database(of_a_definition=False) as database:
        minutely = [("* * * * *", "Europe/Lisbon")]
        began = datetime.now(UTC).replace(second=0, microsecond=0) - timedelta(days=365 * YEARS)
        _declare(database, minutely, began, catch_up, newest)
        return asyncio.run(_schedule_s(database.dsn))


def _daily_schedules() -> Iterator[tuple[str, str]]:
    """Cron expressions and zones, repeatedly."""
    while True:
        for hour, minute, zone in product(range(24), range(60), ZONES):
            yield f"{minute} {hour} * * *", zone


def _declare(
    database: Database, schedules: list[tuple[str, str]], cursor: datetime, catch_up: str = "Latest", newest: int = 1
) -> None:
    compiled = {line: parse_cron(line, name="bench/schedule").to_text() for line, _ in schedules}
    lines, zones = [line for line, _ in schedules], [zone for _, zone in schedules]
    values: tuple[Any, ...] = (catch_up, newest, cursor, lines, [compiled[line] for line in lines], zones)
    database.conn.execute(_INSERT, values)


async def _schedule_s(dsn: str) -> float:
    async with await connect(dsn) as conn:
        began = time.perf_counter()
        await scheduler.schedule_due_ticks(MaintenanceStore(conn), misfire_grace=MISFIRE_GRACE)
        return time.perf_counter() - began
