"""Reads the payload argument of enqueue, replay and run-now: JSON, a file or standard input."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

from wakeboard.errors import InvalidValue
from wakeboard.text.canonical_json import parse_payload


def read_payload(text: str) -> Any:
    """The payload of JSON, of `@FILE`, or of `-` for standard input. Raises InvalidValue with a valid example.

    It reads at most 4 MiB, and of files only regular ones: a device never ends, and a pipe may never begin.
    """
    if text == "-" or text.startswith("@"):
        return parse_payload(_content(text))
    return parse_payload(text)


def _content(source: str) -> str:
    from wakeboard.declared.bounded_file import MAX_FILE_BYTES, Unreadable, decode, read_text

    where = "payload on standard input" if source == "-" else f"payload's file {source[1:]!r}"
    try:
        return decode(sys.stdin.buffer.read(MAX_FILE_BYTES + 1)) if source == "-" else read_text(Path(source[1:]))
    except (OSError, ValueError, Unreadable) as exc:
        problem = getattr(exc, "strerror", None) or str(exc).partition(";")[0]  # without the advice to split the file
        raise InvalidValue(f"the {where} cannot be read: {problem}.") from None
