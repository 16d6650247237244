"""Passes what attempts log and print to the logs of runs (run_logs.py)."""

from __future__ import annotations

import logging
import sys
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final, TextIO, cast

from wakeboard_worker.attempt import current_attempt
from wakeboard_worker.run_logs import RunLogs

if TYPE_CHECKING:
    from collections.abc import Generator, Iterable, Mapping

    from wakeboard.engine.handlers import Handler
    from wakeboard.settings import Settings

_formatter: Final = logging.Formatter()


class _Handler(logging.Handler):
    """Passes log records to the logs of runs."""

    def __init__(self, logs: RunLogs) -> None:
        super().__init__(logs.level)
        self._logs = logs

    def emit(self, record: logging.LogRecord) -> None:
        """Keep a log record that was logged in the context of an attempt."""
        attempt = current_attempt.get(None)
        if attempt is None:
            return
        try:
            text = record.getMessage()
        except Exception:  # noqa: BLE001 - a wrong format string, or an argument whose __str__ raises
            text = f"{record.msg!r}, which its arguments do not fit"
        if record.exc_info or record.stack_info:
            stack = _formatter.formatException(record.exc_info) if record.exc_info else ""
            text = "\n".join(part for part in (text, stack, record.stack_info) if part)
        self._logs.add(attempt, record.levelno, record.name, text)


class _Stream:
    """A text stream that also keeps what an attempt writes to it."""

    def __init__(self, stream: TextIO, source: str, logs: RunLogs) -> None:
        self._stream, self._source, self._logs = stream, source, logs

    def write(self, text: str) -> int:
        """Write the text, and keep its lines."""
        written = self._stream.write(text)
        attempt = current_attempt.get(None)
        if attempt is not None:
            self._logs.write(attempt, self._source, text)
        return written

    def writelines(self, lines: Iterable[str]) -> None:
        """Write the lines."""
        for line in lines:
            self.write(line)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)


@contextmanager
def captured(settings: Settings, name: str, handlers: Mapping[str, Handler]) -> Generator[RunLogs | None]:
    """Keep what attempts log and print inside the block. None: the settings turn it off."""
    if settings.run_logs == "off":
        yield None
        return
    logs = RunLogs(settings, name, {each: of.logs for each, of in handlers.items() if of.logs is not None})
    handler, streams = _Handler(logs), (sys.stdout, sys.stderr)
    sys.stdout, sys.stderr = cast("Any", (_Stream(streams[0], "stdout", logs), _Stream(streams[1], "stderr", logs)))
    logging.getLogger().addHandler(handler)
    logs.start()
    try:
        yield logs
    finally:
        logging.getLogger().removeHandler(handler)
        sys.stdout, sys.stderr = streams
        logs.stop()
