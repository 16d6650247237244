"""The worker's loggers. Records that a handler's code logs get the fields of its run: id, schedule and attempt."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from wakeboard.logging_setup import configure_logging, for_console
from wakeboard.store.outages import Outages
from wakeboard_worker.attempt import current_attempt

if TYPE_CHECKING:
    from wakeboard.settings import Settings

log = logging.getLogger("wakeboard.worker")
outages = Outages(log)
# One record for each run that ends: a warning if it failed, otherwise debug. The console format shows all of them.
runs_log = logging.getLogger("wakeboard.run")

# Libraries of which only warnings and errors are logged.
QUIET = ("aiohttp", "asyncio", "psycopg")


def start_logging(settings: Settings) -> None:
    """Send the log records of this process to stderr in the configured format."""
    configure_logging(settings, quiet=QUIET, add=_add_run_fields)
    if for_console(settings) and settings.log_level == "info":
        runs_log.setLevel(logging.DEBUG)


def _add_run_fields(record: logging.LogRecord) -> bool:
    """Add the fields of the current attempt to a record."""
    attempt = current_attempt.get(None)
    if attempt is not None and not hasattr(record, "run"):
        record.__dict__.update(attempt.log_fields())
    return True
