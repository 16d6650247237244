"""A small disk for the server: a tmpfs of bounded size in a mount namespace of the campaign's own.

It needs root. The kernel removes the namespace and the disk when the campaign ends, however it ends.
"""

from __future__ import annotations

import os
import subprocess
from contextlib import suppress
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from pathlib import Path

SIZE_MB: Final = 640
OWN_MOUNTS: Final = ["unshare", "--mount", "--propagation", "private"]
PIECE: Final = 1 << 20


def can_mount() -> bool:
    """Whether this process may create a mount namespace and mount a file system in it."""
    if os.geteuid() != 0:
        return False
    command = [*OWN_MOUNTS, "mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", "/mnt"]
    try:
        return subprocess.run(command, capture_output=True, check=False, timeout=10).returncode == 0
    except OSError:
        return False


class SmallDisk:
    """A disk of SIZE_MB at `folder`. Call only in a mount namespace of our own."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir()
        options = f"size={SIZE_MB}m,mode=0755"
        subprocess.run(["mount", "-t", "tmpfs", "-o", options, "wakeboard-chaos", str(folder)], check=True)
        self.folder = folder
        self._ballast = folder / "ballast"

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
