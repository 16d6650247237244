"""The same drain on each supported PostgreSQL, directly and through a pooler."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from bench.database import running_server
from bench.drains import Case, drain, drain_copy
from bench.tables import Table, spread
from testbed.pgbouncer import find_pgbouncer, running_pgbouncer
from wakeboard.errors import WakeboardError
from wakeboard.local.postgres import find_binaries

if TYPE_CHECKING:
    from bench.database import BenchmarkServer
    from bench.drains import Drain
    from bench.plan import Plan

VERSIONS: Final = ("embedded", "15")
POOLED_SETTINGS: Final[dict[str, Any]] = {"prepared_statements": "false", "listen": "false"}
POOLER: Final = find_pgbouncer()
DIRECTLY, POOLED = "directly", "through PgBouncer, transaction mode"


def measure_servers(_: BenchmarkServer, plan: Plan) -> Table:
    """Servers of its own, on sockets, one after another; on each the ways in turn."""
    rows: list[list[str]] = []
    case = Case(plan.drains[0], 1)
    for version in VERSIONS:
        try:
            binaries = find_binaries(version)
        except WakeboardError as missing:
            rows.append([f"PostgreSQL {version}", str(missing), ""])
            continue
        with running_server(tcp=False, binaries=binaries) as server:
            rows += _rows(server, case, plan.few_repetitions)
    return Table(
        title="Servers and poolers",
        note=f"{case}, on sockets; {plan.few_repetitions} times each."
        " Behind PgBouncer without prepared statements and without NOTIFY.",
        head=("server", "runs/s", "worker CPU µs/run"),
        rows=rows,
    )


def _rows(server: BenchmarkServer, case: Case, repetitions: int) -> list[list[str]]:
    drains: dict[str, list[Drain]] = {DIRECTLY: [], POOLED: []}
    for _ in range(repetitions):
        drains[DIRECTLY].append(drain(server, case))
        if POOLER:
            drains[POOLED].append(_drain_pooled(server, case, POOLER))
    rows: list[list[str]] = []
    for way, found in drains.items():
        cost = [spread([each.rate for each in found]), spread([each.worker_cpu_us for each in found])] if found else []
        rows.append([f"PostgreSQL {server.version()}, {way}", *(cost or ["PgBouncer is not installed", ""])])
    return rows


def _drain_pooled(server: BenchmarkServer, case: Case, pooler: str) -> Drain:
    with tempfile.TemporaryDirectory(prefix="wakeboard-bench-") as name, server.database(runs=case.runs) as database:
        folder = Path(name)
        folder.chmod(0o755)  # PgBouncer runs as another account where we are root
        with running_pgbouncer(pooler, database.dsn, folder, "transaction") as dsn:
            return drain_copy(server, database, case, dsn=dsn, **POOLED_SETTINGS)
