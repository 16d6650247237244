"""Makes text from users safe to show: it cannot control a terminal, forge a line, or fail to be encoded.

It replaces control characters (C0 with ESC, DEL, and C1 such as U+009B), Unicode line ends, marks that reorder text,
and lone surrogates. `printable` keeps line feeds and expands tabs; `one_line` replaces both. In JSON the same
characters are escaped, so that no information is lost.
"""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Callable

_UNSAFE: Final = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u206f\ud800-\udfff]"  # noqa: PLE2502, RUF100
)


def printable(text: str) -> str:
    """Text of several lines without unsafe characters."""
    return _UNSAFE.sub("\N{REPLACEMENT CHARACTER}", text.expandtabs(4))


def one_line(text: str) -> str:
    """Text as one line without unsafe characters; each run of white space becomes a space."""
    return printable(" ".join(text.split()))


def json_text(value: Any, indent: int | None = None, default: Callable[[Any], Any] = str) -> str:
    """A value as JSON text with unsafe characters escaped; `default` makes what has no JSON type into what has one."""
    return escaped(json.dumps(value, ensure_ascii=False, indent=indent, default=default))


def escaped(text: str) -> str:
    """Text with each unsafe character written as its escape in the quoted texts of JSON and YAML."""
    return _UNSAFE.sub(lambda found: f"\\u{ord(found[0]):04x}", text)


def shortened(text: str, most: int = 60) -> str:
    """The first `most` characters, with three dots if there are more, as shortened.sql: a value in a refusal."""
    return text if len(text) <= most else f"{text[:most]}..."
