"""Archives whose bytes depend on their content alone, not on a clock, an account or the order of a directory."""

from __future__ import annotations

import gzip
import tarfile
from contextlib import ExitStack
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from pathlib import Path

READABLE: Final = 0o644
EXECUTABLE: Final = 0o755


def pack_folder(folder: Path, archive: Path, time: int) -> None:
    """Writes the files of a folder into a tar, compressed if its name ends with `gz`. Each gets the time `time`."""
    with ExitStack() as stack:
        file = stack.enter_context(archive.open("wb"))
        if archive.suffix in {".gz", ".tgz"}:
            file = stack.enter_context(gzip.GzipFile("", "wb", fileobj=file, mtime=time))
        tar = stack.enter_context(tarfile.open(fileobj=file, mode="w", format=tarfile.GNU_FORMAT))
        for path in sorted(path for path in folder.rglob("*") if path.is_file()):
            entry = tarfile.TarInfo(path.relative_to(folder).as_posix())
            entry.size, entry.mtime = path.stat().st_size, time
            entry.mode = EXECUTABLE if path.stat().st_mode & 0o100 else READABLE
            with path.open("rb") as content:
                tar.addfile(entry, content)


def unpack(archive: Path, folder: Path) -> None:
    """The files of a tar, compressed or not."""
    with tarfile.open(archive) as tar:
        tar.extractall(folder, filter="data")
