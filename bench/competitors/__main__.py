"""`python -m bench.competitors`: measures wakeboard and other job queues in turn, on one PostgreSQL that it starts.

It installs the others from their registries, at pinned versions, into the user's cache. It prints Markdown tables, and
writes the results of a full measurement to docs/benchmarks.md, with plots.
"""

from __future__ import annotations

import argparse
import random
import sys
import time
from dataclasses import replace
from datetime import UTC, datetime
from itertools import product
from typing import TYPE_CHECKING, Final

from bench.competitors.catalogue import COMPETITORS, named
from bench.competitors.comparison import Comparison, Failed
from bench.competitors.installation import installed, lock_npm
from bench.competitors.ordinary_rates import measure_ordinary_rates
from bench.competitors.plan import QUICK, Plan
from bench.competitors.results import (
    Case,
    Results,
    cost_table,
    drain_plot,
    drain_table,
    enqueue_table,
    processes_in_words,
    queue_table,
    thresholds,
)
from bench.database import SETTINGS, running_server
from bench.drains import Drain
from bench.machine import conditions, description
from bench.page import PLOTS, write_section
from bench.tables import spread, thresholds_table

if TYPE_CHECKING:
    from collections.abc import Sequence

    from bench.competitors.catalogue import Competitor
    from bench.competitors.installation import Installation
    from bench.database import BenchmarkServer
    from bench.tables import Table

COMMAND: Final = "make bench-competitors"
ORDINARY: Final = f"{COMMAND} BENCH_ARGS=--ordinary"


def main(words: Sequence[str] | None = None) -> int:
    """Runs the measurements."""
    options = _options(words)
    if options.lock:
        lock_npm()
        return 0
    plan = QUICK if options.quick else Plan()
    if options.rounds:
        plan = replace(plan, rounds=options.rounds)
    installation, chosen = installed(), named(options.only)
    for competitor in chosen:
        competitor.command(installation, "work")  # compiles our workers of other languages, before anything is measured
    began = time.monotonic()
    with running_server() as server:
        about = description(server.version())
        if options.ordinary:
            found = measure_ordinary_rates(Comparison(server, installation, plan.enqueue_within_s), plan, chosen)
            _report_ordinary(found, about, time.monotonic() - began, is_whole=not options.quick and not options.only)
            return 0
        results = _measured(server, installation, plan, chosen)
    text = _report(results, plan, installation, about, time.monotonic() - began)
    print(text)
    if not options.quick and not options.only:
        _write_plots(results, plan)
        write_section(COMMAND, text)
    return 0


def _options(words: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m bench.competitors", description=__doc__)
    known = [competitor.name for competitor in COMPETITORS]
    parser.add_argument("only", nargs="*", metavar="QUEUE", help=f"of {', '.join(known)}; default all")
    parser.add_argument("--quick", action="store_true", help="few and small, as a smoke test")
    parser.add_argument("--ordinary", action="store_true", help="what a job costs at 1, 50 and 1,000 a second")
    parser.add_argument("--rounds", type=int, metavar="N", help="how often each case is measured")
    parser.add_argument("--lock", action="store_true", help="only rewrite npm/package-lock.json")
    options = parser.parse_args(words)
    if unknown := set(options.only) - set(known):
        parser.error(f"{', '.join(sorted(unknown))}: what can be measured is {', '.join(known)}")
    return options


def _measured(
    server: BenchmarkServer, installation: Installation, plan: Plan, competitors: Sequence[Competitor]
) -> Results:
    comparison = Comparison(server, installation, plan.enqueue_within_s)
    results = Results(competitors)
    for _ in range(plan.enqueue_rounds):
        for competitor in competitors:
            rate = comparison.enqueue_rate(competitor, plan.jobs[0])
            _log(competitor, "enqueue", rate)
            results.note_enqueue(competitor, rate)
    for jobs in plan.jobs:
        for in_round, processes in product(range(plan.rounds), plan.processes):
            case = Case(jobs, processes)
            order = [competitor for competitor in competitors if plan.takes_part(competitor, case, in_round, results)]
            random.Random(in_round).shuffle(order)  # noqa: S311 - so that the order favours no queue
            for competitor in order:
                found = comparison.drain(competitor, jobs, processes, plan.within_s(jobs))
                _log(competitor, f"{jobs:,} jobs, {processes_in_words(processes)}, round {in_round + 1}", found)
                results.note_drain(competitor, case, in_round, found)
        for competitor in competitors:
            comparison.drop_template(competitor, jobs)
    return results


def _log(competitor: Competitor, what: str, found: Drain | Failed | float) -> None:
    if isinstance(found, Failed):
        text = found.why
    elif isinstance(found, Drain):
        text = f"{found.rate:,.0f}/s, {found.others_cpus:.1f} CPUs busy elsewhere"
    else:
        text = f"{found:,.0f}/s"
    print(f"{datetime.now(UTC):%H:%M:%S} {competitor.name}: {what}: {text}", file=sys.stderr, flush=True)


def _report(results: Results, plan: Plan, installation: Installation, about: str, took_s: float) -> str:
    kept = thresholds(results)
    tables = [
        *([thresholds_table(kept)] if kept else []),
        queue_table(results.competitors, lambda competitor: installation.versions(competitor.packages)).markdown(),
        enqueue_table(results, plan.jobs[0]).markdown(),
    ]
    for jobs in plan.jobs:
        if any(case.jobs == jobs for _, case in results.drains):
            tables.append(drain_table(results, jobs, plan.processes).markdown())
            tables.append(f"![Jobs per second, {jobs:,} jobs](benchmarks/{_plot_name(jobs)})\n")
            tables.append(cost_table(results, jobs, plan.processes).markdown())
    remarks = [f"- {remark}\n" for remark in results.unfinished()]
    closing = (
        f"Took {took_s / 60:.0f} min. CPUs that were busy with something else meanwhile:"
        f" {spread(results.busy_elsewhere())}; at the end: {conditions()}.\n"
    )
    return "\n".join([_introduction(plan, about), *tables, "".join(remarks), closing])


def _report_ordinary(table: Table, about: str, took_s: float, *, is_whole: bool) -> None:
    parts = [
        f"## At ordinary rates, beside others\n\n{about}\n",
        table.markdown(),
        *([thresholds_table(table.thresholds)] if table.thresholds else []),
        f"Took {took_s:.0f} s; at its end: {conditions()}.\n",
    ]
    text = "\n".join(parts)
    print(text)
    if is_whole:
        write_section(ORDINARY, text)


def _introduction(plan: Plan, about: str) -> str:
    durable = ", ".join(f"{name} {value}" for name, value in SETTINGS.items())
    return (
        f"## wakeboard and other job queues\n\n{about}\n\n"
        f"`{COMMAND}` installs them and measures all in turn, each in databases of its own on one server ({durable})."
        " Each drain begins with a copy of a database into which the queue has enqueued its jobs, vacuumed, analysed"
        f" and in memory; jobs do nothing. {plan.rounds} rounds, in an order that changes; {plan.slow_rounds} for a"
        f" queue that does less than {plan.slow_rate:,.0f} jobs/s with one process, and none with more than"
        f" {plan.jobs[0]:,} jobs for one that does less than {plan.too_slow_rate:,.0f}. A drain is stopped after"
        f" {' or '.join(f'{plan.within_s(jobs):.0f} s ({jobs:,} jobs)' for jobs in plan.jobs)}.\n"
    )


def _write_plots(results: Results, plan: Plan) -> None:
    PLOTS.mkdir(exist_ok=True)
    for jobs in plan.jobs:
        if any(case.jobs == jobs for _, case in results.drains):
            plot = PLOTS / _plot_name(jobs)
            plot.write_text(drain_plot(results, jobs, plan.processes), encoding="utf-8")
            print(f"written to docs/benchmarks/{plot.name}")


def _plot_name(jobs: int) -> str:
    return f"drain-{jobs}.svg"


if __name__ == "__main__":
    sys.exit(main())
