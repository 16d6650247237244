"""What a job costs at the rates that most installations have, beside other queues."""

from __future__ import annotations

from datetime import UTC, datetime
from sys import stderr
from typing import TYPE_CHECKING, Final

from bench.competitors.catalogue import OUR_NAME, YARDSTICK
from bench.competitors.comparison import Failed
from bench.ordinary import HEAD, PER_SECOND, Cost, spreads
from bench.tables import Table, at_most

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from bench.competitors.catalogue import Competitor
    from bench.competitors.comparison import Comparison
    from bench.competitors.plan import Plan
    from bench.tables import Threshold

RIVAL: Final = "graphile-worker"
RATE: Final = 50  # jobs a second, for the thresholds
LATENESS: Final = 1.2  # times the bare loop's

_Found = dict[tuple[str, int], list[Cost]]


def measure_ordinary_rates(comparison: Comparison, plan: Plan, competitors: Sequence[Competitor]) -> Table:
    """The queues in turn, at each rate."""
    taking_part = [competitor for competitor in competitors if competitor.enqueue_one]
    found: _Found = {}
    for _ in range(plan.ordinary_rounds):
        for rate in PER_SECOND:
            for competitor in taking_part:
                cost = comparison.cost_at(competitor, rate, plan.ordinary_s)
                print(f"{datetime.now(UTC):%H:%M:%S} {competitor.name}: {rate}/s: {cost}", file=stderr, flush=True)
                if not isinstance(cost, Failed):
                    found.setdefault((competitor.name, rate), []).append(cost)
    return Table(
        title="Ordinary rates",
        note=f"{plan.ordinary_rounds} times each, in turn, {plan.ordinary_s:.0f} s. One worker that stays; no-op jobs,"
        " enqueued one by one at a steady pace by one SQL statement each. Transactions: without the enqueue. CPU of the"
        " server includes it. Lateness: from just before the enqueue, its durable commit included, to the start of the"
        " job. The bare loop neither leases nor keeps history; it claims and finishes in one statement.",
        head=("jobs/s", "queue", *HEAD),
        rows=[
            (f"{rate:,}", each.name, *spreads(found[each.name, rate]))
            for rate in PER_SECOND
            for each in taking_part
            if (each.name, rate) in found
        ],
        thresholds=_thresholds(found),
    )


def _thresholds(found: _Found) -> list[Threshold]:
    def ratios(other: str, figure: Callable[[Cost], float]) -> list[float]:
        ours, theirs = (found.get((name, RATE), []) for name in (OUR_NAME, other))
        return [figure(us) / figure(it) for us, it in zip(ours, theirs, strict=False)]

    bounds: tuple[tuple[str, str, float, Callable[[Cost], float]], ...] = (
        (RIVAL, "CPU of worker and server", 1.0, lambda cost: cost.worker_ms + cost.server_ms),
        (YARDSTICK, "lateness, p50", LATENESS, lambda cost: cost.p50_ms),
    )
    return [
        at_most(f"{RATE} jobs/s: {what}, times that of {other}", bound, measured)
        for other, what, bound, figure in bounds
        if (measured := ratios(other, figure))
    ]
