"""How much is measured, and which queue takes part in what."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from bench.competitors.results import Case

if TYPE_CHECKING:
    from bench.competitors.catalogue import Competitor
    from bench.competitors.results import Results


@dataclass(frozen=True, slots=True)
class Plan:
    """Sizes, rounds and bounds. In a round each queue drains each case once, in turn."""

    rounds: int = 5
    slow_rounds: int = 2  # of slow queues
    jobs: tuple[int, ...] = (50_000, 300_000)
    processes: tuple[int, ...] = (1, 2, 4)
    ordinary_rounds: int = 3
    ordinary_s: float = 20.0  # of each ordinary rate
    enqueue_rounds: int = 2
    enqueue_within_s: float = 120.0
    slow_rate: float = 25_000.0  # jobs per second with one process
    too_slow_rate: float = 12_500.0  # for the longer queues
    least_s: float = 10.0  # of a drain, before it is stopped
    least_rate: float = 15_000.0  # jobs per second; where that takes longer, a drain may

    def within_s(self, jobs: int) -> float:
        """When a drain is stopped; jobs that are unfinished then do not count."""
        return max(self.least_s, jobs / self.least_rate)

    def takes_part(self, competitor: Competitor, case: Case, in_round: int, results: Results) -> bool:
        """Whether a queue drains this case in this round."""
        fast = _reaches(results, competitor, Case(case.jobs, 1), self.slow_rate)
        if not fast and in_round >= self.slow_rounds:
            return False
        shorter = [jobs for jobs in self.jobs if jobs < case.jobs]
        return not shorter or _reaches(results, competitor, Case(max(shorter), 1), self.too_slow_rate)


QUICK = Plan(
    rounds=1, jobs=(5_000, 20_000), processes=(1, 2), ordinary_rounds=1, ordinary_s=5.0, enqueue_rounds=1, least_s=4.0
)


def _reaches(results: Results, competitor: Competitor, case: Case, rate: float) -> bool:
    """Whether it came to an end at this rate, at least once so far. True before the first round."""
    if (competitor.name, case) not in results.drains:
        return True
    return any(drain.complete and drain.rate >= rate for drain in results.of(competitor.name, case))
