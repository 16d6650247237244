"""What one run costs at the rates that most installations have: transactions, CPU and lateness."""

from __future__ import annotations

import time
from dataclasses import dataclass, fields
from functools import partial
from typing import TYPE_CHECKING, Final

from bench.lateness import SETTLE_S, feed, wait_for_all
from bench.tables import Table, at_most, percentile, spread
from bench.workers import worker_group

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from bench.database import BenchmarkServer, Database
    from bench.plan import Plan
    from bench.processes import MeasuredProcess
    from bench.workers import WorkerGroup

PER_SECOND: Final = (1, 50, 1_000)  # runs
WANTED: Final = {50: 2.2, 1_000: 1.2}  # transactions a run at most
WARM_UP: Final = 10  # runs
HEAD: Final = ("transactions/run", "worker CPU ms/run", "server CPU ms/run", "lateness p50 ms", "p99 ms")


@dataclass(frozen=True, slots=True)
class Cost:
    """Of one run: transactions without the enqueue, CPU in ms; how late runs began."""

    transactions: float
    worker_ms: float
    server_ms: float
    p50_ms: float
    p99_ms: float


def measure_ordinary(server: BenchmarkServer, plan: Plan) -> Table:
    """The rates in turn."""
    found: dict[int, list[Cost]] = {rate: [] for rate in PER_SECOND}
    for _ in range(plan.few_repetitions):
        for rate in PER_SECOND:
            found[rate].append(_cost(server, rate, plan.ordinary_s))
    return Table(
        title="Ordinary rates",
        note=f"{plan.few_repetitions} times each, {plan.ordinary_s:.0f} s. One `--forever` worker, no-op runs that are"
        " enqueued one by one at a steady pace. Transactions are those of the worker, all maintenance included. CPU of"
        " the server includes the enqueue. Lateness: from just before the call of `enqueue`, its durable commit"
        " included, to the start of the handler.",
        head=("runs/s", *HEAD),
        rows=[_row(rate, costs) for rate, costs in found.items()],
        thresholds=[
            at_most(f"transactions a run at {rate:,} runs/s", wanted, [each.transactions for each in found[rate]])
            for rate, wanted in WANTED.items()
        ],
    )


def _row(rate: int, costs: Sequence[Cost]) -> list[str]:
    return [f"{rate:,}", *spreads(costs)]


def spreads(costs: Sequence[Cost]) -> list[str]:
    """A cell for each figure."""
    return [spread([getattr(each, column.name) for each in costs]) for column in fields(Cost)]


def _cost(server: BenchmarkServer, rate: int, seconds: float) -> Cost:
    with server.database() as database, worker_group() as workers:
        worker = workers.start(database.dsn, "--forever")
        return cost_at(server, database, workers, worker, partial(feed, database), rate, seconds)


def cost_at(
    server: BenchmarkServer,
    database: Database,
    workers: WorkerGroup,
    worker: MeasuredProcess,
    feed_runs: Callable[[int, float], None],
    rate: int,
    seconds: float,
) -> Cost:
    """What a run costs in a worker that has started, while `feed_runs(runs, per_second)` enqueues them."""
    runs = int(rate * seconds)
    feed_runs(WARM_UP, 50)
    wait_for_all(workers, WARM_UP)
    time.sleep(SETTLE_S)
    workers.forget_lateness()
    worker_cpu, server_cpu, asked = worker.cpu_s(), server.cpu_s(), server.transactions(database)
    feed_runs(runs, rate)
    wait_for_all(workers, runs)
    worker_cpu, server_cpu = worker.cpu_s() - worker_cpu, server.cpu_s() - server_cpu
    time.sleep(SETTLE_S)
    asked = server.transactions(database) - asked - runs
    late = workers.lateness_ms()
    return Cost(
        transactions=asked / runs,
        worker_ms=1e3 * worker_cpu / runs,
        server_ms=1e3 * server_cpu / runs,
        p50_ms=percentile(late, 0.50),
        p99_ms=percentile(late, 0.99),
    )
