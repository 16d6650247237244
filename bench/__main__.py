"""`python -m bench`: measures, prints Markdown tables, and replaces their sections of docs/benchmarks.md.

With --quick or --repetitions it writes nothing. It starts its own PostgreSQL on loopback and real worker processes, and
removes everything at its end.
"""

from __future__ import annotations

import argparse
import sys
import time
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from bench.application_schedules import measure_application_schedules
from bench.backfills import measure_backfills
from bench.board_pages import measure_board
from bench.board_viewers import measure_viewers
from bench.claims import measure_claims
from bench.container_jobs import measure_container_jobs
from bench.database import running_server
from bench.dependencies import measure_dependencies
from bench.drains import measure_drains
from bench.due_ticks import measure_ticking
from bench.enqueue import measure_enqueues
from bench.handler_costs import measure_handling
from bench.in_cluster import measure_pods
from bench.kubectl_plugin import measure_kubectl_plugin
from bench.lateness import measure_lateness
from bench.machine import MEANING, conditions, description
from bench.many_schedules import measure_many_schedules
from bench.operator_at_scale import measure_operator
from bench.ordinary import measure_ordinary
from bench.page import require_sections, write_section
from bench.pinned_snapshot import measure_pinned
from bench.plan import LARGE, QUICK, Plan
from bench.plans import measure_plans
from bench.rate_limits import measure_rate_limits
from bench.run_logs import measure_run_logs
from bench.servers import measure_servers
from bench.spread_schedules import measure_spread_schedules
from bench.tables import thresholds_table
from bench.wake import measure_wakes

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from bench.database import BenchmarkServer
    from bench.tables import Table


LARGE_ONES: Final = ("drain", "claims", "pinned", "board")
MEASUREMENTS: Final[dict[str, Callable[[BenchmarkServer, Plan], Table]]] = {
    "ordinary": measure_ordinary,
    "drain": measure_drains,
    "handlers": measure_handling,
    "run_logs": measure_run_logs,
    "claims": measure_claims,
    "pinned": measure_pinned,
    "servers": measure_servers,
    "enqueue": measure_enqueues,
    "wake": measure_wakes,
    "lateness": measure_lateness,
    "ticks": measure_ticking,
    "schedules": measure_application_schedules,
    "spread_schedules": measure_spread_schedules,
    "dependencies": measure_dependencies,
    "rate_limits": measure_rate_limits,
    "backfills": measure_backfills,
    "operator": measure_operator,
    "containers": measure_container_jobs,
    "pods": measure_pods,
    "board": measure_board,
    "board_viewers": measure_viewers,
    "many_schedules": measure_many_schedules,
    "plans": measure_plans,
    "kubectl": measure_kubectl_plugin,
}


def main(words: Sequence[str] | None = None) -> int:
    """Runs the measurements."""
    options = _options(words)
    plan = LARGE if options.large else QUICK if options.quick else Plan()
    if options.repetitions:
        plan = replace(plan, repetitions=options.repetitions, few_repetitions=options.repetitions)
    chosen: Sequence[str] = options.only or (LARGE_ONES if options.large else tuple(MEASUREMENTS))
    sections = {name: f"make bench BENCH_ARGS={repr(f'--large {name}') if options.large else name}" for name in chosen}
    if writes := plan in (Plan(), LARGE):
        require_sections(sections.values())
    with running_server() as server:
        about = description(server.version())
        print(f"{about}\n{MEANING}\n", flush=True)
        for name in chosen:
            text = _measured(name, server, plan, about)
            print(text, flush=True)
            if writes:
                write_section(sections[name], text)
    return 0


def _options(words: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m bench", description=__doc__)
    parser.add_argument("only", nargs="*", metavar="WHAT", help=f"of {', '.join(MEASUREMENTS)}; default all")
    size = parser.add_mutually_exclusive_group()
    size.add_argument("--quick", action="store_true", help="smaller and fewer, as a smoke test")
    size.add_argument(
        "--large", action="store_true", help=f"{', '.join(LARGE_ONES)} with millions of rows and ten minutes of load"
    )
    parser.add_argument("--repetitions", type=int, metavar="N", help="measurements of each case")
    options = parser.parse_args(words)
    if unknown := set(options.only) - set(MEASUREMENTS):
        parser.error(f"{', '.join(sorted(unknown))}: choose from {', '.join(MEASUREMENTS)}")
    return options


def _measured(name: str, server: BenchmarkServer, plan: Plan, about: str) -> str:
    before, began = conditions(), time.monotonic()
    print(f"measuring: {name} …", file=sys.stderr, flush=True)
    table = MEASUREMENTS[name](server, plan)
    took = f"Took {time.monotonic() - began:.0f} s on {about} Before it: {before}.\n"
    return "\n".join([table.markdown(), *([thresholds_table(table.thresholds)] if table.thresholds else []), took])


if __name__ == "__main__":
    sys.exit(main())
