"""How fast an application hands runs over."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import wakeboard
from bench.arena import BATCH
from bench.tables import Table, percentile, spread

if TYPE_CHECKING:
    from bench.arena import Arena
    from bench.plan import Plan

PAYLOAD = {"customer": 4711, "kind": "reminder"}


def measure_enqueues(arena: Arena, plan: Plan) -> Table:
    """In bulk, and one by one."""
    bulk: list[float] = []
    singles: list[list[float]] = []
    for _ in range(plan.repetitions):
        bulk.append(_bulk_rate(arena, plan.bulk))
        singles.append(_single_ms(arena, plan.singles))
    return Table(
        title="Enqueue",
        note=f"From Python, one connection, durable commits: `enqueue_many` with {BATCH:,} runs a call, and `enqueue`"
        " with a transaction for each run.",
        head=("figure", "value"),
        rows=[
            ("in bulk, runs/s", spread(bulk)),
            ("one by one, runs/s", spread([1000 * len(ms) / sum(ms) for ms in singles])),
            ("one by one, p50 ms", spread([percentile(ms, 0.50) for ms in singles])),
            ("one by one, p99 ms", spread([percentile(ms, 0.99) for ms in singles])),
        ],
    )


def _bulk_rate(arena: Arena, runs: int) -> float:
    jobs = [wakeboard.Job("noop", PAYLOAD)] * BATCH
    with arena.database() as database:
        began = time.perf_counter()
        for start in range(0, runs, BATCH):
            wakeboard.enqueue_many(database.conn, jobs[: runs - start])
        return runs / (time.perf_counter() - began)


def _single_ms(arena: Arena, runs: int) -> list[float]:
    took: list[float] = []
    with arena.database() as database:
        for _ in range(runs):
            began = time.perf_counter()
            wakeboard.enqueue(database.conn, "noop", PAYLOAD)
            took.append((time.perf_counter() - began) * 1000)
    return sorted(took)
