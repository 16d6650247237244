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
from bench.processes import MeasuredProcess
from bench.tables import Table, at_most, number, spread
from bench.viewers import PAGES, READY
from testbed.processes import OUR_PACKAGES

if TYPE_CHECKING:
    from collections.abc import Generator

    from bench.database import BenchmarkServer
    from bench.drains import Drain
    from bench.plan import Plan

WITHIN_S: Final = 30.0  # for the board to listen, and for all pages to open
LONGEST_S: Final = 600.0
MAX_COST: Final = 0.02
_BOARD: Final = "from wakeboard.cli import main; main()"


@dataclass(slots=True)
class ViewerStats:
    """What the board and its viewers did while they were there. `cpu_s`: of the board's process."""

    pages: int = 0
    seconds: float = 0.0
    median_ms: float = 0.0
    cpu_s: float = 0.0


def measure_viewers(server: BenchmarkServer, plan: Plan) -> Table:
    """Drains with and without viewers, in turn; of each pair the other one is first."""
    case = Case(plan.drains[-1], 1)
    alone: list[Drain] = []
    watched: list[Drain] = []
    stats: list[ViewerStats] = []
    for place in range(2 * plan.repetitions):
        order = (False, True) if place % 2 else (True, False)
        for with_viewers in order:
            with server.database(runs=case.runs) as database:
                if not with_viewers:
                    alone.append(drain_copy(server, database, case))
                    continue
                with viewers(database.dsn) as viewing:
                    watched.append(drain_copy(server, database, case))
                stats.append(viewing)
    costs = [1 - other.rate / one.rate for one, other in zip(alone, watched, strict=True)]
    return Table(
        title="Viewers of the web board",
        note=f"{case}: alone, and while {len(PAGES)} pages of a board are open, each another one, with live updates."
        f" {len(costs)} pairs, interleaved. Server, worker, board and viewers share {os.cpu_count()} CPUs. The board"
        " spaces the updates of pages, so that they take a bounded part of a CPU.",
        head=("figure", "without viewers", f"with {len(PAGES)} viewers"),
        rows=[
            ("runs/s", spread([drain.rate for drain in alone]), spread([drain.rate for drain in watched])),
            ("slower by, %", "", spread([100 * cost for cost in costs])),
            ("server CPU µs/run", *(spread([drain.server_cpu_us for drain in each]) for each in (alone, watched))),
            ("board CPU, ms a second", "", spread([1000 * each.cpu_s / each.seconds for each in stats])),
            ("pages a second, all viewers", "", spread([each.pages / each.seconds for each in stats])),
            ("a page, median ms", "", number(statistics.median(each.median_ms for each in stats))),
        ],
        thresholds=[at_most("ten viewers of the board slow a drain by, %", 100 * MAX_COST, [100 * c for c in costs])],
    )


@contextmanager
def viewers(dsn: str) -> Generator[ViewerStats]:
    """A board and ten viewers of it, as processes of their own. What they did is known after the block."""
    viewing = ViewerStats()
    with tempfile.TemporaryDirectory(prefix="wakeboard-bench-") as name:
        folder = Path(name)
        board = MeasuredProcess(
            [sys.executable, "-c", _BOARD, "--dsn", dsn, "board", "--port", "0"],
            {"PYTHONPATH": OUR_PACKAGES, "PYTHONUNBUFFERED": "1"},
            _folder(folder / "board"),
        )
        try:
            address = _written(board, r"http://127\.0\.0\.1:\d+")
            process = MeasuredProcess(
                [sys.executable, "-m", "bench.viewers", address, str(LONGEST_S)], {}, _folder(folder / "viewers")
            )
            try:
                _written(process, READY)
                before = board.cpu_s()
                yield viewing
                viewing.cpu_s = board.cpu_s() - before
            finally:
                process.stop()
                process.ended()
            found = json.loads(process.output().splitlines()[-1])
            viewing.pages, viewing.seconds, viewing.median_ms = found["pages"], found["seconds"], found["median_ms"]
        finally:
            board.stop()
            board.ended()


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
