"""How much is measured, and who takes part in what."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from bench.rivals.results import Case

if TYPE_CHECKING:
    from bench.rivals.catalogue import Rival
    from bench.rivals.results import Results


@dataclass(frozen=True, slots=True)
class Plan:
    """Sizes, rounds and bounds. In a round each queue drains each case once, in turn."""

    rounds: int = 5
    jobs: tuple[int, ...] = (50_000, 300_000)
    processes: tuple[int, ...] = (1, 2, 4)
    enqueue_rounds: int = 3
    drain_within_s: float = 15.0  # for each 300,000 jobs; what is not done then does not count
    enqueue_within_s: float = 120.0
    slow_s: float = 6.0  # whoever takes longer for a case
    slow_rounds: int = 2  # drains it in so many rounds only, and sits out the longer queues

    def within_s(self, jobs: int) -> float:
        """The bound of a drain."""
        return self.drain_within_s * max(1.0, jobs / 300_000)

    def takes_part(self, rival: Rival, case: Case, in_round: int, results: Results) -> bool:
        """Whether a queue drains this case in this round."""
        if in_round >= self.slow_rounds and _is_slow(results, rival, case, self.slow_s * case.jobs / self.jobs[0]):
            return False
        shorter = [jobs for jobs in self.jobs if jobs < case.jobs]
        return not shorter or not _is_slow(results, rival, Case(max(shorter), 1), self.slow_s)


QUICK = Plan(rounds=1, jobs=(5_000, 20_000), processes=(1, 2), enqueue_rounds=1, drain_within_s=5.0)


def _is_slow(results: Results, rival: Rival, case: Case, slow_s: float) -> bool:
    """Whether it failed, or took longer than that, in any round so far."""
    rounds = results.drains.get((rival.name, case), {})
    drains = results.of(rival.name, case)
    return len(drains) < len(rounds) or any(not drain.complete or drain.seconds > slow_s for drain in drains)
