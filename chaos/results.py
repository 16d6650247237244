"""What a campaign found, as data: added up over campaigns, sent from process to process as JSON."""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from dataclasses import asdict, dataclass, field, fields
from typing import Any, Final

UNDONE: Final = "the campaign itself works"  # the promise that a fault breaks which cannot be done
EDGES_S: Final = (0.01, 0.03, 0.1, 0.3, 1.0, 3.0, 10.0, 30.0, 100.0)


@dataclass(frozen=True, slots=True)
class Violation:
    """A promise that did not hold. `sort`: lost, doubled, or other."""

    sort: str
    promise: str
    detail: str


@dataclass(slots=True)
class Recovery:
    """After one fault that struck alone, in seconds.

    `serves`: from its end until a run enqueued then had succeeded. `claimable`: from its begin until the last lease
    lost by it was taken back (None: none was). `again`: from there until the last of those runs was running again.
    """

    kind: str
    serves: float | None = None
    claimable: float | None = None
    again: float | None = None


@dataclass(slots=True)
class Result:
    """One campaign, or several added up."""

    seeds: list[int] = field(default_factory=list[int])
    faults: int = 0
    struck: Counter[str] = field(default_factory=Counter[str])
    missed: Counter[str] = field(default_factory=Counter[str])  # there was nothing to hit at that moment
    left_out: Counter[str] = field(default_factory=Counter[str])  # cannot be done on this machine
    counts: Counter[str] = field(default_factory=Counter[str])
    run_lateness: list[int] = field(default_factory=lambda: [0] * (len(EDGES_S) + 1))
    tick_lateness: list[int] = field(default_factory=lambda: [0] * (len(EDGES_S) + 1))
    lapse_lateness: list[int] = field(default_factory=lambda: [0] * (len(EDGES_S) + 1))
    recoveries: list[Recovery] = field(default_factory=list["Recovery"])
    drained_s: list[float] = field(default_factory=list[float])
    violations: list[Violation] = field(default_factory=list["Violation"])
    remarks: Counter[str] = field(default_factory=Counter[str])
    clock_off_h: float = 0.0  # by how much the clock of a worker that had an effect was wrong, at most
    about: str = ""
    seconds: float = 0.0

    def of_sort(self, sort: str) -> list[Violation]:
        """The violations of one sort."""
        return [violation for violation in self.violations if violation.sort == sort]

    def add(self, other: Result) -> None:
        """Adds another one to this."""
        self.seeds += other.seeds
        self.faults += other.faults
        for mine, theirs in (
            (self.struck, other.struck),
            (self.missed, other.missed),
            (self.left_out, other.left_out),
            (self.counts, other.counts),
            (self.remarks, other.remarks),
        ):
            mine.update(theirs)
        self.run_lateness = _added(self.run_lateness, other.run_lateness)
        self.tick_lateness = _added(self.tick_lateness, other.tick_lateness)
        self.lapse_lateness = _added(self.lapse_lateness, other.lapse_lateness)
        self.recoveries += other.recoveries
        self.drained_s += other.drained_s
        self.violations += other.violations
        self.clock_off_h = max(self.clock_off_h, other.clock_off_h)
        self.about = other.about or self.about
        self.seconds = max(self.seconds, other.seconds)

    def to_json(self) -> dict[str, Any]:
        """As JSON."""
        plain = {item.name: getattr(self, item.name) for item in fields(self)}
        plain["recoveries"] = [asdict(one) for one in self.recoveries]
        plain["violations"] = [asdict(one) for one in self.violations]
        return plain

    @classmethod
    def from_json(cls, given: dict[str, Any]) -> Result:
        """What `to_json` gave."""
        values = dict(given)
        for name in ("struck", "missed", "left_out", "counts", "remarks"):
            values[name] = Counter[str](given[name])
        values["recoveries"] = [Recovery(**one) for one in given["recoveries"]]
        values["violations"] = [Violation(**one) for one in given["violations"]]
        return cls(**values)


def _added(ones: list[int], others: list[int]) -> list[int]:
    return [one + other for one, other in zip(ones, others, strict=True)]


def bucket(seconds: float) -> int:
    """Where in a histogram it belongs."""
    return bisect_left(EDGES_S, seconds)
