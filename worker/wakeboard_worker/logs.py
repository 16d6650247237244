"""The worker's loggers. Records that a handler's code logs get the fields of its run: id, schedule and attempt."""

from __future__ import annotations

import logging
import math
import time
from typing import TYPE_CHECKING

from wakeboard.process.failure_log import FailureLog, Outages
from wakeboard.process.logging_setup import configure_logging, for_console
from wakeboard.text.humanize import counted
from wakeboard_worker.attempt import current_attempt

if TYPE_CHECKING:
    from wakeboard.settings import Settings

log = logging.getLogger("wakeboard.worker")
outages = Outages(log)
failures = FailureLog(log, outages=outages)  # of what a worker does besides claims
runs_log = logging.getLogger("wakeboard.run")
MAX_RUN_LINES = 50  # a second

# Libraries of which only warnings and errors are logged.
QUIET = ("aiohttp", "asyncio", "opentelemetry", "psycopg", "urllib3")


class RunLines:
    """Decides which runs that did not fail have a line in the log. Runs that fail always have one.

    On a console and at the level debug, all have one. In the JSON log of a worker that stays, at most 50 a second have
    one, so that logging costs little, and a further line counts the others. A worker that drains counts all runs in its
    last line. Only the event loop calls this.
    """

    def __init__(self) -> None:
        self.per_second = 0.0
        self._second = 0
        self._left = 0.0
        self._omitted = 0

    def take(self) -> bool:
        """Whether the run that ends now has a line."""
        second = int(time.monotonic())
        if second != self._second:
            self._second, self._left = second, self.per_second
            self.count_omitted()
        if self._left <= 0:
            self._omitted += bool(self.per_second)
            return False
        self._left -= 1
        return True

    def count_omitted(self) -> None:
        """Logs how many runs had no line since the last call."""
        if self._omitted:
            runs_log.info("%s more ended without failure", counted(self._omitted, "run"), extra={"outcome": "omitted"})
            self._omitted = 0


run_lines = RunLines()


def start_logging(settings: Settings, *, stays: bool = False) -> None:
    """Send the log records of this process to stderr in the configured format. `stays`: with --forever."""
    configure_logging(settings, quiet=QUIET, add=_add_run_fields)
    if settings.log_level == "debug" or (settings.log_level == "info" and for_console(settings)):
        run_lines.per_second = math.inf
    elif settings.log_level == "info" and stays:
        run_lines.per_second = MAX_RUN_LINES


def _add_run_fields(record: logging.LogRecord) -> bool:
    """Add the fields of the current attempt to a record."""
    attempt = current_attempt.get(None)
    if attempt is not None and not hasattr(record, "run"):
        record.__dict__.update(attempt.log_fields())
    return True
