"""Detects changed files by comparing their modification times, sizes and inodes."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

WATCHED_SUFFIXES = {".yaml", ".yml", ".py", ".env"}
MAX_FILES = 20_000  # stop scanning a folder with more, which is probably a home folder given by mistake

_Fingerprint = tuple[int, int, int]  # modification time in ns, size, inode


class FileWatcher:
    """Watches a folder with its subfolders, except hidden ones, and single files elsewhere."""

    def __init__(self, folder: Path, files: Iterable[Path] = ()) -> None:
        self._folder = folder.absolute()
        self._files = list(files)
        self._known = self._scan()

    def changes(self) -> list[Path]:
        """Returns the files that were created, deleted or changed since the last call, as sorted absolute paths."""
        now = self._scan()
        before, self._known = self._known, now
        return sorted(path for path in before.keys() | now.keys() if before.get(path) != now.get(path))

    def set_files(self, files: Iterable[Path]) -> None:
        """Replaces the single files to watch. Changes since the last call of `changes` stay visible."""
        files = list(files)
        added = [file for file in files if file not in self._files and not file.absolute().is_relative_to(self._folder)]
        self._files = files
        self._known = {**_fingerprints(added), **self._known}

    def _scan(self) -> dict[Path, _Fingerprint]:
        return _fingerprints((*_watched_below(self._folder), *self._files))


def _fingerprints(paths: Iterable[Path]) -> dict[Path, _Fingerprint]:
    found: dict[Path, _Fingerprint] = {}
    for path in paths:
        with suppress(OSError):
            status = path.stat()
            found[path.absolute()] = (status.st_mtime_ns, status.st_size, status.st_ino)
    return found


def _watched_below(root: Path) -> Iterator[Path]:
    count = 0
    for folder, folders, files in os.walk(root):
        folders[:] = [name for name in folders if not name.startswith((".", "__"))]
        for name in files:
            if Path(name).suffix in WATCHED_SUFFIXES:
                yield Path(folder, name)
        count += len(files)
        if count > MAX_FILES:
            return


def module_files(modules: Iterable[str], import_paths: Sequence[Path]) -> list[Path]:
    """Returns the files that the modules may be loaded from, whether they exist or not."""
    paths = [root.joinpath(*module.split(".")) for module in modules for root in import_paths]
    return [file for path in paths for file in (path.with_name(path.name + ".py"), path / "__init__.py")]
