"""The same drain on each supported PostgreSQL, directly and through a pooler."""

from __future__ import annotations

import tempfile
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from bench.database import running_arena
from bench.drains import Case, drain_copy
from bench.tables import Table, spread
from testbed.pgbouncer import find_pgbouncer, running_pgbouncer
from wakeboard.errors import WakeboardError
from wakeboard.local.postgres_binaries import find_binaries

if TYPE_CHECKING:
    from collections.abc import Generator

    from bench.database import Arena
    from bench.drains import Drain
    from bench.plan import Plan

VERSIONS: Final = ("embedded", "15")
BEHIND_A_POOLER: Final = {"prepared_statements": "false", "listen": "false"}
POOLER: Final = find_pgbouncer()


@dataclass(frozen=True, slots=True)
class Way:
    """How a worker reaches its database."""

    name: str
    pooled: bool

    def settings(self) -> dict[str, Any]:
        """What a worker must be told."""
        return BEHIND_A_POOLER if self.pooled else {}


DIRECT: Final = Way("directly", pooled=False)
POOLED: Final = Way("through PgBouncer, transaction mode", pooled=True)


def measure_servers(_: Arena, plan: Plan) -> Table:
    """Servers of its own, on sockets, one after another; on each the ways in turn."""
    rows: list[list[str]] = []
    case = Case(plan.drains[0], 1)
    for version in VERSIONS:
        try:
            binaries = find_binaries(version)
        except WakeboardError as missing:
            rows.append([f"PostgreSQL {version}", str(missing), ""])
            continue
        with running_arena(tcp=False, binaries=binaries) as arena:
            rows += _rows(arena, case, plan.few_repetitions)
    return Table(
        title="Servers and poolers",
        note=f"{case}, on sockets; {plan.few_repetitions} times each."
        " Behind PgBouncer without prepared statements and without NOTIFY.",
        head=("server", "runs/s", "worker CPU µs/run"),
        rows=rows,
    )


def _rows(arena: Arena, case: Case, repetitions: int) -> list[list[str]]:
    ways = [DIRECT, POOLED] if POOLER else [DIRECT]
    drains: dict[Way, list[Drain]] = {way: [] for way in ways}
    for _ in range(repetitions):
        for way in ways:
            drains[way].append(_drain(arena, case, way))
    server = f"PostgreSQL {arena.version()}"
    return [
        [
            f"{server}, {way.name}",
            spread([each.rate for each in found]),
            spread([each.worker_cpu_us for each in found]),
        ]
        for way, found in drains.items()
    ] + ([] if POOLER else [[f"{server}, {POOLED.name}", "PgBouncer is not installed", ""]])


def _drain(arena: Arena, case: Case, way: Way) -> Drain:
    with arena.database(runs=case.runs) as database, _entry(database.dsn, way) as dsn:
        return drain_copy(arena, database, case, dsn=dsn, **way.settings())


@contextmanager
def _entry(dsn: str, way: Way) -> Generator[str]:
    """The DSN that a worker is given."""
    if not way.pooled:
        yield dsn
        return
    with tempfile.TemporaryDirectory(prefix="wakeboard-bench-") as name:
        folder = Path(name)
        folder.chmod(0o755)  # PgBouncer runs as another account where we are root
        with running_pgbouncer(POOLER or "", dsn, folder, "transaction") as pooled:
            yield pooled
