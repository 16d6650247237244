"""The measurements of each queue, and the tables and plots that show them."""

from __future__ import annotations

import statistics
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from bench.bar_chart import Bar, Group, bar_chart
from bench.competitors.catalogue import OUR_NAME, YARDSTICK
from bench.competitors.comparison import Failed
from bench.drains import Drain
from bench.tables import Table, at_least, number, spread

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from bench.tables import Threshold
from bench.competitors.catalogue import Competitor

NOTHING: Final = "-"
THRESHOLDS: Final = {
    ("graphile-worker", 50_000, 1): 2.0,
    ("graphile-worker", 50_000, 2): 2.0,
    ("graphile-worker", 300_000, 1): 2.0,
    ("graphile-worker", 300_000, 2): 1.5,
    (YARDSTICK, 50_000, 1): 0.8,
    (YARDSTICK, 50_000, 2): 0.8,
    (YARDSTICK, 300_000, 1): 0.8,
    (YARDSTICK, 300_000, 2): 0.8,
}
WHY: Final = "[what bounds it](decisions/0012-cost-of-a-no-op-run.md)"


class Case(NamedTuple):
    """So many jobs, drained by so many processes."""

    jobs: int
    processes: int


def processes_in_words(processes: int) -> str:
    """`1 process`, `2 processes`."""
    return f"{processes} process{'es' if processes > 1 else ''}"


@dataclass(slots=True)
class Results:
    """By queue: each round's drain of each case, and rates of enqueueing. Cases without the queue are missing."""

    competitors: Sequence[Competitor]
    drains: dict[tuple[str, Case], dict[int, Drain | Failed]] = field(default_factory=dict[Any, Any])  # by round
    enqueued: dict[str, list[float | Failed]] = field(default_factory=dict[Any, Any])

    def note_drain(self, competitor: Competitor, case: Case, in_round: int, found: Drain | Failed) -> None:
        """Keeps what a round found."""
        self.drains.setdefault((competitor.name, case), {})[in_round] = found

    def note_enqueue(self, competitor: Competitor, found: float | Failed) -> None:
        """Keeps a rate of enqueueing."""
        self.enqueued.setdefault(competitor.name, []).append(found)

    def of(self, name: str, case: Case) -> list[Drain]:
        """What this queue did."""
        return [found for found in self.drains.get((name, case), {}).values() if isinstance(found, Drain)]

    def ratios(self, name: str, case: Case) -> list[float]:
        """Our rate by its rate, round by round."""
        ours, theirs = self.drains.get((OUR_NAME, case), {}), self.drains.get((name, case), {})
        pairs = [(ours.get(each), found) for each, found in theirs.items()]
        return [us.rate / it.rate for us, it in pairs if isinstance(us, Drain) and isinstance(it, Drain)]

    def busy_elsewhere(self) -> list[float]:
        """CPUs that were busy with something else, in each drain."""
        found = (drain for rounds in self.drains.values() for drain in rounds.values())
        return [drain.others_cpus for drain in found if isinstance(drain, Drain)] or [0.0]

    def unfinished(self) -> list[str]:
        """A sentence for each case that a queue did not finish."""
        sentences: list[str] = []
        for (name, case), rounds in self.drains.items():
            failed = [found for found in rounds.values() if isinstance(found, Failed)]
            late = [found for found in rounds.values() if isinstance(found, Drain) and not found.complete]
            what = f"{name}, {case.jobs:,} jobs, {processes_in_words(case.processes)}"
            if failed:
                sentences.append(f"{what}: {len(failed)} of {len(rounds)} drains failed: {failed[-1].why}")
            if late:
                done = f"{statistics.median(found.runs for found in late):,.0f}"
                sentences.append(f"{what}: stopped when the time was over, with {done} jobs done; the rate is theirs")
        return sentences


def queue_table(competitors: Sequence[Competitor], versions: Callable[[Competitor], str]) -> Table:
    """The queues, and what each one does for its jobs."""
    return Table(
        title="What is compared",
        note="Each at the best settings that it documents. A fence prevents a worker that lost a job (it was frozen,"
        " its lease expired, another worker runs the job) from completing it.",
        head=("queue", "settings", "left of a finished job", "fence"),
        rows=[
            (
                f"{competitor.name} ({versions(competitor)})" if competitor.packages else competitor.name,
                competitor.settings,
                competitor.keeps,
                competitor.fence,
            )
            for competitor in competitors
        ],
    )


def drain_table(results: Results, jobs: int, processes: Sequence[int]) -> Table:
    """Rates, and how many times as fast we are."""
    cases = [Case(jobs, each) for each in processes]
    took_part = [
        competitor
        for competitor in results.competitors
        if any((competitor.name, case) in results.drains for case in cases)
    ]
    return Table(
        title=f"{jobs:,} jobs",
        note="Jobs per second, from the first job's start until none is left. Ratio: how many times as fast wakeboard"
        " was in the same rounds.",
        head=(
            "queue",
            *(processes_in_words(each) for each in processes),
            *(f"ratio, {processes_in_words(each)}" for each in processes),
        ),
        rows=[
            (
                competitor.name,
                *(_spread([drain.rate for drain in results.of(competitor.name, case)]) for case in cases),
                *(
                    _spread(results.ratios(competitor.name, case)) if competitor.name != OUR_NAME else ""
                    for case in cases
                ),
            )
            for competitor in took_part
        ],
    )


def cost_table(results: Results, jobs: int, processes: Sequence[int]) -> Table:
    """What a job cost."""
    cases = [Case(jobs, each) for each in processes]
    took_part = [
        competitor for competitor in results.competitors if any(results.of(competitor.name, case) for case in cases)
    ]

    def each(competitor: Competitor, figure: Callable[[Drain], float]) -> str:
        found = [[figure(drain) for drain in results.of(competitor.name, case)] for case in cases]
        return " / ".join(number(statistics.median(values)) if values else NOTHING for values in found)

    return Table(
        title=f"Cost of a job, {jobs:,} jobs",
        note=f"Medians with {' / '.join(map(str, processes))} processes. CPU includes the start and the end of the"
        " processes. Start: from the exec of a process to its first job.",
        head=("queue", "worker CPU µs", "server CPU µs", "WAL B", "peak MB", "start s"),
        rows=[
            (
                competitor.name,
                each(competitor, lambda drain: drain.worker_cpu_us),
                each(competitor, lambda drain: drain.server_cpu_us),
                each(competitor, lambda drain: drain.wal_bytes),
                each(competitor, lambda drain: drain.peak_mb),
                each(competitor, lambda drain: drain.start_s),
            )
            for competitor in took_part
        ],
    )


def enqueue_table(results: Results, jobs: int) -> Table:
    """Rates of enqueueing in bulk."""
    rows: list[tuple[str, str]] = []
    for name, found in results.enqueued.items():
        rates = [rate for rate in found if not isinstance(rate, Failed)]
        failed = [rate.why for rate in found if isinstance(rate, Failed)]
        rows.append((name, "; ".join([_spread(rates), *failed[-1:]]) if rates else failed[-1]))
    return Table(
        title="Enqueueing in bulk",
        note=f"Jobs per second, {jobs:,} from one connection that is open already, by each queue's own bulk call.",
        head=("queue", "jobs/s"),
        rows=rows,
    )


def thresholds(results: Results) -> list[Threshold]:
    """Of the bounds that were measured, whether they are kept."""
    return [
        at_least(
            f"times as fast as {name}: {jobs:,} jobs, {processes_in_words(processes)}",
            bound,
            results.ratios(name, Case(jobs, processes)),
            WHY,
        )
        for (name, jobs, processes), bound in THRESHOLDS.items()
        if results.ratios(name, Case(jobs, processes))
    ]


def drain_plot(results: Results, jobs: int, processes: Sequence[int]) -> str:
    """The drain table as SVG."""
    groups: list[Group] = []
    for competitor in results.competitors:
        rates = [[drain.rate for drain in results.of(competitor.name, Case(jobs, each))] for each in processes]
        if any(rates):
            bars = [Bar(statistics.median(each), min(each), max(each)) if each else None for each in rates]
            groups.append(Group(competitor.name, bars))
    title = f"{jobs:,} no-op jobs: jobs per second"
    return bar_chart(title, [processes_in_words(each) for each in processes], groups)


def _spread(values: Sequence[float]) -> str:
    return spread(values) if values else NOTHING
