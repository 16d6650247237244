"""When a worker stops claiming to make room for a suspect, which runs alone: for at most half of its time.

A suspect that has waited for a minute goes first: the worker claims nothing more until all that it has in hand is done.
Where that takes too long, claims go on for twice as long, and so long may the next attempt last. After a suspect the
worker claims other runs for at least as long as that one took.
"""

from __future__ import annotations

EVERY_S = 30.0  # between questions for suspects
PATIENCE_S = 60.0  # that a suspect waits for a worker that has nothing else in hand
ROOM_S = 30.0  # the first attempt to make room


class SuspectTurns:
    """Decides; every `now` is of one clock."""

    def __init__(self) -> None:
        self.making_room = False
        self._since = self._ask_at = 0.0
        self._room_s = ROOM_S

    def asks(self, now: float) -> bool:
        """Whether to ask now for how long a suspect has been waiting."""
        if self.making_room and now - self._since > self._room_s:
            self.making_room = False
            self._room_s *= 2
            self._ask_at = now + self._room_s
        return now >= self._ask_at

    def answered(self, waits_s: float | None, now: float) -> None:
        """None: no suspect is waiting."""
        self._ask_at = now + EVERY_S
        waits = waits_s is not None and waits_s > PATIENCE_S
        if waits and not self.making_room:
            self._since = now
        self.making_room = waits

    def none_left(self) -> None:
        """Another worker took it."""
        self.making_room = False

    def ran(self, began: float, now: float) -> None:
        """A suspect was executed from `began` on."""
        took_s = now - (self._since if self.making_room else began)
        self.making_room, self._room_s = False, ROOM_S
        self._ask_at = now + max(EVERY_S, took_s)
