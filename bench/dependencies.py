"""Measures how soon a tick reaches the next level of a graph of schedules that run after others."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, Final

from bench.tables import Table, at_most, percentile, spread
from bench.workers import worker_group
from wakeboard.engine.maintenance_api import MaintenanceStore
from wakeboard.schedules.desired_schedule import DesiredSchedule
from wakeboard.schedules.rules.job_schedule import load_job_schedule
from wakeboard.schedules.sync import sync
from wakeboard.store.connection import connect
from wakeboard.store.migrate import migrate

if TYPE_CHECKING:
    from collections.abc import Iterator

    from bench.database import BenchmarkServer, Database
    from bench.plan import Plan
    from bench.workers import WorkerGroup

DEPTH: Final = 10
BOUND_MS: Final = 100.0  # wanted of the p99 of a level
WARM: Final = datetime(2026, 1, 1, tzinfo=UTC)
FIRST_TICK: Final = datetime(2026, 1, 2, tzinfo=UTC)

_TICK: Final = """
insert into wakeboard.job_runs (job_type, definition_id, scheduled_for, trigger, schedule, has_dependents)
select job_type, id, %s, 'tick', namespace || '/' || name, has_dependents
  from wakeboard.job_definitions where namespace = 'bench' and name = any (%s)
"""
_ALL_DONE: Final = """
select not exists (select from wakeboard.job_runs) and not exists (select from wakeboard.ended_runs)
"""
_ADDED_MS: Final = """
select split_part(run.schedule, '-', 2)::integer as level,
       extract(epoch from run.started_at - max(parent.finished_at))::float8 * 1000
  from wakeboard.run_dependencies as edge
  join wakeboard.job_run_history as run on run.id = edge.run_id
  join wakeboard.job_run_history as parent on parent.id = edge.parent_id
 where run.scheduled_for >= %s
 group by run.id, run.schedule, run.started_at
"""


def measure_dependencies(server: BenchmarkServer, plan: Plan) -> Table:
    """One part of the graph at a time, and all of it at once."""
    width = plan.graph // DEPTH
    few: list[float] = []
    all_at_once: list[float] = []
    for _ in range(plan.few_repetitions):
        few.append(_worst_level_ms(server, width, roots=DEPTH, ticks=plan.lags))
        all_at_once.append(_worst_level_ms(server, width, roots=width, ticks=1))
    return Table(
        title="Dependencies",
        note=f"{plan.few_repetitions} times each. {plan.graph:,} schedules in one graph of {DEPTH} levels; each runs"
        " after two of the level before. One `--forever` worker. From the end of the later parent to the start of the"
        " run that it created: the p99 of the slowest level.",
        head=("what ticks", "ms"),
        rows=[
            (f"{DEPTH} schedules of the first level, so {_cone():,} runs, {plan.lags} ticks in turn", spread(few)),
            (f"all {width:,} of the first level at once, so {plan.graph:,} runs", spread(all_at_once)),
        ],
        thresholds=[
            at_most("a level of a graph adds, few runs, p99 ms", BOUND_MS, few),
            at_most(f"a level of a graph adds, {width:,} runs at once, p99 ms", BOUND_MS, all_at_once),
        ],
    )


def _cone() -> int:
    return DEPTH * (DEPTH + 1) // 2


def _worst_level_ms(server: BenchmarkServer, width: int, *, roots: int, ticks: int) -> float:
    def prepare(dsn: str) -> None:
        asyncio.run(_declare(dsn, width))

    runs = _cone() if roots < width else width * DEPTH
    with server.copy_of(f"wakeboard_graph_{width}", prepare) as database, worker_group() as workers:
        workers.start(database.dsn, "--forever", listen="true")
        _flow(database, workers, WARM, roots, runs)
        for place in range(ticks):
            _flow(database, workers, FIRST_TICK + timedelta(days=place), roots, runs)
        by_level: dict[int, list[float]] = {}
        for level, added_ms in database.conn.execute(_ADDED_MS, [FIRST_TICK]):
            by_level.setdefault(level, []).append(added_ms)
    if sum(map(len, by_level.values())) != (runs - roots) * ticks:
        raise RuntimeError("some runs do not know their parents")
    return max(percentile(sorted(level), 0.99) for level in by_level.values())


def _flow(database: Database, workers: WorkerGroup, tick: datetime, roots: int, runs: int) -> None:
    """Lets the first level tick, and waits for the runs of all levels."""
    with database.conn.transaction():
        database.do("set local search_path = pg_catalog, wakeboard, pg_temp")
        database.conn.execute(_TICK, [tick, [f"level-1-{place}" for place in range(roots)]])
    workers.wait_until(lambda: database.ask(_ALL_DONE), poll_s=0.05)  # seldom: it competes with what is measured
    done = database.ask("select count(*) from wakeboard.job_run_history where scheduled_for = %s", tick)
    if done != runs:
        raise RuntimeError(f"{done} runs of {runs} were created")


async def _declare(dsn: str, width: int) -> None:
    await migrate(dsn)
    async with await connect(dsn) as conn:
        report = await sync(
            MaintenanceStore(conn), "file:bench", _graph(width), prune=False, misfire_grace=timedelta(minutes=5)
        )
        if len(report.created) != width * DEPTH:
            raise RuntimeError(f"{len(report.created)} schedules of {width * DEPTH} were declared")


def _graph(width: int) -> Iterator[DesiredSchedule]:
    for level in range(1, DEPTH + 1):
        for place in range(width):
            parents = [f"level-{level - 1}-{place}", f"level-{level - 1}-{(place + 1) % width}"]
            yield _schedule(f"level-{level}-{place}", parents if level > 1 else [])


def _schedule(name: str, parents: list[str]) -> DesiredSchedule:
    spec: dict[str, Any] = (
        {"after": [{"schedule": parent} for parent in parents]} if parents else {"schedule": "@yearly"}
    )
    manifest = {
        "apiVersion": "wakeboard.dev/v1alpha1",
        "kind": "JobSchedule",
        "metadata": {"name": name, "namespace": "bench"},
        "spec": {"jobType": "noop", **spec},
    }
    return DesiredSchedule("bench", name, load_job_schedule(manifest, name).spec)
