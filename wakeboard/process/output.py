"""Writes to standard output and standard error, sanitised. No other module writes to them.

`wakeboard` runs inside `sanitized_streams`, which also sanitises what typer and Python print. Rich writes colours to
the original stream (`rich_proxied_file`); `safe_console.py` sanitises what Rich draws. Logs have formatters of
their own (logging_setup.py).
"""

from __future__ import annotations

import sys
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, TextIO

from wakeboard.text.humanize import full_stop
from wakeboard.text.redact import redact
from wakeboard.text.sanitize import printable

if TYPE_CHECKING:
    from collections.abc import Generator


class SanitizedStream:
    """A text stream that sanitises what is written to it and passes everything else to the original stream."""

    def __init__(self, stream: TextIO) -> None:
        self.rich_proxied_file = stream

    def write(self, text: str) -> int:
        """Writes the text without unsafe characters."""
        self.rich_proxied_file.write(printable(text))
        return len(text)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.rich_proxied_file, name)


@contextmanager
def sanitized_streams() -> Generator[None]:
    """Standard output and standard error are sanitised inside the block."""
    streams: Any = sys.stdout, sys.stderr
    sys.stdout, sys.stderr = (SanitizedStream(stream) for stream in streams)  # pyright: ignore[reportAttributeAccessIssue]
    try:
        yield
    finally:
        sys.stdout, sys.stderr = streams


def write_line(text: str, stream: TextIO | None = None) -> None:
    """Writes a line, to standard output unless another stream is given."""
    (stream or sys.stdout).write(printable(text) + "\n")


def write_error(who: str, text: str) -> None:
    """Writes `who: text` to standard error, with credentials masked. Each line is one sentence."""
    first, *more = [full_stop(line.rstrip()) for line in printable(redact(text)).splitlines()] or [""]
    sys.stderr.write("\n  ".join([f"{who}: {first}", *more]) + "\n")
