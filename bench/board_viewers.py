"""Measures what viewers of the web board cost the workers: drains with ten viewers and without, in turn."""

from __future__ import annotations

import json
import os
import re
import statistics
import sys
import tempfile
import time
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

from bench.drains import Case, drain_copy
from bench.machine import cpu_s_of_tree
from bench.processes import MeasuredProcess
from bench.tables import Table, at_most, number, spread
from bench.viewers import PAGES, READY
from testbed.processes import OUR_PACKAGES

if TYPE_CHECKING:
    from collections.abc import Generator

    from bench.database import BenchmarkServer, Database
    from bench.drains import Drain
    from bench.plan import Plan

WITHIN_S: Final = 30.0  # for the board to listen, and for all pages to open
LONGEST_S: Final = 600.0
MAX_COST_PERCENT: Final = 2
PAIRS: Final = 3
DRAINS: Final = 4  # times the runs of the longest drain of the other benchmarks
_BOARD: Final = "from wakeboard.cli import main; main()"


@dataclass(slots=True)
class ViewerStats:
    """What the board and its viewers did while they were there.

    `cpu_s`: of the board's process. `sessions_cpu_s`: of its sessions in the database.
    """

    pages: int = 0
    seconds: float = 0.0
    median_ms: float = 0.0
    cpu_s: float = 0.0
    sessions_cpu_s: float = 0.0


def measure_viewers(server: BenchmarkServer, plan: Plan) -> Table:
    """Drains with and without viewers, in turn; of each pair the other one is first.

    The drains are long, so that each has several updates of all pages. Two drains differ by a tenth without any viewer,
    in speed and in CPU time. So the cost of viewers is the CPU time of the board and of its sessions in the database.
    """
    case = Case(DRAINS * plan.drains[-1], 1)
    alone: list[Drain] = []
    watched: list[Drain] = []
    stats: list[ViewerStats] = []
    for place in range(PAIRS if plan.repetitions > 1 else 1):
        order = (False, True) if place % 2 else (True, False)
        for with_viewers in order:
            with server.database(runs=case.runs) as database:
                if not with_viewers:
                    alone.append(drain_copy(server, database, case))
                    continue
                with viewers(database) as viewing:
                    watched.append(drain_copy(server, database, case))
                stats.append(viewing)
    board_us = [1e6 * each.cpu_s / case.runs for each in stats]
    alone_us = [drain.worker_cpu_us + drain.server_cpu_us for drain in alone]
    watched_us = [
        drain.worker_cpu_us + drain.server_cpu_us + board for drain, board in zip(watched, board_us, strict=True)
    ]
    more = [100 * (other / one - 1) for one, other in zip(alone_us, watched_us, strict=True)]
    share = [
        100 * (each.cpu_s + each.sessions_cpu_s) / (watched_one * case.runs / 1e6)
        for each, watched_one in zip(stats, watched_us, strict=True)
    ]
    slower = [100 * (1 - other.rate / one.rate) for one, other in zip(alone, watched, strict=True)]
    return Table(
        title="Viewers of the web board",
        note=f"{case}: alone, and while {len(PAGES)} pages of a board are open, each another one, with live updates."
        f" {len(more)} pairs, interleaved. Server, worker, board and viewers share {os.cpu_count()} CPUs. The board"
        " spaces the updates of pages, so that they take a bounded part of a CPU.",
        head=("figure", "without viewers", f"with {len(PAGES)} viewers"),
        rows=[
            ("runs/s", spread([drain.rate for drain in alone]), spread([drain.rate for drain in watched])),
            ("slower by, %", "", spread(slower)),
            ("server CPU µs/run", *(spread([drain.server_cpu_us for drain in each]) for each in (alone, watched))),
            ("board CPU µs/run", "", spread(board_us)),
            ("CPU of server, worker and board µs/run", spread(alone_us), spread(watched_us)),
            ("more CPU, %", "", spread(more)),
            ("CPU of the board and its sessions, % of all", "", spread(share)),
            ("updates of a page", "", spread([each.pages / len(PAGES) for each in stats])),
            ("a page, median ms", "", number(statistics.median(each.median_ms for each in stats))),
        ],
        thresholds=[at_most("CPU time of a drain that a board with ten viewers takes, %", MAX_COST_PERCENT, share)],
    )


@contextmanager
def viewers(database: Database) -> Generator[ViewerStats]:
    """A board and ten viewers of it, as processes of their own. What they did is known after the block."""
    viewing = ViewerStats()
    with tempfile.TemporaryDirectory(prefix="wakeboard-bench-") as name:
        folder = Path(name)
        board = MeasuredProcess(
            [sys.executable, "-c", _BOARD, "--dsn", database.dsn, "board", "--port", "0"],
            {"PYTHONPATH": OUR_PACKAGES, "PYTHONUNBUFFERED": "1"},
            _folder(folder / "board"),
        )
        try:
            address = _written(board, r"http://127\.0\.0\.1:\d+\S*")
            process = MeasuredProcess(
                [sys.executable, "-m", "bench.viewers", address, str(LONGEST_S)], {}, _folder(folder / "viewers")
            )
            try:
                _written(process, READY)
                before, sessions_before = board.cpu_s(), _sessions_cpu_s(database)
                yield viewing
                viewing.cpu_s = board.cpu_s() - before
                viewing.sessions_cpu_s = _sessions_cpu_s(database) - sessions_before
            finally:
                process.stop()
                process.ended()
            found = json.loads(_written(process, r"\{.*\}"))
            viewing.pages, viewing.seconds, viewing.median_ms = found["pages"], found["seconds"], found["median_ms"]
        finally:
            board.stop()
            board.ended()


def _sessions_cpu_s(database: Database) -> float:
    """CPU seconds so far of the board's sessions, which last as long as it does."""
    query = "select array_agg(pid) from pg_stat_activity where application_name like 'wakeboard board%'"
    return sum(cpu_s_of_tree(pid) for pid in database.ask(query) or ())


def _folder(path: Path) -> Path:
    path.mkdir()
    return path


def _written(process: MeasuredProcess, pattern: str) -> str:
    """What matches the pattern in the output of a process, as soon as it was written."""
    deadline = time.monotonic() + WITHIN_S
    while not (found := re.search(pattern, process.output())):
        if process.dead() or time.monotonic() > deadline:
            raise RuntimeError(f"it did not write {pattern!r}, but: {process.output()}")
        time.sleep(0.01)
    return found[0]
