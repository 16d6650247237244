"""Measures what a claim costs, in an empty database and among millions of rows that it does not claim."""

from __future__ import annotations

import asyncio
import statistics
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final

import wakeboard
from bench.plan import Crowd
from bench.tables import Table, at_most, number, spread
from wakeboard.engine.worker_api import Worker, WorkerStore
from wakeboard.store.array_texts import text_array
from wakeboard.store.connection import connect

if TYPE_CHECKING:
    from collections.abc import Generator

    from psycopg import AsyncConnection

    from bench.database import BenchmarkServer, Database
    from bench.plan import Plan

AT_ONCE: Final = 100  # due rows of one claim
WARMING: Final = 3  # claims that do not count
ME: Final = Worker(
    worker_id=7, name="bench", pool="bench", host="", version="", queues=["default"], capacity=1, lease_s=60
)
KNOWN: Final = text_array(["noop"])

# In the queue, and of the priority, of the rows that are claimed; due for an hour, so before them in the index.
CROWD: Final = (
    "set synchronous_commit = off",
    """
    insert into wakeboard.job_run_history (
      id, uuid, scheduled_for, run_at, created_at, started_at, finished_at, locked_by, lease_epoch, status, trigger,
      backoff_strategy, backoff_base_s, backoff_cap_s, timeout_s, attempts, max_attempts, crash_count, release_count,
      priority, queue, job_type, payload)
    select nextval('wakeboard.job_runs_id_seq'), gen_random_uuid(), now(), now(), now(), now(), now(), 1, 1,
           'succeeded', 'application', 'exponential', 10, 3600, 600, 1, 5, 0, 0, 3, 'default', 'noop', '{}'
      from generate_series(1, %(finished)s::integer)
    """,
    """
    insert into wakeboard.job_runs (job_type, run_at)
    select 'noop', now() + interval '1 day' + i * interval '1 ms' from generate_series(1, %(future)s::integer) as i
    """,
    """
    insert into wakeboard.job_runs (
      job_type, run_at, status, locked_by, locked_until, lease_epoch, attempts, started_at)
    select 'noop', now() - interval '1 h', 'running', 8, now() + interval '1 h', 1, 1, now()
      from generate_series(1, %(in_flight)s::integer)
    """,
    """
    insert into wakeboard.job_runs (job_type, run_at, limit_key)
    select 'noop', now() - interval '1 h', 'key-' || mod(i, 1000) from generate_series(1, %(limited)s::integer) as i
    """,
    """
    insert into wakeboard.job_limits (key, paused_until)
    select 'key-' || i, now() + interval '1 day' from generate_series(0, least(%(limited)s::integer, 1000) - 1) as i
    """,
    """
    insert into wakeboard.job_runs (job_type, run_at)
    select 'unknown', now() - interval '1 h' + i * interval '1 ms' from generate_series(1, %(unknown)s::integer) as i
    """,
)
EXPLAINED: Final = (
    "explain (analyze, buffers, timing off, format json) insert into answer"
    " select id, payload ->> 'state'"
    " from wakeboard.fetch_runs(%s, %s, %s::text[], %s::text[], %s, %s, limited_count => 0)"
)
ANSWER: Final = "create temp table answer (id bigint, state text)"  # EXPLAIN returns no rows
STATE: Final = "with gone as (delete from answer returning *) select state from gone where id is null"
FINISH: Final = "delete from wakeboard.job_runs where locked_by = %s"


def measure_claims(server: BenchmarkServer, plan: Plan) -> Table:
    """The same claims in an empty database and in a full one, in turn."""
    crowd = plan.crowd
    with _filled(server, Crowd(0, 0, 0, 0, 0)) as empty, _filled(server, crowd) as full:
        alone, crowded = asyncio.run(_measured(empty, full, plan.claims))
    pages, took = _ratio(crowded.buffers, alone.buffers), _ratio(crowded.took_ms, alone.took_ms)
    return Table(
        title="Claims",
        note=f"A claim of {AT_ONCE} due runs, {plan.claims} times in turn, alone and among {crowd.finished:,} finished"
        f" runs, {crowd.future:,} of the future, {crowd.in_flight:,} in flight, {crowd.limited:,} due behind limits and"
        f" {crowd.unknown:,} due of a type that the worker does not know, all in the same queue and of the same"
        " priority. The worker has scanned them once. It scans again every two seconds, or less often if that would"
        " take more than a twentieth of its time. Every 200 ms a claim also looks for the runs that have been due for"
        " longest, among 2,000 rows. The runs behind limits are not asked for: they take a fifth of the time at most.",
        head=("figure", "alone", "among them", "ratio of medians"),
        rows=[
            ("pages touched", spread(alone.buffers), spread(crowded.buffers), number(pages)),
            ("ms", spread(alone.took_ms), spread(crowded.took_ms), number(took)),
            ("ms of a full scan", number(alone.scan_ms), number(crowded.scan_ms), ""),
        ],
        thresholds=[
            at_most("claim in a crowd: times as many pages as alone", 1.1, [pages]),
            at_most("claim in a crowd: times as long as alone", 1.2, [took]),
        ],
    )


def _ratio(these: list[float], those: list[float]) -> float:
    return statistics.median(these) / statistics.median(those)


@contextmanager
def _filled(server: BenchmarkServer, crowd: Crowd) -> Generator[Database]:
    with server.database(of_a_definition=False) as database:
        database.do("set search_path = pg_catalog, wakeboard, pg_temp")  # or a plain INSERT makes only fresh runs
        for statement in CROWD:
            values = {name: getattr(crowd, name) for name in Crowd.__slots__}
            database.conn.execute(statement.encode(), values if "%" in statement else None)
        database.do("set synchronous_commit = on")
        database.vacuum()
        yield database


async def _measured(empty: Database, full: Database, claims: int) -> tuple[_Claiming, _Claiming]:
    async with (
        await connect(empty.dsn, prepared_statements=True) as of_empty,
        await connect(full.dsn, prepared_statements=True) as of_full,
    ):
        alone, crowded = _Claiming(empty, of_empty), _Claiming(full, of_full)
        for claiming in (alone, crowded):
            await claiming.prepare()
        for place in range(WARMING + claims):
            for claiming in (alone, crowded):
                await claiming.claim(counts=place >= WARMING)
        return alone, crowded


class _Claiming:
    """One worker in one database: pages touched (8 KB) and ms of each claim, and ms of a full scan."""

    def __init__(self, database: Database, conn: AsyncConnection[Any]) -> None:
        self.buffers: list[float] = []
        self.took_ms: list[float] = []
        self.scan_ms = 0.0
        self._database = database
        self._leasing, self._state = WorkerStore(conn, ME), ""

    async def prepare(self) -> None:
        """Scans past all due rows that are not for this worker, as a worker does."""
        await self._leasing.conn.execute(ANSWER)
        began = time.perf_counter()
        while True:
            rows, answer = await self._leasing.fetch(KNOWN, AT_ONCE, self._state or None)
            if rows:
                raise RuntimeError("nothing of ours should be due yet")
            self._state = answer.state
            if not answer.again:
                break
        self.scan_ms = (time.perf_counter() - began) * 1000

    async def claim(self, *, counts: bool) -> None:
        """Enqueues, fetches and finishes so many runs, behind what the scan has read, as in a worker."""
        wakeboard.enqueue_many(self._database.conn, [wakeboard.Job("noop")] * AT_ONCE)
        values = (ME.worker_id, ME.lease_s, ME.queues, KNOWN, AT_ONCE, self._state)
        answer = await (await self._leasing.conn.execute(EXPLAINED, values)).fetchone()
        assert answer is not None
        (explained,) = answer[0]
        plan = explained["Plan"]
        claimed = plan["Plans"][0]["Actual Rows"] - 1  # the last row is no run
        if claimed != AT_ONCE:
            raise RuntimeError(f"{claimed} of {AT_ONCE} runs were claimed")
        (self._state,) = await (await self._leasing.conn.execute(STATE)).fetchone() or ("",)
        self._database.conn.execute(FINISH, [ME.worker_id])
        if counts:
            self.buffers.append(float(plan["Shared Hit Blocks"] + plan["Shared Read Blocks"]))
            self.took_ms.append(float(explained["Execution Time"]))
