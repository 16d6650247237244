"""Text from users made safe to show: nothing in it steers a terminal, forges a line, or breaks an encoder.

Replaced are control characters (C0 with ESC, DEL, and C1 such as U+009B), Unicode's own line ends, marks that reorder
text, and lone surrogates. Tabs and line feeds stay in `printable` and go in `one_line`. In JSON nothing is lost: there
the same characters are escaped.
"""

from __future__ import annotations

import json
import re
from typing import Any, Final

_UNSAFE: Final = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u206f\ud800-\udfff]"  # noqa: PLE2502, RUF100
)


def printable(text: str) -> str:
    """Text of several lines without unsafe characters."""
    return _UNSAFE.sub("\N{REPLACEMENT CHARACTER}", text.expandtabs(4))


def one_line(text: str) -> str:
    """Text as one line without unsafe characters; each run of white space becomes a space."""
    return printable(" ".join(text.split()))


def json_text(value: Any, indent: int | None = None) -> str:
    """A value as JSON text in which unsafe characters are escaped; what JSON has no word for is shown as text."""
    text = json.dumps(value, ensure_ascii=False, indent=indent, default=str)
    return _UNSAFE.sub(lambda found: f"\\u{ord(found[0]):04x}", text)
