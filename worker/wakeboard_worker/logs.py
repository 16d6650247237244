"""Log lines: JSON for machines, or short lines for a terminal. Lines of a run carry its id, schedule and attempt."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from wakeboard.logging_setup import for_console, send_logs
from wakeboard.store.outages import Outages
from wakeboard_worker.attempt import current_attempt

if TYPE_CHECKING:
    from wakeboard.settings import Settings

log = logging.getLogger("wakeboard.worker")
outages = Outages(log)
# One line for each run that ends: a warning if it failed, otherwise debug. Logs for a console show every line.
runs_log = logging.getLogger("wakeboard.run")

# Libraries that talk at these levels only about themselves.
QUIET = ("aiohttp", "asyncio", "psycopg")


def start_logging(settings: Settings) -> None:
    """Sends every line of this process to stderr in the chosen format."""
    send_logs(settings, quiet=QUIET, add=_add_facts)
    if for_console(settings) and settings.log_level == "info":
        runs_log.setLevel(logging.DEBUG)


def _add_facts(record: logging.LogRecord) -> bool:
    """Whatever a handler's own code logs carries its run, too."""
    attempt = current_attempt.get(None)
    if attempt is not None and not hasattr(record, "run"):
        record.__dict__.update(attempt.log_fields())
    return True
