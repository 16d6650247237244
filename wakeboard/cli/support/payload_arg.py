"""Reads the payload argument of enqueue, replay and run-now: JSON, a file or standard input."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

from wakeboard.errors import InvalidValue
from wakeboard.rules.canonical_json import parse_payload


def read_payload(text: str) -> Any:
    """The payload of JSON, of `@FILE`, or of `-` for standard input. Raises InvalidValue with a valid example."""
    if text == "-":
        return parse_payload(sys.stdin.buffer.read())
    if text.startswith("@"):
        return parse_payload(_content(text[1:]))
    return parse_payload(text)


def _content(path: str) -> bytes:
    try:
        return Path(path).read_bytes()
    except (OSError, ValueError) as exc:
        problem = getattr(exc, "strerror", None) or str(exc)
        raise InvalidValue(f"the payload's file {path!r} cannot be read: {problem}.") from None
