"""The same drain on each supported PostgreSQL, directly and through a pooler."""

from __future__ import annotations

import tempfile
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from bench.database import running_server
from bench.drains import Case, drain_copy
from bench.tables import Table, spread
from testbed.pgbouncer import find_pgbouncer, running_pgbouncer
from wakeboard.errors import WakeboardError
from wakeboard.local.postgres import find_binaries

if TYPE_CHECKING:
    from collections.abc import Generator

    from bench.database import BenchmarkServer
    from bench.drains import Drain
    from bench.plan import Plan

VERSIONS: Final = ("embedded", "15")
POOLED_SETTINGS: Final = {"prepared_statements": "false", "listen": "false"}
POOLER: Final = find_pgbouncer()


@dataclass(frozen=True, slots=True)
class Variant:
    """How a worker reaches its database."""

    name: str
    pooled: bool

    def settings(self) -> dict[str, Any]:
        """The settings of the worker."""
        return POOLED_SETTINGS if self.pooled else {}


DIRECT: Final = Variant("directly", pooled=False)
POOLED: Final = Variant("through PgBouncer, transaction mode", pooled=True)


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
    ways = [DIRECT, POOLED] if POOLER else [DIRECT]
    drains: dict[Variant, list[Drain]] = {variant: [] for variant in ways}
    for _ in range(repetitions):
        for variant in ways:
            drains[variant].append(_drain(server, case, variant))
    label = f"PostgreSQL {server.version()}"
    return [
        [
            f"{label}, {variant.name}",
            spread([each.rate for each in found]),
            spread([each.worker_cpu_us for each in found]),
        ]
        for variant, found in drains.items()
    ] + ([] if POOLER else [[f"{label}, {POOLED.name}", "PgBouncer is not installed", ""]])


def _drain(server: BenchmarkServer, case: Case, variant: Variant) -> Drain:
    with server.database(runs=case.runs) as database, _worker_dsn(database.dsn, variant) as dsn:
        return drain_copy(server, database, case, dsn=dsn, **variant.settings())


@contextmanager
def _worker_dsn(dsn: str, variant: Variant) -> Generator[str]:
    """The DSN that a worker is given."""
    if not variant.pooled:
        yield dsn
        return
    with tempfile.TemporaryDirectory(prefix="wakeboard-bench-") as name:
        folder = Path(name)
        folder.chmod(0o755)  # PgBouncer runs as another account where we are root
        with running_pgbouncer(POOLER or "", dsn, folder, "transaction") as pooled:
            yield pooled
