"""How much is measured."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Plan:
    """Sizes and repetitions of one run of the benchmark."""

    repetitions: int = 5
    short_drain: int = 50_000  # runs
    long_drain: int = 300_000  # runs
    bulk: int = 100_000  # runs enqueued by enqueue_many
    singles: int = 1_000  # runs enqueued one by one
    feed_s: float = 10.0  # of 50 runs a second
    definitions: int = 100_000  # due in the same minute
    resources: int = 10_000  # JobSchedules in a cluster
    lags: int = 100  # edits and transitions, one after another


QUICK = Plan(
    repetitions=2,
    short_drain=10_000,
    long_drain=50_000,
    bulk=50_000,
    singles=300,
    feed_s=4.0,
    definitions=20_000,
    resources=500,
    lags=10,
)
