"""How much is measured."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final


@dataclass(frozen=True, slots=True)
class Crowd:
    """Rows besides those that are claimed."""

    finished: int
    future: int
    in_flight: int
    limited: int  # due, behind a limit
    unknown: int  # due, of a type that the worker does not know


@dataclass(frozen=True, slots=True)
class Plan:
    """Sizes and repetitions of one run of the benchmark."""

    repetitions: int = 5
    few_repetitions: int = 3  # of what takes long
    drains: tuple[int, ...] = (50_000, 300_000)  # runs
    processes: tuple[int, ...] = (1, 2, 4)
    handled: int = 200_000  # runs for each kind of handler
    requests: int = 10_000  # runs that call a receiver
    crowd: Crowd = Crowd(1_000_000, 100_000, 10_000, 100_000, 200_000)
    claims: int = 15  # of 100 due rows
    pinned_s: float = 8.0  # under load, with a snapshot held open
    pinned_load: int = 0  # runs/s until then; 0: as many as a worker can take
    bulk: int = 100_000  # runs enqueued by enqueue_many
    singles: int = 1_000  # runs enqueued one by one
    feed_s: float = 6.0  # of 50 runs a second
    ordinary_s: float = 20.0  # of each ordinary rate
    definitions: int = 100_000  # due in the same minute
    many: int = 1_000_000  # schedules, for pages and commands, and with ticks spread over the hour
    spread_s: float = 300.0  # of these ticks
    resources: int = 10_000  # JobSchedules in a cluster
    jobs: int = 1_000  # Kubernetes Jobs that run at the same time
    lags: int = 40  # edits and transitions, one after another
    graph: int = 10_000  # schedules that run after others
    throttled: int = 100_000  # runs behind one rate limit
    backfill: int = 10_000  # ticks
    planned: int = 10_000  # schedules of a folder that `wakeboard plan` compares


QUICK: Final = Plan(
    repetitions=2,
    few_repetitions=1,
    drains=(10_000, 50_000),
    handled=20_000,
    requests=2_000,
    crowd=Crowd(50_000, 20_000, 1_000, 5_000, 10_000),
    claims=5,
    pinned_s=2.0,
    bulk=50_000,
    singles=300,
    feed_s=4.0,
    ordinary_s=5.0,
    definitions=20_000,
    many=100_000,
    spread_s=20.0,
    resources=500,
    jobs=100,
    lags=10,
    graph=1_000,
    throttled=20_000,
    backfill=2_000,
    planned=1_000,
)
LARGE: Final = replace(
    Plan(),
    repetitions=3,
    few_repetitions=1,
    drains=(3_000_000,),
    crowd=Crowd(10_000_000, 1_000_000, 10_000, 100_000, 200_000),
    pinned_s=600.0,
    pinned_load=10_000,
)
