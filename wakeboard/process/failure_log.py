"""Log lines for what fails again and again: one at the first failure, one a minute while it lasts, one at the end."""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING, Final

from wakeboard.errors import DatabaseUnavailable, Locked, WakeboardError

if TYPE_CHECKING:
    import logging
    from collections.abc import Callable, Mapping

REPEAT_S: Final = 60.0
SAME_OUTAGE_S: Final = 5.0  # an outage that begins so soon after another one has a line only if it lasts as long


class Outages:
    """Combines the outages of the database that the parts of a process see into one. Thread-safe.

    An outage that begins within `same_s` seconds after another one, such as over a pooler that accepts connections, is
    logged once it has lasted for as long. `clock`: any monotonic seconds. FailureLog has other words and times.
    """

    def __init__(
        self,
        log: logging.Logger,
        clock: Callable[[], float] = time.monotonic,
        *,
        failing: tuple[str, str] = ("waiting", " for the database (%s)"),
        again: str = "the database answers again",
        same_s: float = SAME_OUTAGE_S,
    ) -> None:
        self._log, self._clock = log, clock
        self._failing, self._again, self._same_s = failing, again, same_s
        self._lock = threading.Lock()
        self._parts: set[str] = set()  # parts that wait for the database
        self._since = self._logged_at = self._back_at = float("-inf")
        self._announced = False

    def lost(self, part: str, error: Exception) -> None:
        """Records that this part cannot reach the database, or got a temporary error."""
        with self._lock:
            now = self._clock()
            if not self._parts:
                self._since, self._announced = now, False
                if now - self._back_at > self._same_s:
                    self._logged_at = float("-inf")
            self._parts.add(part)
            lasts = not self._announced and now - self._since >= self._same_s
            if lasts or now - self._logged_at >= REPEAT_S:
                lasting = f" for {now - self._since:.0f} s" if self._announced else ""
                begin, end = self._failing
                self._log.warning("%s%s%s: %s", begin, lasting, end.replace("%s", part), _reason(error))
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
                self._log.info("%s, after %.1f s", self._again, self._back_at - self._since)
            self._announced = False

    def remove(self, part: str) -> None:
        """Removes a part that has stopped waiting without an answer."""
        with self._lock:
            self._parts.discard(part)


def _reason(error: Exception) -> str:
    if isinstance(error, WakeboardError):
        return error.with_hint
    return str(error) or ("no answer in time" if isinstance(error, TimeoutError) else type(error).__name__)


class FailureLog:
    """Logs the failures of tasks, each like an outage of its own. `what`: the noun before their names.

    A failure that begins and ends within a minute of the last line has no line. `clock`: any monotonic seconds.
    `outages`: those of the process, which have the failures of a database that is read-only, full or away. Each task
    sees these, and together they have one line.
    """

    def __init__(
        self,
        log: logging.Logger,
        *,
        what: str = "the task",
        clock: Callable[[], float] = time.monotonic,
        outages: Outages | None = None,
    ) -> None:
        self._log, self._what, self._clock, self._outages = log, what, clock, outages
        self._tasks: dict[str, Outages] = {}
        self._waiting: set[str] = set()  # for the database

    def update(self, failing: Mapping[str, Exception]) -> None:
        """Records all tasks whose last run failed. The others have succeeded."""
        for name, error in failing.items():
            self.failed(name, error)
        for name in (self._tasks.keys() | self._waiting) - failing.keys():
            self.succeeded(name)

    def failed(self, name: str, error: Exception) -> None:
        """Records that a task failed."""
        if self._outages is not None and isinstance(error, DatabaseUnavailable) and not isinstance(error, Locked):
            self._waiting.add(name)
            self._outages.lost(f"{self._what} {name}", error)
            return
        if name not in self._tasks:
            task = f"{self._what} {name}"
            words, again = (f"{task} fails", ""), f"{task} succeeds again"
            self._tasks[name] = Outages(self._log, self._clock, failing=words, again=again, same_s=REPEAT_S)
        self._tasks[name].lost(name, error)

    def succeeded(self, name: str) -> None:
        """Records that a task succeeded."""
        if self._outages is not None and name in self._waiting:
            self._waiting.discard(name)
            self._outages.recovered(f"{self._what} {name}")
        if name in self._tasks:
            self._tasks[name].recovered(name)
