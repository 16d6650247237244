"""Measures how fast draining workers empty the queue."""

from __future__ import annotations

import os
import statistics
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import wakeboard
from bench.machine import busy_cpu_s
from bench.processes import STOP_WITHIN_S
from bench.tables import Table, number, spread
from bench.workers import TIMEOUT_S, NotDone, worker_group

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from bench.database import BenchmarkServer, Database
    from bench.plan import Plan
    from bench.workers import WorkerGroup

NEWEST = "select true from wakeboard.job_runs order by id desc limit 1"  # reads the end of an index
LEFT = "select exists (select from wakeboard.job_runs)"
SUCCEEDED = "select count(*) from wakeboard.job_run_history where status = 'succeeded'"


@dataclass(frozen=True, slots=True)
class Case:
    """What is drained."""

    runs: int
    processes: int
    of_a_definition: bool = True
    job_type: str = "noop"
    handlers: str = "bench.handlers"

    def __str__(self) -> str:
        workers = f"{self.processes} process{'es' if self.processes > 1 else ''}"
        others = ", both kinds of handlers" if "," in self.handlers else ""
        return f"{self.runs:,} runs, {workers}{'' if self.of_a_definition else ', no definition'}{others}"


@dataclass(frozen=True, slots=True)
class Drain:
    """What one drain took. `seconds` count from the first handler call; costs are those of a run, in µs and bytes."""

    runs: int  # that succeeded
    seconds: float
    start_s: float  # from the exec of the first process to the first handler call
    worker_cpu_us: float  # start and end of the processes included
    server_cpu_us: float
    wal_bytes: float
    peak_mb: float
    others_cpus: float  # that were busy with something else
    complete: bool = True  # or its time was over before

    @property
    def rate(self) -> float:
        """Runs per second."""
        return self.runs / self.seconds

    @property
    def rate_with_start(self) -> float:
        """The same from the exec of the first process on."""
        return self.runs / (self.seconds + self.start_s)


@dataclass(frozen=True, slots=True)
class QueueQueries:
    """SQL queries of a queue: is its newest job unfinished, is any unfinished, how many have succeeded?"""

    newest: str = NEWEST
    left: str = LEFT
    succeeded: str = SUCCEEDED
    first: str = ""  # when the first job began, as Unix time, where handlers do not report it

    def empty(self, database: Database) -> bool:
        """Whether everything is finished. The cheap query comes first."""
        return not database.ask(self.newest) and not database.ask(self.left)


def watch_drain(
    server: BenchmarkServer,
    database: Database,
    workers: WorkerGroup,
    start: Callable[[], object],
    queries: QueueQueries | None = None,
    within_s: float = TIMEOUT_S,
    stop_within_s: float = STOP_WITHIN_S,
) -> Drain:
    """Calls `start`, which starts workers, and measures until the queue is empty, or for so long.

    Raises:
        NotDone: no job at all succeeded in that time, or all workers left before all was done.
    """
    asked = queries or QueueQueries()
    wal, server_cpu, busy, own = _wal_position(database), server.cpu_s(), busy_cpu_s(), time.process_time()
    started_at = time.time()
    start()
    complete, ended_at = _wait(database, workers, asked, within_s)
    server_cpu, wal = server.cpu_s() - server_cpu, _wal_position(database) - wal
    busy, own = busy_cpu_s() - busy, time.process_time() - own
    runs = int(database.ask(asked.succeeded))
    costs = workers.stop(stop_within_s)
    first_at = workers.first_call_at() if not asked.first else database.ask(asked.first)
    if not runs or first_at is None:
        raise NotDone(f"nothing was done within {within_s:.0f} s")
    worker_cpu = sum(cost.cpu_s for cost in costs)
    return Drain(
        runs=runs,
        seconds=ended_at - first_at,
        start_s=first_at - started_at,
        worker_cpu_us=worker_cpu / runs * 1e6,
        server_cpu_us=server_cpu / runs * 1e6,
        wal_bytes=wal / runs,
        peak_mb=max(cost.peak_mb for cost in costs),
        others_cpus=max(0.0, busy - worker_cpu - server_cpu - own) / (ended_at - started_at),
        complete=complete,
    )


def drain(server: BenchmarkServer, case: Case, **settings: Any) -> Drain:
    """Drains runs with draining workers under these settings."""
    job = wakeboard.Job(case.job_type)
    with server.database(of_a_definition=case.of_a_definition, runs=case.runs, job=job) as database:
        return drain_copy(server, database, case, **settings)


def drain_copy(
    server: BenchmarkServer,
    database: Database,
    case: Case,
    *,
    queries: QueueQueries | None = None,
    dsn: str | None = None,
    **settings: Any,
) -> Drain:
    """The same for a database that has the runs in it, of whatever type. `dsn`: of the workers, if another."""
    with worker_group() as workers:

        def start() -> None:
            for _ in range(case.processes):
                workers.start(dsn or database.dsn, handlers=case.handlers, **settings)

        found = watch_drain(server, database, workers, start, queries)
        if found.runs != case.runs or not found.complete:
            raise RuntimeError(f"{found.runs} of {case.runs} runs succeeded")
        return found


def measure_drains(server: BenchmarkServer, plan: Plan) -> Table:
    """Cases interleaved, so that whatever else the machine does falls on all of them."""
    cases = [Case(runs, processes) for runs in plan.drains for processes in plan.processes]
    free = Case(plan.drains[-1], 1, of_a_definition=False)
    mixed = Case(free.runs, 1, handlers="bench.handlers,bench.thread_handlers")
    cases += [free, mixed]
    drains: dict[Case, list[Drain]] = {case: [] for case in cases}
    for _ in range(plan.repetitions):
        for case in cases:
            drains[case].append(drain(server, case))
    bound = drains[Case(free.runs, 1)]
    faster, slower = (
        statistics.median(each.rate / with_it.rate for each, with_it in zip(drains[case], bound, strict=True))
        for case in (free, mixed)
    )
    return Table(
        title="Drain",
        note="No-op runs per second, from the first handler call until the queue is empty. Each run is claimed under a"
        " fenced lease, belongs to a definition whose changes are recorded, is run by `python -m wakeboard_worker`"
        " (job types filtered, heartbeat, JSON log), completed and kept in history."
        f" Runs without a definition are drained {faster:.2f} times as fast; beside a handler for threads, whose runs"
        f" the worker looks for in vain, {slower:.2f} times."
        f" Server and workers share {os.cpu_count()} CPUs; {plan.repetitions} times each.",
        head=(
            "case",
            "runs/s",
            "with start of the processes",
            "worker CPU µs/run",
            "server CPU µs/run",
            "WAL B/run",
            "peak MB",
        ),
        rows=[_row(case, drains[case]) for case in cases],
    )


def _row(case: Case, drains: Sequence[Drain]) -> list[str]:
    return [
        str(case),
        spread([drain.rate for drain in drains]),
        number(statistics.median(drain.rate_with_start for drain in drains)),
        spread([drain.worker_cpu_us for drain in drains]),
        spread([drain.server_cpu_us for drain in drains]),
        number(statistics.median(drain.wal_bytes for drain in drains)),
        number(max(drain.peak_mb for drain in drains)),
    ]


def _wait(database: Database, workers: WorkerGroup, asked: QueueQueries, within_s: float) -> tuple[bool, float]:
    """Whether the queue became empty in time, and when it did or the time was over."""
    try:
        return True, workers.wait_until(lambda: asked.empty(database), within_s)
    except NotDone as not_done:
        if not_done.all_exited:
            raise
        return False, time.time()


def _wal_position(database: Database) -> float:
    return float(database.ask("select pg_current_wal_insert_lsn() - '0/0'"))
