"""Reads untrusted files safely: only regular files, up to a maximum size, without blocking."""

from __future__ import annotations

import os
import stat
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from pathlib import Path

MAX_FILE_BYTES: Final = 4 << 20


class Unreadable(Exception):
    """A part of a file cannot be read. `line` is the line number; the message says what to write instead."""

    def __init__(self, line: int, message: str) -> None:
        super().__init__(message)
        self.line = line


def read_text(path: Path, max_bytes: int = MAX_FILE_BYTES) -> str:
    """Returns the text of a regular file. Links are followed, because Kubernetes mounts files as links.

    Pipes, sockets and devices are never opened, because opening one may block for ever.

    Raises:
        OSError: the file cannot be opened or read.
        Unreadable: it is not a regular file, too large, or not UTF-8.
    """
    _require_regular(path.stat())
    opened = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOCTTY)
    with open(opened, "rb") as file:  # noqa: PTH123 - a file descriptor
        _require_regular(os.fstat(opened))  # the path may have been replaced since the first check
        content = file.read(max_bytes + 1)
    return decode(content or b"", max_bytes)


def decode(content: bytes, max_bytes: int = MAX_FILE_BYTES) -> str:
    """Decodes UTF-8. Raises Unreadable if `content` is longer than `max_bytes` or not UTF-8."""
    if len(content) > max_bytes:
        raise Unreadable(1, f"the file is larger than {max_bytes >> 10:,} KiB; split it")
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        raise Unreadable(line, "this is not UTF-8; save the file as UTF-8") from error


def _require_regular(status: os.stat_result) -> None:
    if not stat.S_ISREG(status.st_mode):
        raise Unreadable(1, "this is not a regular file but a pipe, a device or a folder; replace or remove it")
