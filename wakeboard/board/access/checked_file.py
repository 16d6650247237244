"""A file that decides who may see something. It is read again when it changes, and an invalid one refuses all."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Final, Generic, TypeVar

from wakeboard.errors import InvalidSettings

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

CLOCK_TICK_NS: Final = 1_000_000_000  # file systems store times in steps of up to a second or so
MAX_BYTES: Final = 1 << 20
_Content = TypeVar("_Content")


class CheckedFile(Generic[_Content]):
    """What `parse` makes of the text of the file. Raises InvalidSettings if it is missing or invalid.

    `what`: the file in sentences, such as "token file".
    """

    def __init__(self, path: Path, what: str, parse: Callable[[str], _Content]) -> None:
        self._path, self._what, self._parse = path, what, parse
        self._stamp = self._read_stamp()
        self._content = parse(read_text(path, what))

    def content(self) -> _Content:
        """The content of the file as it is now. Raises InvalidSettings if it has become invalid."""
        stamp = self._read_stamp()
        if stamp != self._stamp or time.time_ns() - stamp[1] < CLOCK_TICK_NS:  # an edit may leave the same stamp
            self._content, self._stamp = self._parse(read_text(self._path, self._what)), stamp
        return self._content

    def _read_stamp(self) -> tuple[int, int, int]:
        try:
            found = self._path.stat()
        except OSError as exc:
            raise _unreadable(self._path, self._what, exc) from exc
        return found.st_ino, found.st_mtime_ns, found.st_size


def read_text(path: Path, what: str) -> str:
    """The text of a file of at most 1 MiB. Raises InvalidSettings."""
    try:
        with path.open("rb") as file:
            content = file.read(MAX_BYTES + 1)
    except OSError as exc:
        raise _unreadable(path, what, exc) from exc
    if len(content) > MAX_BYTES:
        raise InvalidSettings(f"the {what} {path} is larger than 1 MiB.")
    return content.decode("utf-8", "replace")


def _unreadable(path: Path, what: str, exc: OSError) -> InvalidSettings:
    return InvalidSettings(f"the {what} {path} cannot be read: {exc.strerror}.")
