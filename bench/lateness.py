"""How late runs begin in a worker that stays, and what its waiting costs."""

from __future__ import annotations

import time
from dataclasses import dataclass, fields
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final

import wakeboard
from bench.tables import Table, at_most, percentile, spread
from bench.workers import worker_group

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from bench.database import BenchmarkServer, Database
    from bench.plan import Plan
    from bench.workers import WorkerGroup

PER_SECOND: Final = 50  # runs
AHEAD_S: Final = 2.0  # how long before they are due runs are enqueued, where they are known ahead
SETTLE_S: Final = 1.5  # the server counts transactions a second late
IDLE_S: Final = 5.0


def _enqueue(database: Database, payload: dict[str, float], run_at: datetime | None) -> None:
    wakeboard.enqueue(database.conn, "noop", payload, run_at=run_at)


@dataclass(frozen=True, slots=True)
class Variant:
    """How a waiting worker hears of work."""

    name: str
    settings: dict[str, Any]
    bound_ms: float  # wanted of the p99
    why: str  # what takes the time
    ahead_s: float = 0.0


@dataclass(frozen=True, slots=True)
class Lateness:
    """p50 and p99 in ms; while nothing is due: CPU in percent of one core, and transactions per minute."""

    p50_ms: float
    p99_ms: float
    worker_percent: float
    server_percent: float
    transactions: float


VARIANTS: Final = (
    Variant("NOTIFY", {"listen": "true"}, 5, "a durable commit, a claim and a start: see its p50"),
    Variant(
        "polling every 20 ms",
        {"listen": "false", "poll_seconds": 0.02},
        25,
        "up to 20 of them until it looks, the rest as by NOTIFY",
    ),
    Variant(
        "polling every second, known ahead",
        {"listen": "false", "poll_seconds": 1},
        25,
        "a claim and a start: see its p50",
        AHEAD_S,
    ),
)


def measure_lateness(server: BenchmarkServer, plan: Plan) -> Table:
    """The ways interleaved."""
    found: dict[str, list[Lateness]] = {variant.name: [] for variant in VARIANTS}
    for _ in range(plan.few_repetitions):
        for variant in VARIANTS:
            found[variant.name].append(_lateness(server, variant, plan.feed_s))
    return Table(
        title="Lateness",
        note=f"{plan.few_repetitions} times each."
        f" One `--forever` worker, {PER_SECOND} runs a second. From just before the call of `enqueue`, its durable"
        " commit included, to the start of the handler; where runs are known ahead, from their `run_at`. Waiting: CPU"
        " in percent of one core, and transactions, while nothing is due.",
        head=(
            "hears of runs by",
            "p50 ms",
            "p99 ms",
            "waiting: worker %",
            "waiting: server %",
            "waiting: transactions/min",
        ),
        rows=[_row(name, lateness) for name, lateness in found.items()],
        thresholds=[
            at_most(
                f"lateness by {variant.name}, p99 ms",
                variant.bound_ms,
                [each.p99_ms for each in found[variant.name]],
                variant.why,
            )
            for variant in VARIANTS
        ],
    )


def _row(name: str, found: Sequence[Lateness]) -> list[str]:
    return [name, *(spread([getattr(each, column.name) for each in found]) for column in fields(Lateness))]


def _lateness(server: BenchmarkServer, variant: Variant, feed_s: float) -> Lateness:
    with server.database() as database, worker_group() as workers:
        worker = workers.start(database.dsn, "--forever", **variant.settings)
        feed(database, int(0.2 * PER_SECOND), PER_SECOND, variant.ahead_s)  # a warm worker
        wait_for_all(workers, int(0.2 * PER_SECOND))
        time.sleep(SETTLE_S)
        workers.forget_lateness()
        worker_cpu, server_cpu, asked = worker.cpu_s(), server.cpu_s(), server.transactions(database)
        time.sleep(IDLE_S)
        worker_cpu, server_cpu = worker.cpu_s() - worker_cpu, server.cpu_s() - server_cpu
        asked = server.transactions(database) - asked
        feed(database, int(feed_s * PER_SECOND), PER_SECOND, variant.ahead_s)
        wait_for_all(workers, int(feed_s * PER_SECOND))
        late = workers.lateness_ms()
        return Lateness(
            p50_ms=percentile(late, 0.50),
            p99_ms=percentile(late, 0.99),
            worker_percent=100 * worker_cpu / IDLE_S,
            server_percent=100 * server_cpu / IDLE_S,
            transactions=asked * 60 / IDLE_S,
        )


def feed(
    database: Database,
    runs: int,
    per_second: float,
    ahead_s: float = 0.0,
    enqueue: Callable[[Database, dict[str, float], datetime | None], object] = _enqueue,
) -> None:
    """Enqueues at a steady pace, in an open loop: a slow call delays none of the next moments."""
    began = time.time()
    for number in range(runs):
        time.sleep(max(0.0, began + number / per_second - time.time()))
        due = time.time() + ahead_s
        enqueue(database, {"due": due}, datetime.fromtimestamp(due, UTC) if ahead_s else None)


def wait_for_all(workers: WorkerGroup, runs: int) -> None:
    """Waits until so many runs have begun."""
    workers.wait_until(lambda: len(workers.lateness_ms()) >= runs)
