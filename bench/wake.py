"""Measures what one wake costs, as a CronJob starts one every minute."""

from __future__ import annotations

import statistics
import subprocess
import sys
import time
from typing import TYPE_CHECKING

from bench.tables import Table, at_most, spread
from bench.workers import worker_group

if TYPE_CHECKING:
    from bench.database import BenchmarkServer
    from bench.plan import Plan
    from bench.processes import Cost


def measure_wakes(server: BenchmarkServer, plan: Plan) -> Table:
    """With one run due, and with nothing due. The very first wakes, which may compile bytecode, do not count."""
    _idle_wake(server)
    firsts: list[float] = []
    idle: list[Cost] = []
    imports: list[float] = []
    for _ in range(2 * plan.repetitions):
        firsts.append(_first_run_s(server))
        idle.append(_idle_wake(server))
        imports.append(_imports_s())
    alone = statistics.median(imports)
    why = f"a Python that does nothing but import psycopg and pydantic-settings takes {alone:.2f} s"
    return Table(
        title="Wake",
        note=f"{2 * plan.repetitions} times each."
        f" A draining worker process, from its exec to its end. An idle wake registers, makes due ticks, looks for"
        " lapsed leases and due runs, and goes.",
        head=("figure", "value"),
        rows=[
            ("exec to first completed run, s", spread(firsts)),
            ("Python that only imports psycopg and pydantic-settings, s", spread(imports)),
            ("idle wake, wall s", spread([cost.wall_s for cost in idle])),
            ("idle wake, CPU s", spread([cost.cpu_s for cost in idle])),
            ("idle wake, peak memory MB", spread([cost.peak_mb for cost in idle])),
        ],
        thresholds=[
            at_most("exec to first completed run, s", 0.35, firsts, why),
            at_most("idle wake, CPU s", 0.35, [cost.cpu_s for cost in idle], why),
            at_most("idle wake, peak memory MB", 60, [cost.peak_mb for cost in idle]),
        ],
    )


def _first_run_s(server: BenchmarkServer) -> float:
    with server.database() as database, worker_group() as workers:
        database.enqueue(1)
        worker = workers.start(database.dsn)
        done_at = workers.wait_until(lambda: database.ask("select true from wakeboard.job_run_history limit 1"))
        workers.wait_for_exit()
        return done_at - worker.started_at


def _imports_s() -> float:
    began = time.monotonic()
    subprocess.run([sys.executable, "-c", "import psycopg, pydantic_settings"], check=True)
    return time.monotonic() - began


def _idle_wake(server: BenchmarkServer) -> Cost:
    with server.database() as database, worker_group() as workers:
        cost = workers.start(database.dsn).ended()
        if cost.exit_code:
            raise RuntimeError(f"an idle wake ended with {cost.exit_code}")
        return cost
