"""A Prometheus histogram of runs by namespace and queue, with a bounded number of labels.

prometheus_client observes one value at a time. The operator reads how many runs fell into each bucket, and adds them.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from prometheus_client.core import HistogramMetricFamily

from wakeboard.views.queries.finished_runs import EDGES_S

if TYPE_CHECKING:
    from collections.abc import Iterator

    from prometheus_client import CollectorRegistry

MAX_PAIRS: Final = 50  # of a namespace and a queue; the runs of others are counted as `other`
OTHER: Final = ("other", "other")
LABELS: Final = ("namespace", "queue")


@dataclass(slots=True)
class _Counted:
    runs: list[int] = field(default_factory=lambda: [0] * (len(EDGES_S) + 1))
    sum_s: float = 0.0


class RunHistogram:
    """How many runs fell into each bucket since the start of this operator."""

    def __init__(self, name: str, documentation: str, registry: CollectorRegistry) -> None:
        self.name, self.documentation = name, documentation
        self._counted: dict[tuple[str, str], _Counted] = {}
        registry.register(self)  # pyright: ignore[reportArgumentType]

    def add(self, namespace: str, queue: str, bucket: int, runs: int, sum_s: float) -> None:
        """Adds runs of a bucket: it is the number of edges that are not above them."""
        pair = (namespace, queue)
        if pair not in self._counted and len(self._counted) >= MAX_PAIRS:
            pair = OTHER
        counted = self._counted.setdefault(pair, _Counted())
        counted.runs[bucket] += runs
        counted.sum_s += sum_s

    def describe(self) -> Iterator[HistogramMetricFamily]:
        """The family without samples."""
        yield HistogramMetricFamily(self.name, self.documentation, labels=LABELS)

    def collect(self) -> Iterator[HistogramMetricFamily]:
        """The family, for the registry."""
        (family,) = self.describe()
        for pair, counted in self._counted.items():
            edges = [*map(str, EDGES_S), "+Inf"]
            below = 0
            buckets = [(edge, float(below := below + runs)) for edge, runs in zip(edges, counted.runs, strict=True)]
            family.add_metric(pair, buckets, counted.sum_s)
        yield family
