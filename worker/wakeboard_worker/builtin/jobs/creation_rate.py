"""Spreads the creation of Jobs: a burst is delayed, never dropped."""

from __future__ import annotations

import asyncio
import time


class CreationRate:
    """Lets through at most `per_second` callers, in their order."""

    def __init__(self, per_second: float) -> None:
        self._interval_s = 1 / per_second
        self._next_at = 0.0

    async def turn(self) -> None:
        """Waits for this caller's turn."""
        now = time.monotonic()
        at = max(now, self._next_at)
        self._next_at = at + self._interval_s
        if at > now:
            await asyncio.sleep(at - now)
