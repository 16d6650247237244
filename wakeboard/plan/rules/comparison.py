"""Two states of declared schedules: the ticks that each has in a period, and which schedules have only another name."""

from __future__ import annotations

from collections import defaultdict
from difflib import get_close_matches
from functools import cached_property
from typing import TYPE_CHECKING, Final

from wakeboard.plan.rules.state import StateTicks, parents_of
from wakeboard.schedules.rules.job_schedule import spec_hash

if TYPE_CHECKING:
    from collections.abc import Sequence

    from wakeboard.plan.rules.state import Key, State

_FEW: Final = 20  # schedules with the same content, of which the one with the most similar name is looked for


class Comparison:
    """Two states in the period from the instant `begin` (a whole minute) on, before `end`."""

    def __init__(self, before: State, after: State, begin: int, end: int) -> None:
        self.before = before
        self.after = after
        self.begin = begin
        self.end = end

    @cached_property
    def old(self) -> StateTicks:
        """The ticks before."""
        return StateTicks(self.before, self.begin, self.end)

    @cached_property
    def new(self) -> StateTicks:
        """The ticks after."""
        return StateTicks(self.after, self.begin, self.end, like=self.old)

    @cached_property
    def unknown(self) -> set[Key]:
        """The schedules whose declaration, or that of one that they run after, cannot be used in one of the states.

        Where a part of a state cannot be read, it may declare those that only the other has.
        """
        children: dict[Key, list[Key]] = defaultdict(list)
        for state in (self.before, self.after):
            for key, schedule in state.schedules.items():
                for parent in parents_of(schedule):
                    children[parent].append(key)
        found: set[Key] = set()
        waiting = [*self.before.invalid, *self.after.invalid]
        for state, other in ((self.before, self.after), (self.after, self.before)):
            if not state.complete:
                waiting += other.schedules.keys() - state.schedules.keys()
        while waiting:
            key = waiting.pop()
            if key not in found:
                found.add(key)
                waiting += children.get(key, ())
        return found

    @cached_property
    def gone(self) -> set[Key]:
        """The schedules that only the state before has."""
        return self.before.schedules.keys() - self.after.schedules.keys() - self.unknown

    @cached_property
    def come(self) -> set[Key]:
        """The schedules that only the state after has."""
        return self.after.schedules.keys() - self.before.schedules.keys() - self.unknown

    @cached_property
    def renamed(self) -> dict[Key, Key]:
        """By new name the old name of each schedule that goes and comes with the same spec under another name."""
        if not self.gone or not self.come:
            return {}
        by_content: dict[str, list[Key]] = defaultdict(list)
        for key in sorted(self.gone):
            by_content[spec_hash(self.before.schedules[key].spec)].append(key)
        found: dict[Key, Key] = {}
        for key in sorted(self.come):
            candidates = by_content.get(spec_hash(self.after.schedules[key].spec))
            if candidates:
                found[key] = candidates.pop(_nearest(key, candidates))
        return found


def _nearest(key: Key, candidates: Sequence[Key]) -> int:
    """The place of the candidate with the most similar name; of many, of the first one."""
    if len(candidates) > _FEW:
        return 0
    names = ["/".join(each) for each in candidates]
    nearest = get_close_matches("/".join(key), names, n=1, cutoff=0)
    return names.index(nearest[0]) if nearest else 0
