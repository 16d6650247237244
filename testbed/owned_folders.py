"""Temporary folders that a later process removes if their owner was killed, with the file systems mounted in them."""

from __future__ import annotations

import fcntl
import shutil
import subprocess
import tempfile
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Generator

PREFIX = "wakeboard-"
MOUNTS = Path("/proc/self/mountinfo")


@contextmanager
def owned_folder(parent: Path) -> Generator[Path]:
    """A new folder in `parent` that all accounts may enter. It is removed at the end.

    Its owner holds a lock of the file `<folder>.lock` for as long as the process lives.
    """
    with tempfile.TemporaryDirectory(prefix=PREFIX, dir=parent) as name:
        lock, unlocked = Path(f"{name}.lock"), Path(f"{name}.unlocked")
        with unlocked.open("w") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            unlocked.rename(lock)  # no process finds the lock before it is held
            Path(name).chmod(0o755)
            try:
                yield Path(name)
            finally:
                lock.unlink()


def remove_abandoned_folders(parent: Path) -> None:
    """Removes the folders in `parent` whose owners were killed. Skips what this account may not remove."""
    for lock in parent.glob(f"{PREFIX}*.lock"):
        with suppress(OSError), lock.open("r+") as file:  # another account's, in use, or just removed
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            folder = lock.with_suffix("").resolve()
            for mounted in reversed(_mounted_below(folder)):
                subprocess.run(["umount", "--lazy", mounted], stderr=subprocess.DEVNULL, check=False)
            if _mounted_below(folder):
                continue
            if folder.exists():
                shutil.rmtree(folder)
            lock.unlink()


def _mounted_below(folder: Path) -> list[str]:
    """The mount points in a folder, an outer one before those in it."""
    lines = MOUNTS.read_text().splitlines() if MOUNTS.exists() else []
    points = [line.split()[4].replace(r"\040", " ") for line in lines]
    return [point for point in points if point.startswith(f"{folder}/")]
