"""Decides when a worker stops claiming so that it can run a suspect alone: for at most half of its time.

When a suspect has waited for a minute, the worker stops claiming until its own runs have ended. If they have not ended
after 30 s, it claims other runs for twice as long, and doubles the time for the next attempt. After a suspect has run,
the worker claims other runs for at least as long as the suspect took.
"""

from __future__ import annotations

EVERY_S = 30.0  # between two queries for suspects
PATIENCE_S = 60.0  # that a suspect waits for an idle worker
ROOM_S = 30.0  # without claims, in the first attempt


class QuarantineTurns:
    """The decisions. All `now` are seconds of one monotonic clock."""

    def __init__(self) -> None:
        self.making_room = False
        self._since = self._ask_at = 0.0
        self._room_s = ROOM_S

    def asks(self, now: float) -> bool:
        """Whether to query now for how long a suspect has been waiting."""
        if self.making_room and now - self._since > self._room_s:
            self.making_room = False
            self._room_s *= 2
            self._ask_at = now + self._room_s
        return now >= self._ask_at

    def answered(self, waits_s: float | None, now: float) -> None:
        """Records the answer to that query; None: no suspect is waiting."""
        self._ask_at = now + EVERY_S
        waits = waits_s is not None and waits_s > PATIENCE_S
        if waits and not self.making_room:
            self._since = now
        self.making_room = waits

    def none_left(self) -> None:
        """Records that no suspect is left: another worker has claimed it."""
        self.making_room = False

    def ran(self, began: float, now: float) -> None:
        """Records that a suspect ran from `began` to `now`."""
        took_s = now - (self._since if self.making_room else began)
        self.making_room, self._room_s = False, ROOM_S
        self._ask_at = now + max(EVERY_S, took_s)
