"""Pauses between the attempts of what fails again and again."""

from __future__ import annotations

import random


class BackoffDelays:
    """Pauses that double from `first_s` to `longest_s`. Each lasts between half of that and all of it, at random."""

    def __init__(self, first_s: float, longest_s: float) -> None:
        self._first_s, self._longest_s, self._next_s = first_s, longest_s, first_s

    def reset(self) -> None:
        """Begins again with the shortest pause, after a success."""
        self._next_s = self._first_s

    def next_s(self) -> float:
        """The next pause in seconds."""
        pause_s, self._next_s = self._next_s, min(self._longest_s, 2 * self._next_s)
        return pause_s * random.uniform(0.5, 1.0)  # noqa: S311 - no secret
