"""A small disk for a server: a tmpfs of bounded size in a mount namespace of the campaign's own.

It needs root. The kernel removes the namespace and the disk when the campaign ends, however it ends.
"""

from __future__ import annotations

import ctypes
import os
import subprocess
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Final, Self

if TYPE_CHECKING:
    from collections.abc import Generator

SIZE_MB: Final = 640
OWN_MOUNTS: Final = ["unshare", "--mount", "--propagation", "private"]
PIECE: Final = 1 << 20
CLONE_FS: Final = 0x200
CLONE_NEWNS: Final = 0x20000  # os.unshare needs Python 3.12


def can_mount() -> bool:
    """Whether this process may create a mount namespace and mount a file system in it."""
    if os.geteuid() != 0:
        return False
    command = [*OWN_MOUNTS, "mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", "/mnt"]
    try:
        return subprocess.run(command, capture_output=True, check=False, timeout=10).returncode == 0
    except OSError:
        return False


@contextmanager
def own_mounts() -> Generator[None]:
    """Gives this thread, and what it starts, a mount namespace inside the block. It sees new mounts of the machine."""
    libc, folder = ctypes.CDLL(None, use_errno=True), Path.cwd()
    with Path("/proc/thread-self/ns/mnt").open() as former:
        _check(libc.unshare(CLONE_NEWNS))
        try:
            subprocess.run(["mount", "--make-rslave", "/"], check=True)
            yield
        finally:
            _check(libc.unshare(CLONE_FS))  # threads that this one has started share its folders with it
            _check(libc.setns(former.fileno(), CLONE_NEWNS))
            os.chdir(folder)


def _check(result: int) -> None:
    if result:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))


class SmallDisk:
    """A disk of `size_mb` at `folder`. Call only in a mount namespace of our own."""

    def __init__(self, folder: Path, size_mb: int = SIZE_MB) -> None:
        folder.mkdir()
        options = f"size={size_mb}m,mode=0755"
        subprocess.run(["mount", "-t", "tmpfs", "-o", options, "wakeboard-chaos", str(folder)], check=True)
        self.folder = folder
        self._ballast = folder / "ballast"

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        subprocess.run(["umount", "--lazy", str(self.folder)], check=True)

    def fill(self) -> None:
        """Writes until the disk is full. It may be called again."""
        piece = b"\0" * PIECE
        with suppress(OSError), self._ballast.open("ab", buffering=0) as file:
            while file.write(piece) == PIECE:
                pass
        with suppress(OSError), self._ballast.open("ab", buffering=0) as file:
            while file.write(piece[:4096]):
                pass

    def free(self) -> None:
        """Frees the space."""
        self._ballast.unlink(missing_ok=True)
