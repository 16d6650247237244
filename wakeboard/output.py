"""The one way to the terminal: nothing of ours writes to standard output or standard error but through this module.

`wakeboard` runs inside `sanitized_streams`, so whatever it prints, typer's and Python's own words included, is safe to
show. Rich finds the real stream behind ours (`rich_proxied_file`) and writes colours to it: `local/safe_console.py`
sanitises what it draws. Logs have formatters of their own (loglines.py).
"""

from __future__ import annotations

import sys
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, TextIO

from wakeboard.redact import redact
from wakeboard.sanitize import printable

if TYPE_CHECKING:
    from collections.abc import Generator


class SanitizedStream:
    """A text stream that sanitises what is written to it; everything else is the stream's own."""

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
    """Text and a line end, on standard output unless another stream is given."""
    (stream or sys.stdout).write(printable(text) + "\n")


def write_error(who: str, text: str) -> None:
    """A sentence on standard error after the program that says it, without credentials; further lines are indented."""
    first, *more = printable(redact(text)).splitlines() or [""]
    sys.stderr.write("\n  ".join([f"{who}: {first}", *more]) + "\n")
