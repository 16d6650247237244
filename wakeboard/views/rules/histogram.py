"""Histograms of durations with fixed logarithmic buckets, as the table `run_rollups` stores them.

Bucket 0 holds up to 1 ms, bucket n what is above 2^((n-1)/8) ms and up to 2^(n/8) ms. Because the buckets are fixed,
histograms of several periods are added without a further loss of precision.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

BUCKETS_PER_DOUBLING: Final = 8
MAX_RELATIVE_ERROR: Final = 2 ** (1 / (2 * BUCKETS_PER_DOUBLING)) - 1  # 4.4 %, of a quantile of 1 ms or more


@dataclass(frozen=True, slots=True)
class Histogram:
    """How many durations each bucket holds."""

    counts: Mapping[int, int] = field(default_factory=dict[int, int])

    @classmethod
    def from_columns(cls, buckets: Sequence[int] | None, counts: Sequence[int] | None) -> Histogram:
        """From two columns of equal lengths. None: no durations."""
        return cls(dict(zip(buckets or (), counts or (), strict=True)))

    @property
    def total(self) -> int:
        """The number of durations."""
        return sum(self.counts.values())

    def quantile(self, share: float) -> float | None:
        """Seconds that this share (above 0, up to 1) of the durations did not exceed. None if there are none.

        It differs by at most MAX_RELATIVE_ERROR from the exact value (the nearest rank), or by 1 ms below 1 ms.
        """
        rank = math.ceil(share * self.total)
        for bucket, count in sorted(self.counts.items()):
            rank -= count
            if rank <= 0:
                return middle_s(bucket)
        return None


def merged(histograms: Iterable[Histogram]) -> Histogram:
    """The histogram of the durations of all."""
    counts: dict[int, int] = {}
    for histogram in histograms:
        for bucket, count in histogram.counts.items():
            counts[bucket] = counts.get(bucket, 0) + count
    return Histogram(counts)


def middle_s(bucket: int) -> float:
    """The geometric middle of a bucket in seconds; of bucket 0 its upper end."""
    return 2 ** ((bucket - 0.5) / BUCKETS_PER_DOUBLING) / 1000 if bucket else 0.001
