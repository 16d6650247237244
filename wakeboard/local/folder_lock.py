"""One process at a time may use a folder; the next one learns the first one's pid."""

from __future__ import annotations

import fcntl
import os
from contextlib import suppress
from typing import TYPE_CHECKING

from wakeboard.errors import WakeboardError

if TYPE_CHECKING:
    from pathlib import Path


class FolderLock:
    """A lock that ends with the process that holds it, however it ends; the file stays."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._file: int | None = None

    def take(self) -> None:
        """Takes the lock at once.

        Raises:
            WakeboardError: another process holds it; the sentence names its pid.
        """
        file = os.open(self._folder / "lock", os.O_RDWR | os.O_CREAT, 0o644)
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            holder = os.pread(file, 20, 0).decode(errors="replace").strip()
            os.close(file)
            raise WakeboardError(
                f"{self._folder} is in use by wakeboard, pid {holder or 'unknown'}; "
                "stop that process first, or choose another folder."
            ) from None
        self._file = file
        with suppress(OSError):  # a full disk: then nobody learns the pid
            os.ftruncate(file, 0)
            os.pwrite(file, f"{os.getpid()}\n".encode(), 0)

    def release(self) -> None:
        """Lets the next one in; without effect if the lock is not held."""
        if self._file is not None:
            fcntl.flock(self._file, fcntl.LOCK_UN)  # a child that another thread is just starting may hold it open, too
            os.close(self._file)
            self._file = None
