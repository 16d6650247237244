"""Log lines for a task that fails repeatedly: one at the first failure, one a minute while it fails, one at the end.

A failure that begins and ends within a minute of the last line has no line.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    import logging
    from collections.abc import Callable, Mapping

REPEAT_S: Final = 60.0  # the least time between two lines about failures of one task


@dataclass(slots=True)
class _Failing:
    """Since when a task fails, and whether this failure has been logged."""

    since: float
    logged_at: float = float("-inf")
    announced: bool = False
    ended: bool = False


class FailureLog:
    """Logs the failures of tasks. `what`: the noun before their names. `clock`: any monotonic seconds."""

    def __init__(
        self, log: logging.Logger, *, what: str = "the task", clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._log, self._what, self._clock = log, what, clock
        self._tasks: dict[str, _Failing] = {}

    def update(self, failing: Mapping[str, Exception]) -> None:
        """Records all tasks whose last run failed. The others have succeeded."""
        for name, error in failing.items():
            self.failed(name, error)
        for name in self._tasks.keys() - failing.keys():
            self.succeeded(name)

    def failed(self, name: str, error: Exception) -> None:
        """Records that a task failed."""
        now = self._clock()
        task = self._tasks.setdefault(name, _Failing(now))
        if task.ended:
            task.since, task.announced, task.ended = now, False, False
        if now - task.logged_at >= REPEAT_S:
            lasting = f" for {now - task.since:.0f} s" if task.announced else ""
            self._log.warning("%s %s fails%s: %s", self._what, name, lasting, str(error) or type(error).__name__)
            task.logged_at, task.announced = now, True

    def succeeded(self, name: str) -> None:
        """Records that a task succeeded."""
        task = self._tasks.get(name)
        if task is None or task.ended:
            return
        if task.announced:
            self._log.info("%s %s succeeds again, after %.1f s", self._what, name, self._clock() - task.since)
        task.announced, task.ended = False, True
