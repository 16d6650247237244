"""How fast draining workers empty a board."""

from __future__ import annotations

import statistics
from dataclasses import dataclass
from typing import TYPE_CHECKING

from bench.tables import Table, number, spread
from bench.workers import workplace

if TYPE_CHECKING:
    from collections.abc import Sequence

    from bench.arena import Arena, Database
    from bench.plan import Plan


@dataclass(frozen=True, slots=True)
class Case:
    """What is drained."""

    runs: int
    processes: int
    of_a_definition: bool = True

    def __str__(self) -> str:
        workers = f"{self.processes} process{'es' if self.processes > 1 else ''}"
        return f"{self.runs:,} runs, {workers}{'' if self.of_a_definition else ', no definition'}"


@dataclass(frozen=True, slots=True)
class Drain:
    """What one drain took. Rates are runs per second; `rate` counts from the first handler call."""

    rate: float
    rate_with_start: float
    worker_cpu_us: float  # per run, start and end of the processes included
    server_cpu_us: float
    wal_bytes: float
    peak_mb: float


def measure_drains(arena: Arena, plan: Plan) -> Table:
    """Cases interleaved, so that whatever else the machine does falls on all of them."""
    short, long = plan.short_drain, plan.long_drain
    cases = [Case(short, 1), Case(short, 2), Case(long, 1), Case(long, 2), Case(long, 1, of_a_definition=False)]
    drains: dict[Case, list[Drain]] = {case: [] for case in cases}
    for _ in range(plan.repetitions):
        for case in cases:
            drains[case].append(_drain(arena, case))
    free = statistics.median(
        plain.rate / bound.rate for plain, bound in zip(drains[cases[4]], drains[cases[2]], strict=True)
    )
    return Table(
        title="Drain",
        note="No-op runs per second, from the first handler call until the board is empty. Each run is claimed under a"
        " fenced lease, belongs to a definition whose changes are recorded, is run by `python -m wakeboard_worker`"
        " (job types filtered, heartbeat, JSON log), completed and kept in history."
        f" Runs without a definition are drained {free:.2f} times as fast.",
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


def _drain(arena: Arena, case: Case) -> Drain:
    with arena.database(of_a_definition=case.of_a_definition) as database, workplace() as place:
        database.enqueue(case.runs)
        database.settle()
        wal, server_cpu = _wal_position(database), arena.cpu_s()
        workers = [place.start(database.dsn) for _ in range(case.processes)]
        empty_at = place.wait_until(lambda: _is_empty(database))
        server_cpu, wal = arena.cpu_s() - server_cpu, _wal_position(database) - wal
        costs = place.go_home()
        _require_all_succeeded(database, case.runs)
        return Drain(
            rate=case.runs / (empty_at - place.first_call_at()),
            rate_with_start=case.runs / (empty_at - workers[0].started_at),
            worker_cpu_us=sum(cost.cpu_s for cost in costs) / case.runs * 1e6,
            server_cpu_us=server_cpu / case.runs * 1e6,
            wal_bytes=wal / case.runs,
            peak_mb=max(cost.peak_mb for cost in costs),
        )


def _is_empty(database: Database) -> bool:
    """The end of an index first: looking costs nothing while there is work."""
    if database.ask("select true from wakeboard.job_runs order by id desc limit 1"):
        return False
    return not database.ask("select exists (select from wakeboard.job_runs)")


def _wal_position(database: Database) -> float:
    return float(database.ask("select pg_current_wal_insert_lsn() - '0/0'"))


def _require_all_succeeded(database: Database, runs: int) -> None:
    succeeded = database.ask("select count(*) from wakeboard.job_run_history where status = 'succeeded'")
    if succeeded != runs:
        raise RuntimeError(f"{succeeded} of {runs} runs succeeded")
