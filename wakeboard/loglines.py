"""Logs of our processes: JSON lines for programs, or console lines for people, on stderr."""

from __future__ import annotations

import json
import logging
import sys
import time
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from wakeboard.settings import Settings

FACTS = ("run", "job_type", "schedule", "attempt", "outcome", "seconds", "error", "next_try_s", "counts")


class JsonLines(logging.Formatter):
    """One JSON object a line: time, level, logger, message, and the facts of the run."""

    def format(self, record: logging.LogRecord) -> str:
        """The record as one line."""
        line: dict[str, Any] = {
            "time": time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(record.created)) + f".{int(record.msecs):03d}Z",
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
        }
        line |= {fact: value for fact in FACTS if (value := getattr(record, fact, None)) is not None}
        if record.exc_info:
            line["stack"] = self.formatException(record.exc_info)
        return json.dumps(line, ensure_ascii=False, default=str)


class ConsoleLines(logging.Formatter):
    """`12:00:01 warning run 7 default/report attempt 2: …` for people."""

    def format(self, record: logging.LogRecord) -> str:
        """The record as one line, and a stack below it if there is one."""
        run = getattr(record, "run", None)
        about = ""
        if run is not None:
            names = [str(run), getattr(record, "schedule", None) or getattr(record, "job_type", "")]
            about = f"run {' '.join(names)} attempt {getattr(record, 'attempt', '?')}: "
        clock = time.strftime("%H:%M:%S", time.localtime(record.created))
        line = f"{clock} {record.levelname.lower():7} {about}{record.getMessage()}"
        return f"{line}\n{self.formatException(record.exc_info)}" if record.exc_info else line


def send_logs(
    settings: Settings, *, quiet: Iterable[str], add: Callable[[logging.LogRecord], bool] | None = None
) -> None:
    """Sends every line of this process to stderr in the chosen format.

    `quiet`: libraries that talk below a warning only about themselves. `add` may add facts to a line.
    """
    console = settings.log_format == "console" or (settings.log_format == "auto" and sys.stderr.isatty())
    handler = logging.StreamHandler()
    handler.setFormatter(ConsoleLines() if console else JsonLines())
    if add is not None:
        handler.addFilter(add)
    root = logging.getLogger()
    root.addHandler(handler)
    root.setLevel(settings.log_level.upper())
    for name in quiet:
        logging.getLogger(name).setLevel(logging.WARNING)
