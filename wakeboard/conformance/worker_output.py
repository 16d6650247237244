"""The end of what a worker writes. A worker that never stops writing takes neither the memory nor the disk."""

from __future__ import annotations

import threading
from typing import IO, Final

MOST_BYTES: Final = 65_536  # of one process
END_S: Final = 1.0  # a descendant of the worker may keep the pipe open


class WorkerOutput:
    """Reads the output of one process in a thread, until it ends, and keeps the last 64 KiB."""

    def __init__(self, stream: IO[bytes]) -> None:
        self._last = b""
        self._reader = threading.Thread(target=self._read, args=[stream], name="worker output", daemon=True)
        self._reader.start()

    def wait(self) -> None:
        """Wait for the output of a process that has ended, at most a second."""
        self._reader.join(END_S)

    @property
    def text(self) -> str:
        """The last 64 KiB so far, as text."""
        return self._last.decode(errors="replace")

    def _read(self, stream: IO[bytes]) -> None:
        with stream:
            while chunk := stream.read(MOST_BYTES):
                self._last = (self._last + chunk)[-MOST_BYTES:]
