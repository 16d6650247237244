"""Measures how long it takes to declare a backfill."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Final

from bench.tables import Table, at_most, spread
from wakeboard.ticks.cron_parser import parse_cron

if TYPE_CHECKING:
    from bench.database import BenchmarkServer
    from bench.plan import Plan

BEGIN: Final = datetime(2024, 1, 1, tzinfo=UTC)
BOUND_S: Final = 5.0
_WAKEBOARD: Final = "import sys; from wakeboard.cli import main; sys.exit(main())"
_HOURLY: Final = """
insert into wakeboard.job_definitions (
  source, namespace, name, spec_hash, job_type, schedule, cron_fields, time_zone, next_run_at)
values ('file:bench', 'bench', 'hourly', '', 'noop', '@hourly', %s, 'Etc/UTC', now() + interval '1 hour')
"""


def measure_backfills(server: BenchmarkServer, plan: Plan) -> Table:
    """The command, with the start of its process."""
    took = [_declared_s(server, plan.backfill) for _ in range(plan.few_repetitions)]
    return Table(
        title="Backfills",
        note=f"{plan.few_repetitions} times each. `wakeboard backfill` of an hourly schedule, from exec to its end.",
        head=("figure", "seconds"),
        rows=[(f"{plan.backfill:,} ticks declared", spread(took))],
        thresholds=[at_most(f"a backfill of {plan.backfill:,} ticks is declared, s", BOUND_S, took)],
    )


def _declared_s(server: BenchmarkServer, ticks: int) -> float:
    with server.database(of_a_definition=False) as database:
        database.conn.execute(_HOURLY, [parse_cron("@hourly", name="bench/hourly").to_text()])
        span = [f"{moment:%Y-%m-%dT%H:%MZ}" for moment in (BEGIN, BEGIN + timedelta(hours=ticks))]
        began = time.perf_counter()
        subprocess.run(
            [sys.executable, "-c", _WAKEBOARD, "backfill", "bench/hourly", "--from", span[0], "--to", span[1], "--yes"],
            env={**os.environ, "WAKEBOARD_DSN": database.dsn},
            stdout=subprocess.DEVNULL,
            check=True,
        )
        took_s = time.perf_counter() - began
        declared = database.ask("select total from wakeboard.backfills")
        if declared != ticks:
            raise RuntimeError(f"{declared} of {ticks} ticks were declared")
        return took_s
