"""Two states of declared schedules, and the ticks that each has in a period."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING

from wakeboard.plan.rules.state import StateTicks

if TYPE_CHECKING:
    from wakeboard.plan.rules.state import State


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
