"""Log lines for database outages: one at the start, one a minute while it lasts, one at the end."""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    import logging
    from collections.abc import Callable

REPEAT_S: Final = 60.0
SAME_OUTAGE_S: Final = 5.0  # an outage that begins so soon after another one continues it


class Outages:
    """Combines the outages that the parts of a process see into one. Thread-safe. `clock`: any monotonic seconds."""

    def __init__(self, log: logging.Logger, clock: Callable[[], float] = time.monotonic) -> None:
        self._log, self._clock = log, clock
        self._lock = threading.Lock()
        self._parts: set[str] = set()  # parts that wait for the database
        self._since = self._logged_at = self._back_at = float("-inf")
        self._announced = False

    def lost(self, part: str, error: Exception) -> None:
        """Records that this part cannot reach the database, or got a temporary error."""
        with self._lock:
            now = self._clock()
            if not self._parts and now - self._back_at > SAME_OUTAGE_S:
                self._since, self._logged_at, self._announced = now, float("-inf"), False
            self._parts.add(part)
            if now - self._logged_at >= REPEAT_S:
                waited = f" for {now - self._since:.0f} s" if self._announced else ""
                self._log.warning(
                    "waiting%s for the database (%s): %s", waited, part, str(error) or "no answer in time"
                )
                self._logged_at, self._announced = now, True

    def recovered(self, part: str) -> None:
        """Records that the database has answered this part."""
        if part not in self._parts:
            return
        with self._lock:
            self._parts.discard(part)
            if self._parts:
                return
            self._back_at = self._clock()
            if self._announced:
                self._log.info("the database answers again, after %.1f s", self._back_at - self._since)
            self._announced = False

    def remove(self, part: str) -> None:
        """Removes a part that has stopped waiting without an answer."""
        with self._lock:
            self._parts.discard(part)
