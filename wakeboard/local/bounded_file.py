"""Reads files that others may have written: only regular ones, up to a maximum size, and without blocking."""

from __future__ import annotations

import os
import stat
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from pathlib import Path

MOST_BYTES: Final = 4 << 20  # of one file


class Unreadable(Exception):
    """A part of a file cannot be read. `line` is its line; the message says what to write instead."""

    def __init__(self, line: int, sentence: str) -> None:
        super().__init__(sentence)
        self.line = line


def read_text(path: Path, most_bytes: int = MOST_BYTES) -> str:
    """The file's text. Links are followed (Kubernetes mounts files as links), to regular files only.

    Raises OSError, or Unreadable with the line. A pipe, a socket or a device is never opened: that may wait for ever.
    """
    _require_regular(path.stat())
    opened = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOCTTY)
    with open(opened, "rb") as file:  # noqa: PTH123 - a file descriptor
        _require_regular(os.fstat(opened))  # it may have been replaced meanwhile
        content = file.read(most_bytes + 1)
    return decoded(content or b"", most_bytes)


def decoded(content: bytes, most_bytes: int = MOST_BYTES) -> str:
    """Bytes as text. Raises Unreadable if there are more than `most_bytes` or they are not UTF-8."""
    if len(content) > most_bytes:
        raise Unreadable(1, f"the file is larger than {most_bytes >> 10:,} KiB; split it")
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        raise Unreadable(line, "this is not UTF-8; save the file as UTF-8") from error


def _require_regular(status: os.stat_result) -> None:
    if not stat.S_ISREG(status.st_mode):
        raise Unreadable(1, "this is not a regular file but a pipe, a device or a folder; replace or remove it")
