"""Notices that files have changed, by looking at their times and sizes; nothing to install, and it works everywhere."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

WATCHED = {".yaml", ".yml", ".py", ".env"}
MOST_FILES = 20_000  # a folder with more is somebody's home, not a folder of schedules

_State = tuple[int, int, int]  # when it was changed (ns), its size, its inode


class FileWatcher:
    """Looks at a folder with all below it, but not into hidden folders, and at single files elsewhere."""

    def __init__(self, folder: Path, files: Iterable[Path] = ()) -> None:
        self._folder = folder
        self._files = list(files)
        self._seen = self._look()

    def changes(self) -> list[Path]:
        """The files that came, went or changed since the last call, in order, each by its absolute path once."""
        now = self._look()
        before, self._seen = self._seen, now
        return sorted(path for path in before.keys() | now.keys() if before.get(path) != now.get(path))

    def also(self, files: Iterable[Path]) -> None:
        """Looks at these single files from now on, in place of those before."""
        self._files = list(files)
        self._seen = {**self._look(), **self._seen}  # what changed meanwhile is still news

    def _look(self) -> dict[Path, _State]:
        seen: dict[Path, _State] = {}
        for path in (*_watched_below(self._folder), *self._files):
            with suppress(OSError):
                status = path.stat()
                seen[path.absolute()] = (status.st_mtime_ns, status.st_size, status.st_ino)
        return seen


def _watched_below(folder: Path) -> Iterator[Path]:
    found = 0
    for place, folders, files in os.walk(folder):
        folders[:] = [name for name in folders if not name.startswith((".", "__"))]
        for name in files:
            if Path(name).suffix in WATCHED:
                yield Path(place, name)
        found += len(files)
        if found > MOST_FILES:
            return


def module_files(modules: Iterable[str], places: Sequence[Path]) -> list[Path]:
    """The files in which the modules stand below `places`, whether they are there yet or not."""
    wanted = [place.joinpath(*module.split(".")) for module in modules for place in places]
    return [file for path in wanted for file in (path.with_name(path.name + ".py"), path / "__init__.py")]
