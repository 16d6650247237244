"""Log lines about a database that is away: one when it goes, one a minute while it is away, one when it is back."""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    import logging
    from collections.abc import Callable

REPEAT_S: Final = 60.0
SAME_OUTAGE_S: Final = 5.0  # a database that was back for less than this had not come back


class Outages:
    """What the parts of a process meet, in few lines. Threads may share it; `clock` tells seconds from anywhere."""

    def __init__(self, log: logging.Logger, clock: Callable[[], float] = time.monotonic) -> None:
        self._log, self._clock = log, clock
        self._lock = threading.Lock()
        self._parts: set[str] = set()  # that wait
        self._since = self._logged_at = self._back_at = float("-inf")
        self._announced = False

    def away(self, part: str, error: Exception) -> None:
        """This part cannot reach the database, or the database cannot serve it now."""
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

    def back(self, part: str) -> None:
        """The database has answered this part."""
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

    def forget(self, part: str) -> None:
        """This part does not wait any more, and knows nothing of the database."""
        with self._lock:
            self._parts.discard(part)
