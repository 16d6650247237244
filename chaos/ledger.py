"""A ledger outside of the database, in the folder CHAOS_LEDGER: files of numbers, which no database can forget.

`<application>.asked` has the runs whose creation an application saw confirmed, `<application>.done` those that a
handler has executed, synced to the disk before the handler returns. Lines have one width, so the size of a file is its
count.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final

WIDTH: Final = 13  # of a line


def append_line(path: Path, line: str) -> None:
    """Appends a line that survives the end of this process and of the machine. Several processes may do so at once."""
    descriptor = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
    try:
        os.write(descriptor, f"{line}\n".encode())
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


class Ledger:
    """The file `name` of it. `folder`: None is that of this process."""

    def __init__(self, name: str, folder: Path | None = None) -> None:
        self._path = (folder or Path(os.environ["CHAOS_LEDGER"])) / name

    def append(self, number: int) -> None:
        """Adds a number for good. Several processes may do so at once."""
        append_line(self._path, f"{number:0{WIDTH - 1}}")

    def __len__(self) -> int:
        return self._path.stat().st_size // WIDTH if self._path.exists() else 0

    def numbers(self) -> list[int]:
        """All of them, in the order in which they were added."""
        return [int(line) for line in self._path.read_text().split()] if self._path.exists() else []
