"""Measures the pages of the web board and the commands that read schedules, with very many of them."""

from __future__ import annotations

import statistics
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Final

from bench.board_pages import MAX_MS, times_of
from bench.tables import Table, at_most, number
from testbed.board_server import serving
from wakeboard.board import BoardOptions
from wakeboard.ticks.cron_parser import parse_cron

if TYPE_CHECKING:
    from bench.database import BenchmarkServer, Database
    from bench.plan import Plan

PAGES: Final = (
    "/",
    *(f"/schedules?sort={sort}" for sort in ("name", "next", "last", "failures")),
    "/schedules?q=team-3/report-4",
    "/schedules?namespace=team-3",
    "/schedules?health=ok",
    "/schedules?label=kind",
    "/schedules/17",
    "/calendar",
    "/calendar?view=week",
    "/runs?q=schedule:team-3/report-43",
    "/limits",
)
COMMANDS: Final = (
    ("schedules",),
    ("schedules", "--json", "--limit", "100000"),
    ("next", "team-3/report-43"),
    ("explain", "report-43"),
    ("check",),
)
# Each has a time of day. The compiled form of an expression begins with its second, minutes and hours, as sets of bits.
MANY: Final = """
insert into wakeboard.job_definitions (
  source, namespace, name, spec_hash, job_type, schedule, cron_fields, next_run_at, labels)
select 'file:bench', 'team-' || n %% 20, 'report-' || n, '', 'noop', n %% 60 || ' ' || n / 60 %% 24 || ' * * *',
       '1 ' || to_hex(1::bigint << n %% 60) || ' ' || to_hex(1 << n / 60 %% 24) || %s,
       now() + interval '1 hour' + n %% 86400 * interval '1 second', '{"kind": "report"}'
  from generate_series(1, %s) as n
"""


def measure_many_schedules(server: BenchmarkServer, plan: Plan) -> Table:
    """Each page and each command, several times."""
    with server.database(of_a_definition=False) as database:
        _fill(database, plan.many)
        with serving(BoardOptions(dsn=database.dsn)) as address:
            times = times_of({path: address + path for path in PAGES}, plan.few_repetitions)
        commands = {" ".join(words): _time_of(database.dsn, words) for words in COMMANDS}
    pages = {path: statistics.median(taken) for path, taken in times.items()}
    return Table(
        title="Very many schedules",
        note=f"{plan.many:,} schedules. The median time to answer a page, asked {plan.few_repetitions} times, and the"
        " time of a command with its start.",
        head=("page or command", "ms"),
        rows=[
            *((path, number(taken)) for path, taken in pages.items()),
            *((f"wakeboard {words}", number(taken)) for words, taken in commands.items()),
        ],
        thresholds=[at_most(f"{plan.many:,} schedules: slowest page, ms", MAX_MS, [max(pages.values())])],
    )


def _fill(database: Database, schedules: int) -> None:
    rest = parse_cron("0 0 * * *", name="noop").to_text().split(" ", 3)[3]
    database.conn.execute(MANY.encode(), (f" {rest}", schedules))
    database.vacuum()


def _time_of(dsn: str, words: tuple[str, ...]) -> float:
    """Milliseconds, with the start of the program."""
    began = time.perf_counter()
    program = Path(sys.executable).with_name("wakeboard")
    subprocess.run([program, "--dsn", dsn, *words], stdout=subprocess.DEVNULL, check=words != ("check",))
    return (time.perf_counter() - began) * 1000
