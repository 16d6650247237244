"""What a campaign found, as data. Results are added up over campaigns and sent between processes as JSON."""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from dataclasses import dataclass, field
from typing import Final

from pydantic import TypeAdapter

UNDONE: Final = "the campaign itself works"  # the invariant that a failed injection violates
EDGES_S: Final = (0.01, 0.03, 0.1, 0.3, 1.0, 3.0, 10.0, 30.0, 100.0)
COUNTERS: Final = ("injected", "no_target", "skipped", "counts", "log_lines")
HISTOGRAMS: Final = ("run_lateness", "tick_lateness", "reap_lateness")


@dataclass(frozen=True, slots=True)
class Violation:
    """An invariant that did not hold. `category`: lost, doubled, or other."""

    category: str
    invariant: str
    detail: str


@dataclass(slots=True)
class Recovery:
    """After one isolated fault, in seconds.

    `serves`: from its end until a run that was enqueued then has succeeded. `claimable`: from its start until the last
    lease that was lost by it is reaped; None if none was. `again`: from there until the last of those runs is claimed.
    """

    fault: str
    serves: float | None = None
    claimable: float | None = None
    again: float | None = None


def _histogram() -> list[int]:
    return [0] * (len(EDGES_S) + 1)


@dataclass(slots=True)
class Result:
    """One campaign, or the sum of several."""

    seeds: list[int] = field(default_factory=list[int])
    faults: int = 0
    injected: Counter[str] = field(default_factory=Counter[str])
    no_target: Counter[str] = field(default_factory=Counter[str])  # there was nothing to hit at that moment
    skipped: Counter[str] = field(default_factory=Counter[str])  # this machine cannot inject it
    counts: Counter[str] = field(default_factory=Counter[str])
    run_lateness: list[int] = field(default_factory=_histogram)
    tick_lateness: list[int] = field(default_factory=_histogram)
    reap_lateness: list[int] = field(default_factory=_histogram)
    recoveries: list[Recovery] = field(default_factory=list["Recovery"])
    drained_s: list[float] = field(default_factory=list[float])
    violations: list[Violation] = field(default_factory=list["Violation"])
    log_lines: Counter[str] = field(default_factory=Counter[str])
    clock_error_h: float = 0.0  # the largest one of a worker that had an effect
    about: str = ""
    seconds: float = 0.0

    def in_category(self, category: str) -> list[Violation]:
        """The violations of one category."""
        return [violation for violation in self.violations if violation.category == category]

    def add(self, other: Result) -> None:
        """Adds another result to this one."""
        self.seeds += other.seeds
        self.faults += other.faults
        for name in COUNTERS:
            getattr(self, name).update(getattr(other, name))
        for name in HISTOGRAMS:
            setattr(self, name, list(map(sum, zip(getattr(self, name), getattr(other, name), strict=True))))
        self.recoveries += other.recoveries
        self.drained_s += other.drained_s
        self.violations += other.violations
        self.clock_error_h = max(self.clock_error_h, other.clock_error_h)
        self.about = other.about or self.about
        self.seconds = max(self.seconds, other.seconds)


RESULT: Final = TypeAdapter(Result)  # to and from JSON


def bucket(seconds: float) -> int:
    """The index of a value in a histogram."""
    return bisect_left(EDGES_S, seconds)
