"""Measures how much runs that wait for one rate limit slow the claims of other runs."""

from __future__ import annotations

import asyncio
import statistics
import time
from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

import wakeboard
from bench.claims import FINISH, KNOWN, ME
from bench.database import BATCH
from bench.tables import Table, at_most, number, spread
from wakeboard.engine.worker_api import WorkerStore
from wakeboard.store.connection import connect

if TYPE_CHECKING:
    from bench.database import BenchmarkServer, Database
    from bench.plan import Plan

AT_ONCE: Final = 100  # runs of one claim
ROUNDS: Final = 4  # times as many as other claims, because a claim takes only milliseconds
WARMING: Final = 5  # rounds that do not count
BOUND: Final = 1.1
FREE, LIMITED = wakeboard.Job("noop"), wakeboard.Job("noop", limit_key="another-key")


@dataclass(slots=True)
class _Durations:
    """Milliseconds of each claim."""

    free: list[float] = field(default_factory=list[float])
    limited: list[float] = field(default_factory=list[float])


def measure_rate_limits(server: BenchmarkServer, plan: Plan) -> Table:
    """The same claims without and with the waiting runs, in turn."""
    with ExitStack() as stack:
        alone, crowded = (stack.enter_context(server.database(of_a_definition=False)) for _ in range(2))
        for database in (alone, crowded):
            database.do("select wakeboard.set_limit('another-key', 1000)")
            database.do("select wakeboard.set_rate_limit('throttled', 1, 86400)")
        throttled = wakeboard.Job("noop", limit_key="throttled")
        for _ in range(0, plan.throttled, BATCH):
            wakeboard.enqueue_many(crowded.conn, [throttled] * BATCH)
        for database in (alone, crowded):
            database.vacuum()
        without, among = asyncio.run(_measured(alone, crowded, ROUNDS * plan.claims))
    free, limited = _ratio(among.free, without.free), _ratio(among.limited, without.limited)
    return Table(
        title="Rate limits",
        note=f"Claims of {AT_ONCE} due runs, {ROUNDS * plan.claims} times in turn, without and with {plan.throttled:,}"
        " due runs behind one key whose rate limit is exhausted, in the same queue and of the same priority.",
        head=("ms of a claim", "without", "with", "ratio of medians"),
        rows=[
            ("runs without a limit key", spread(without.free), spread(among.free), number(free)),
            ("runs of another limit key", spread(without.limited), spread(among.limited), number(limited)),
        ],
        thresholds=[
            at_most("claim beside a rate-limited key: times as long as without", BOUND, [free]),
            at_most("claim of another key beside it: times as long as without", BOUND, [limited]),
        ],
    )


def _ratio(these: list[float], those: list[float]) -> float:
    return statistics.median(these) / statistics.median(those)


async def _measured(alone: Database, crowded: Database, rounds: int) -> tuple[_Durations, _Durations]:
    took = _Durations(), _Durations()
    async with (
        await connect(alone.dsn, prepared_statements=True) as one,
        await connect(crowded.dsn, prepared_statements=True) as other,
    ):
        claims = [(alone, WorkerStore(one, ME), took[0]), (crowded, WorkerStore(other, ME), took[1])]
        await claims[1][1].fetch(KNOWN, 1)  # the one unit of its rate limit
        for place in range(WARMING + rounds):
            for database, store, into in claims if place % 2 else claims[::-1]:
                free_ms = await _fetch_ms(database, FREE, store)
                limited_ms = await _fetch_ms(database, LIMITED, store)
                if place >= WARMING:
                    into.free.append(free_ms)
                    into.limited.append(limited_ms)
    return took


async def _fetch_ms(database: Database, job: wakeboard.Job, store: WorkerStore) -> float:
    wakeboard.enqueue_many(database.conn, [job] * AT_ONCE)
    began = time.perf_counter()
    rows, _ = await store.fetch(KNOWN, AT_ONCE)
    took_ms = (time.perf_counter() - began) * 1000
    if len(rows) != AT_ONCE:
        raise RuntimeError(f"{len(rows)} of {AT_ONCE} runs were claimed")
    database.conn.execute(FINISH, [ME.worker_id])
    return took_ms
