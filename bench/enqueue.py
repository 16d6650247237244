"""Measures how fast an application enqueues runs."""

from __future__ import annotations

import json
import time
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any, Final

import psycopg

import wakeboard
from bench.database import BATCH
from bench.tables import Table, at_least, percentile, spread

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from bench.database import BenchmarkServer, Database
    from bench.plan import Plan

PAYLOAD: Final = {"customer": 4711, "kind": "reminder"}
THRESHOLD: Final = 200_000
CONNECTIONS: Final = 4
SIDE_BY_SIDE: Final = f"in bulk, {CONNECTIONS} connections"
WHY: Final = "the server takes most of it to write the rows: see the plain insert, and decision 14"
WHY_SIDE_BY_SIDE: Final = "the clients and the server share the CPUs, and the server takes most of each, as above"
# The least that the server needs: the same rows, without transfer of payloads or ids.
PLAIN: Final = """
insert into wakeboard.job_runs (job_type, payload)
select 'noop', '{"customer": 4711, "kind": "reminder"}'::jsonb from generate_series(1, %s)
"""
# One by one: the columns that `enqueue` sets, in a table with the same columns, constraints and indexes.
LIKE_OURS: Final = "create table plain_runs (like wakeboard.job_runs including all)"
PLAIN_ONE: Final = """
insert into plain_runs (
  backoff_strategy, backoff_base_s, backoff_cap_s, timeout_s, max_attempts, priority, queue, job_type, payload,
  limit_key, idempotency_key)
values (%s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s) returning id, uuid, status
"""
PLAIN_VALUES: Final = ("exponential", 10, 3600, 600, 5, 3, "default", "noop", json.dumps(PAYLOAD), None, None)
ONE_BY_ONE: Final = 0.9  # times the rate of the plain INSERT


def measure_enqueues(server: BenchmarkServer, plan: Plan) -> Table:
    """In bulk, and one by one."""
    ways: dict[str, Callable[[Database, int], None]] = {
        "in bulk": _in_bulk,
        SIDE_BY_SIDE: _side_by_side,
        "in bulk, each with an idempotency key": _with_keys,
        f"such rows by a plain `insert … select`, {BATCH:,} a transaction": _plainly,
    }
    rates: dict[str, list[float]] = {way: [] for way in ways}
    singles: list[list[float]] = []
    plain: list[list[float]] = []
    for _ in range(plan.repetitions):
        for way, enqueue in ways.items():
            rates[way].append(_rate(server, enqueue, plan.bulk))
        ours, theirs = _single_ms(server, plan.singles)
        singles.append(ours)
        plain.append(theirs)
    as_plain = [sum(theirs) / sum(ours) for ours, theirs in zip(singles, plain, strict=True)]
    return Table(
        title="Enqueue",
        note=f"{plan.repetitions} times each."
        f" From Python, one connection if none are named, durable commits: `enqueue_many` with {BATCH:,} runs a"
        " call, and `enqueue` with a transaction for each run. The plain `insert` bounds what one connection can do:"
        " it is what the server takes to write such rows, their indexes and their WAL. The parametrised INSERT of one"
        " row is into a table with the same constraints and indexes; the two are called in turn.",
        head=("figure", "value"),
        rows=[
            *((f"{way}, runs/s", spread(found)) for way, found in rates.items()),
            ("one by one, runs/s", spread([1000 * len(ms) / sum(ms) for ms in singles])),
            ("one by one, p50 ms", spread([percentile(ms, 0.50) for ms in singles])),
            ("one by one, p99 ms", spread([percentile(ms, 0.99) for ms in singles])),
            ("one by one, times the rate of a parametrised INSERT", spread(as_plain)),
        ],
        thresholds=[
            at_least("enqueued one by one, times the rate of a parametrised INSERT", ONE_BY_ONE, as_plain),
            at_least("enqueued in bulk over one connection, runs/s", THRESHOLD, rates["in bulk"], WHY),
            at_least(
                f"enqueued in bulk over {CONNECTIONS} connections, runs/s",
                THRESHOLD,
                rates[SIDE_BY_SIDE],
                WHY_SIDE_BY_SIDE,
            ),
        ],
    )


def _rate(server: BenchmarkServer, enqueue: Callable[[Database, int], None], runs: int) -> float:
    with server.database(of_a_definition=False) as database:
        began = time.perf_counter()
        enqueue(database, runs)
        return runs / (time.perf_counter() - began)


def _in_bulk(database: Database, runs: int) -> None:
    _enqueue(database.conn, [wakeboard.Job("noop", PAYLOAD)] * runs)


def _side_by_side(database: Database, runs: int) -> None:
    jobs = [wakeboard.Job("noop", PAYLOAD)] * (runs // CONNECTIONS)

    def one(_: int) -> None:
        with psycopg.connect(database.dsn, autocommit=True) as conn:
            _enqueue(conn, jobs)

    with ThreadPoolExecutor(CONNECTIONS) as threads:
        list(threads.map(one, range(CONNECTIONS)))


def _with_keys(database: Database, runs: int) -> None:
    _enqueue(database.conn, [wakeboard.Job("noop", PAYLOAD, idempotency_key=str(number)) for number in range(runs)])


def _plainly(database: Database, runs: int) -> None:
    for start in range(0, runs, BATCH):
        database.conn.execute(PLAIN, [min(BATCH, runs - start)])


def _enqueue(conn: psycopg.Connection[Any], jobs: Sequence[wakeboard.Job]) -> None:
    for start in range(0, len(jobs), BATCH):
        wakeboard.enqueue_many(conn, jobs[start : start + BATCH])


def _single_ms(server: BenchmarkServer, runs: int) -> tuple[list[float], list[float]]:
    """How long each call of `enqueue` takes, and each plain INSERT, in order of length."""
    ours, theirs = list[float](), list[float]()
    with server.database(of_a_definition=False) as database:
        database.do(LIKE_OURS)
        for _ in range(runs):
            ours.append(_took_ms(lambda: wakeboard.enqueue(database.conn, "noop", PAYLOAD)))
            theirs.append(_took_ms(lambda: database.conn.execute(PLAIN_ONE, PLAIN_VALUES).fetchone()))
    return sorted(ours), sorted(theirs)


def _took_ms(call: Callable[[], object]) -> float:
    began = time.perf_counter()
    call()
    return (time.perf_counter() - began) * 1000
