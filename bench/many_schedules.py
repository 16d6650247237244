"""Measures all pages, endpoints and commands that read, with very many schedules, and what maintenance reads."""

from __future__ import annotations

import re
import statistics
import sys
import tempfile
import time
from contextlib import contextmanager
from dataclasses import dataclass, field
from http import HTTPStatus
from http.cookiejar import CookieJar
from pathlib import Path
from typing import TYPE_CHECKING, Final
from urllib.error import HTTPError
from urllib.request import HTTPCookieProcessor, build_opener

from bench.board_pages import MAX_MS, OLDER, ROUND_S
from bench.processes import MeasuredProcess
from bench.tables import Table, at_most, number
from bench.workers import worker_group
from testbed.all_reads import board_paths, command_words, write_declared
from testbed.generated_schedules import HUGE, fill_schedules
from testbed.processes import OUR_PACKAGES, wait_for

if TYPE_CHECKING:
    from collections.abc import Callable, Generator
    from urllib.request import OpenerDirector

    from bench.database import BenchmarkServer, Database
    from bench.plan import Plan

SHOWN: Final = 12  # of the pages and of the commands, those that take longest
DECLARED: Final = 200
DEEP: Final = 20  # pages of a list, by its links
WITHIN_S: Final = 30.0  # for the board to listen
MAX_MB: Final = 160  # of the board, and of a command
_PROGRAM: Final = "from wakeboard.cli import main; main()"
_COMPLETED: Final = (f"wakeboard schedule {HUGE}/", "wakeboard schedule cust", "wakeboard pause queue ")
_CALLS: Final = {
    "a pass of the scheduler": "wakeboard.due_definitions()",
    "expectations": "wakeboard.update_expectations()",
    "circuits": "wakeboard.update_circuits()",
    "pauses that end": "wakeboard.end_pauses()",
    "a poll of a worker: maintenance that is due": "wakeboard.maintenance_due()",
    "the backlog, for an autoscaler": "wakeboard.backlog('{default,mail,imports}')",
    "changed statuses, for the operator": "wakeboard.pop_changed_definitions()",
    "an alert for silent schedules of any namespace": (
        "wakeboard.measure_alert('noSuccessFor', '1 day', schedule_pattern => '%/customer-9%')"
    ),
    "80 schedules paused": "wakeboard.pause_schedules('tenant-7/*')",
    "80 schedules resumed": "wakeboard.resume_schedules('tenant-7/*')",
}


@dataclass(slots=True)
class Taken:
    """What a step took: milliseconds until its end, and of the CPU of all processes of the server."""

    wall_ms: list[float] = field(default_factory=list[float])
    server_ms: list[float] = field(default_factory=list[float])
    peak_mb: float = 0.0

    @property
    def wall(self) -> float:
        """The median, ms."""
        return statistics.median(self.wall_ms)

    @property
    def server(self) -> float:
        """The mean, ms: one is counted in steps of 10 ms."""
        return statistics.mean(self.server_ms)


def measure_many_schedules(server: BenchmarkServer, plan: Plan) -> Table:
    """Each page, command and call, several times."""
    with server.database(of_a_definition=False) as database, tempfile.TemporaryDirectory() as name:
        folder = write_declared(Path(name), DECLARED)
        fill_schedules(database.conn, plan.many, history=plan.many // 5, live=plan.many // 40)
        _run(server, database, Path(name), ["apply", str(folder)], Taken())
        database.vacuum()
        pages, board_mb = _pages(server, database, plan.few_repetitions, Path(name))
        commands = _commands(server, database, Path(name), folder)
        calls = {what: _timed(server, lambda call=call: database.do(f"select {call}")) for what, call in _CALLS.items()}
        whole = Taken()  # all that there are: in parts, without a bound
        _run(server, database, Path(name), ["schedules", "--json", "-n", "100000"], whole)
        with worker_group() as workers:
            wake = workers.start(database.dsn).ended()
    command_mb = max(each.peak_mb for each in commands.values())
    return Table(
        title="Very many schedules",
        note=f"{plan.many:,} schedules of applications, three of five in one namespace, and {DECLARED} of a folder; a"
        f" hundredth of them paused, and a queue with a quarter of them, whose ticks wait. {len(pages):,} pages and"
        f" endpoints, which the routes say, each asked {plan.few_repetitions} times, and {len(commands)} commands, with"
        f" the start of their program: of both the {SHOWN} that take most CPU time of the server's processes.",
        head=("page, command or call", "ms", "server CPU ms"),
        rows=[
            *_longest(pages),
            ("the median page", number(statistics.median(each.wall for each in pages.values())), ""),
            *_longest(commands),
            ("wakeboard schedules --json -n 100000", number(whole.wall), number(whole.server)),
            ("the same, peak memory MB", number(whole.peak_mb), ""),
            *((what, number(each.wall), number(each.server)) for what, each in calls.items()),
            ("an idle wake, CPU s", number(wake.cpu_s), ""),
            ("the same, peak memory MB", number(wake.peak_mb), ""),
            ("the board, peak memory MB", number(board_mb), ""),
            ("the largest command, peak memory MB", number(command_mb), ""),
        ],
        thresholds=[
            at_most(f"{plan.many:,} schedules: slowest page, ms", MAX_MS, [max(each.wall for each in pages.values())]),
            at_most(
                f"{plan.many:,} schedules: server's CPU for a page or command, ms",
                MAX_MS,
                [max(each.server for each in [*pages.values(), *commands.values()])],
            ),
            at_most(
                f"{plan.many:,} schedules: memory of the board or a command, MB", MAX_MB, [max(board_mb, command_mb)]
            ),
        ],
    )


def _longest(steps: dict[str, Taken]) -> list[tuple[str, str, str]]:
    longest = sorted(steps.items(), key=lambda step: (step[1].server, step[1].wall), reverse=True)[:SHOWN]
    return [(name, number(taken.wall), number(taken.server)) for name, taken in longest]


def _timed(server: BenchmarkServer, step: Callable[[], object], taken: Taken | None = None) -> Taken:
    taken, cpu_s, began = taken or Taken(), server.cpu_s(), time.perf_counter()
    step()
    taken.wall_ms.append((time.perf_counter() - began) * 1000)
    taken.server_ms.append((server.cpu_s() - cpu_s) * 1000)
    return taken


def _pages(server: BenchmarkServer, database: Database, rounds: int, folder: Path) -> tuple[dict[str, Taken], float]:
    """Each page, in rounds: the first one connects, and compiles the templates. And the memory of the board, MB."""
    paths = board_paths()
    found: dict[str, Taken] = {path: Taken() for path in paths}
    with _board(database, folder) as (address, opener, process):
        for place in range(rounds + 1):
            ends_at = time.monotonic() + ROUND_S
            for path in paths:
                _timed(server, lambda path=path: _get(opener, address + path), found[path] if place else None)
            time.sleep(max(0.0, ends_at - time.monotonic()))
        for sort in ("name", "next"):
            path = f"/schedules?namespace={HUGE}&sort={sort}"
            for _ in range(DEEP):
                link = OLDER.search(_get(opener, address + path))
                path = (link[1] or link[2]).replace("&amp;", "&") if link else path
            found[f"page {DEEP} of /schedules by {sort}"] = _timed(
                server, lambda path=path: _get(opener, address + path)
            )
        process.sample_memory()
    return found, process.ended().peak_mb


@contextmanager
def _board(database: Database, folder: Path) -> Generator[tuple[str, OpenerDirector, MeasuredProcess]]:
    """A board as a process of its own: its address, a browser that has logged in, and the process."""
    process = MeasuredProcess(
        [sys.executable, "-c", _PROGRAM, "--dsn", database.dsn, "board", "--port", "0"],
        {"PYTHONPATH": OUR_PACKAGES, "PYTHONUNBUFFERED": "1"},
        folder,
    )
    try:
        written = wait_for(
            lambda: re.search(r"(http://127\.0\.0\.1:\d+)\S*", process.output()), within_s=WITHIN_S, why=process.output
        )
        opener = build_opener(HTTPCookieProcessor(CookieJar()))
        opener.open(written[0]).close()
        yield written[1], opener, process
    finally:
        process.stop()


def _get(opener: OpenerDirector, url: str) -> str:
    try:
        with opener.open(url) as answer:
            return answer.read().decode()
    except HTTPError as error:  # a page of something that is not there
        if error.code >= HTTPStatus.INTERNAL_SERVER_ERROR:
            raise
        return ""


def _commands(server: BenchmarkServer, database: Database, folder: Path, declared: Path) -> dict[str, Taken]:
    found: dict[str, Taken] = {}
    for words in command_words(declared):
        shown = " ".join(["wakeboard", *words]).replace(str(declared), "FOLDER")
        _run(server, database, folder, words, found.setdefault(shown, Taken()))
    for typed in _COMPLETED:
        completes = {"_WAKEBOARD_COMPLETE": "complete_bash", "COMP_WORDS": typed, "COMP_CWORD": str(typed.count(" "))}
        _run(server, database, folder, [], found.setdefault(f"completion of {typed}", Taken()), completes)
    return found


def _run(
    server: BenchmarkServer,
    database: Database,
    folder: Path,
    words: list[str],
    taken: Taken,
    environment: dict[str, str] | None = None,
) -> None:
    """Runs a command to its end. `check` fails because no worker is there; an unknown name ends with 1, too."""

    def run() -> None:
        process = MeasuredProcess(
            [sys.executable, "-c", _PROGRAM, *words],
            {"PYTHONPATH": OUR_PACKAGES, "WAKEBOARD_DSN": database.dsn, **(environment or {})},
            folder,
        )
        cost = process.ended()
        taken.peak_mb = max(taken.peak_mb, cost.peak_mb)
        if cost.exit_code not in {0, 1}:
            raise RuntimeError(f"wakeboard {' '.join(words)} ended with {cost.exit_code}: {process.output()}")

    _timed(server, run, taken)
