"""Decides when a worker stops claiming so that it can run a quarantined run alone: for at most half of its time.

The rule: once a quarantined run has waited for a minute, the worker yields, that is, it claims nothing until its own
runs have ended. If they have not ended after 30 s, it claims other runs for twice as long, and yields for twice as long
the next time. After a quarantined run, it claims other runs for at least as long as that run took.
"""

from __future__ import annotations

QUERY_INTERVAL_S = 30.0  # between two queries for quarantined runs
WAIT_FOR_IDLE_S = 60.0  # how long a quarantined run waits for an idle worker
YIELD_S = 30.0  # how long the worker yields at most, the first time


class QuarantineTurns:
    """The decisions of one worker. Each `now` is a time of one monotonic clock, in seconds."""

    def __init__(self) -> None:
        self.yielding = False
        self._yields_since = self._query_at = 0.0
        self._yield_s = YIELD_S

    def query_due(self, now: float) -> bool:
        """Whether to query now for how long a quarantined run has been waiting. Stops yielding if it took too long."""
        if self.yielding and now - self._yields_since > self._yield_s:
            self.yielding = False
            self._yield_s *= 2
            self._query_at = now + self._yield_s
        return now >= self._query_at

    def answered(self, wait_s: float | None, now: float) -> None:
        """Record the answer to that query; None: no quarantined run is waiting."""
        self._query_at = now + QUERY_INTERVAL_S
        waits = wait_s is not None and wait_s > WAIT_FOR_IDLE_S
        if waits and not self.yielding:
            self._yields_since = now
        self.yielding = waits

    def none_left(self) -> None:
        """Record that no quarantined run is left: another worker has claimed it."""
        self.yielding = False

    def ran(self, began: float, now: float) -> None:
        """Record that a quarantined run ran from `began` to `now`."""
        took_s = now - (self._yields_since if self.yielding else began)
        self.yielding, self._yield_s = False, YIELD_S
        self._query_at = now + max(QUERY_INTERVAL_S, took_s)
