"""Configures logging: JSON lines or console lines, on stderr."""

from __future__ import annotations

import logging
import sys
import time
from typing import TYPE_CHECKING, Any

from wakeboard.text.redact import redact
from wakeboard.text.sanitize import json_text, one_line, printable

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from wakeboard.settings import Settings

RUN_FIELDS = (
    *("run", "job_type", "schedule", "attempt", "outcome", "seconds", "error", "next_try_s", "counts"),
    *("trace_id", "span_id"),
)


class SafeFormatter(logging.Formatter):
    """Formats log records: masks what looks like a credential, and shows records that cannot be formatted."""

    def message(self, record: logging.LogRecord) -> str:
        """The message of the record."""
        try:
            text = record.getMessage()
        except Exception:  # noqa: BLE001 - a wrong format string, or an argument whose __str__ raises
            text = f"{record.msg!r}, which its arguments do not fit"
        return redact(text)

    def stack(self, record: logging.LogRecord) -> str:
        """The stack of the record's exception, or of the place that logged it; "" without one."""
        parts = [self.formatException(record.exc_info) if record.exc_info else "", record.stack_info or ""]
        return redact("\n".join(part for part in parts if part))


class JsonFormatter(SafeFormatter):
    """One JSON object a line: time, level, logger, message, and the fields of the run."""

    def format(self, record: logging.LogRecord) -> str:
        """The record as one line."""
        line: dict[str, Any] = {
            "time": time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(record.created)) + f".{int(record.msecs):03d}Z",
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": self.message(record),
        }
        fields = {field: value for field in RUN_FIELDS if (value := getattr(record, field, None)) is not None}
        line |= {field: redact(value) if isinstance(value, str) else value for field, value in fields.items()}
        if stack := self.stack(record):
            line["stack"] = stack
        return json_text(line)


class ConsoleFormatter(SafeFormatter):
    """`12:00:01 warning run 7 default/report attempt 2: …` for users."""

    def format(self, record: logging.LogRecord) -> str:
        """The record as one line. A stack follows on indented lines, so that none of them looks like a record."""
        run = getattr(record, "run", None)
        about = ""
        if run is not None:
            names = [str(run), getattr(record, "schedule", None) or getattr(record, "job_type", "")]
            about = f"run {' '.join(names)} attempt {getattr(record, 'attempt', '?')}: "
        clock = time.strftime("%H:%M:%S", time.localtime(record.created))
        line = f"{clock} {record.levelname.lower():7} {one_line(about + self.message(record))}"
        return "\n    ".join([line, *printable(self.stack(record)).splitlines()])


def for_console(settings: Settings) -> bool:
    """Whether logs are written for a terminal."""
    return settings.log_format == "console" or (settings.log_format == "auto" and sys.stderr.isatty())


def configure_logging(
    settings: Settings, *, quiet: Iterable[str], add: Callable[[logging.LogRecord], bool] | None = None
) -> None:
    """Sends all log records of this process to stderr in the configured format.

    `quiet`: libraries that log only warnings and errors. `add` may add fields to a record.
    """
    handler = logging.StreamHandler()
    handler.setFormatter(ConsoleFormatter() if for_console(settings) else JsonFormatter())
    if add is not None:
        handler.addFilter(add)
    root = logging.getLogger()
    root.addHandler(handler)
    root.setLevel(settings.log_level.upper())
    for name in quiet:
        logging.getLogger(name).setLevel(logging.WARNING)
