"""One state of declared schedules, and the ticks that it has in a period, by the scheduler's own rules.

A period is two instants, of which the second is not part. Ticks are bits: bit n is the second or the minute n of the
period. A schedule has the ticks of its cron expression, interval or moment. One that runs after others has those that
all of them have (`ticks: Same`), as if every run succeeded. A suspended schedule has none, and so has one that waits
for a schedule that is missing, has no ticks itself or waits for it.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeAlias

from wakeboard.dependencies.rules.graph import edges_in_cycles
from wakeboard.ticks.clock_change_notes import clock_change_effects
from wakeboard.ticks.tick_load import TickRule
from wakeboard.ticks.ticks import seconds_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from wakeboard.schedules.rules.job_schedule import JobSchedule

_YEAR: Final = 366 * 86_400  # seconds
Key: TypeAlias = "tuple[str, str]"  # namespace, name

SECOND: Final = 1
MINUTE: Final = 60


@dataclass(frozen=True)
class State:
    """The schedules and the limits (rows of `declare_limits`, by key) that a folder, a revision or a source declares.

    `invalid`: schedules that are declared and cannot be used as written. `problems`: why, in sentences that begin with
    `file:line`. `complete`: False if a part could not be read, which may declare more. `name`: as the user writes it.
    """

    name: str = ""
    schedules: Mapping[Key, JobSchedule] = field(default_factory=dict[Key, "JobSchedule"])
    limits: Mapping[str, Mapping[str, Any]] = field(default_factory=dict[str, dict[str, Any]])
    invalid: frozenset[Key] = frozenset()
    problems: tuple[str, ...] = ()
    complete: bool = True

    @property
    def is_empty(self) -> bool:
        """It declares nothing, and nothing in it is wrong."""
        return not (self.schedules or self.limits or self.problems)


NOTHING: Final = State()


def parents_of(schedule: JobSchedule) -> list[Key]:
    """The schedules that it runs after."""
    return [(schedule.metadata.namespace, entry.schedule) for entry in schedule.spec.after or ()]


class ScheduleTicks(NamedTuple):
    """The ticks of one schedule as bits that stand for `unit` seconds: MINUTE, unless a tick is between two minutes.

    `can_run` False: it can never have any. It is suspended or has no timing, or that is so of what it waits for.
    """

    unit: int
    bits: int
    can_run: bool

    def in_units(self, unit: int) -> int:
        """The bits for `unit` seconds each: MINUTE only if that is their own unit, too."""
        return self.bits if self.unit == unit else seconds_of(self.bits)


NEVER: Final = ScheduleTicks(MINUTE, 0, can_run=False)


class StateTicks:
    """The ticks of the schedules of one state in a period. `like`: those of a state with which it shares schedules.

    `rules`: what determines the ticks of each schedule that has own ones. `cycles`: the pairs of a schedule and one
    that it runs after that wait for each other.
    """

    def __init__(self, state: State, begin: int, end: int, *, like: StateTicks | None = None) -> None:
        self.schedules = state.schedules
        self._begin = begin
        self._end = end
        known: dict[int, TickRule | None] = {}
        if like is not None:
            known = {id(each): like.rules.get(key) for key, each in like.schedules.items()}
        self.rules: dict[Key, TickRule] = {}
        for key, each in self.schedules.items():
            rule = known[id(each)] if id(each) in known else _own_rule(each)
            if rule is not None:
                self.rules[key] = rule
        self.cycles = self._edges_in_cycles()
        self._known: dict[Key, ScheduleTicks] = {}

    def count(self, key: Key) -> int:
        """How many ticks it has."""
        if rule := self.rules.get(key):
            return _count(rule, self._begin, self._end)
        return self.of(key).bits.bit_count()

    def load(self) -> Counter[TickRule]:
        """How many schedules have each rule."""
        return Counter(self.rules.values())

    def load_of_limits(self) -> dict[str, Counter[TickRule]]:
        """As `load`, by limit key."""
        found: dict[str, Counter[TickRule]] = {}
        for key, rule in self.rules.items():
            if limit_key := self.schedules[key].spec.limit_key:
                found.setdefault(limit_key, Counter())[rule] += 1
        return found

    def of(self, key: Key) -> ScheduleTicks:
        """What is known of it. Parents come first, without recursion, because a chain may be long."""
        if rule := self.rules.get(key):
            return _own_ticks(rule, self._begin, self._end)
        stack = [key]
        while stack:
            each = stack[-1]
            unknown = [parent for parent in self._waits_for(each) if parent not in self._known]
            if not unknown:
                self._known[stack.pop()] = self._joined(each)
            stack += unknown
        return self._known[key]

    def _waits_for(self, key: Key) -> Iterator[Key]:
        """The schedules that it runs after, without those that run after it."""
        schedule = self.schedules.get(key)
        if schedule is not None and not schedule.spec.suspend:
            yield from (parent for parent in parents_of(schedule) if (key, parent) not in self.cycles)

    def _joined(self, key: Key) -> ScheduleTicks:
        if rule := self.rules.get(key):
            return _own_ticks(rule, self._begin, self._end)
        schedule = self.schedules.get(key)
        if schedule is None or schedule.spec.suspend or not schedule.spec.after:
            return NEVER
        parents = parents_of(schedule)
        if any((key, parent) in self.cycles or not self._known[parent].can_run for parent in parents):
            return NEVER
        same = [
            self._known[parent]
            for parent, entry in zip(parents, schedule.spec.after, strict=True)
            if entry.ticks == "Same"
        ]
        unit = min(known.unit for known in same)
        bits = -1
        for known in same:
            bits &= known.in_units(unit)
        return ScheduleTicks(unit, bits, can_run=True)

    def _edges_in_cycles(self) -> set[tuple[Key, Key]]:
        edges = [(key, parent) for key, each in self.schedules.items() for parent in parents_of(each)]
        numbers = {key: number for number, key in enumerate({key for edge in edges for key in edge})}
        keys = [*numbers]
        found = edges_in_cycles((numbers[key], numbers[parent]) for key, parent in edges)
        return {(keys[start], keys[to]) for start, to in found}


def _own_rule(schedule: JobSchedule) -> TickRule | None:
    """What determines its own ticks; None: it has none, or is suspended."""
    spec = schedule.spec
    compiled = None if spec.suspend else spec.compiled_ticks(schedule.full_name)
    return None if compiled is None else TickRule(compiled, spec.time_zone, spec.dst.gap, spec.dst.overlap)


@lru_cache(maxsize=2048)  # 6 KB each for 30 days: many schedules of an application have the same rule
def _own_ticks(rule: TickRule, begin: int, end: int) -> ScheduleTicks:
    ticks = rule.ticks()
    if ticks.has_seconds:
        return ScheduleTicks(SECOND, ticks.seconds(begin, end), can_run=True)
    return ScheduleTicks(MINUTE, ticks.minutes(begin, end), can_run=True)


@lru_cache(maxsize=16_384)
def clock_changes(rule: TickRule, begin: int) -> tuple[tuple[bool, str], ...]:
    """The clock changes of the year from `begin` on that affect its ticks: `clock_change_effects`."""
    return tuple(clock_change_effects(rule.ticks(), begin, begin + _YEAR))


@lru_cache(maxsize=16_384)
def _count(rule: TickRule, begin: int, end: int) -> int:
    return rule.ticks().count(begin, end)
