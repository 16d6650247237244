"""Spreads the creation of Jobs: a burst is delayed, never dropped."""

from __future__ import annotations

import asyncio
import time


class CreationRate:
    """Lets through at most `per_second` callers, in their order. A caller that is cancelled takes no turn."""

    def __init__(self, per_second: float) -> None:
        self._interval_s = 1 / per_second
        self._next_at = 0.0
        self._first = asyncio.Lock()  # held by the caller whose turn is next

    async def turn(self) -> None:
        """Waits for this caller's turn."""
        async with self._first:
            at = max(time.monotonic(), self._next_at)
            await asyncio.sleep(at - time.monotonic())
            self._next_at = at + self._interval_s
