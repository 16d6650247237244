"""Limits the events of one schedule to the rate that Kubernetes' own controllers allow for one object."""

from __future__ import annotations

from typing import Final

BURST: Final = 25  # at once; both numbers are those of client-go's event recorder
REFILL_INTERVAL_S: Final = 300.0


class EventBudget:
    """A token bucket. `now` is in monotonic seconds."""

    __slots__ = ("_at", "_left")

    def __init__(self, now: float) -> None:
        self._left, self._at = float(BURST), now

    def spend(self, now: float) -> bool:
        """Whether one more event may be written."""
        self._left = min(float(BURST), self._left + (now - self._at) / REFILL_INTERVAL_S)
        self._at = now
        if self._left < 1:
            return False
        self._left -= 1
        return True
