"""What programs print and servers answer, as text that the board keeps: bounded, readable, storable."""

from __future__ import annotations

import re
from typing import Final

LONGEST: Final = 8_000  # characters; escaped as JSON they are at most twice as many, which a result may have

_COLOURS: Final = re.compile(r"\x1b\[[0-9;?]*[ -/]*[@-~]")  # and whatever else steers a terminal (ECMA-48, CSI)
_CONTROLS: Final = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f]")


def plain(text: str) -> str:
    """`text` without what steers terminals; other control characters become a replacement character."""
    return _CONTROLS.sub("\N{REPLACEMENT CHARACTER}", _COLOURS.sub("", text))


def readable(raw: bytes, charset: str = "utf-8") -> str:
    """Bytes as plain text, whatever they are; an unknown charset counts as UTF-8."""
    try:
        text = raw.decode(charset, "replace")
    except (LookupError, ValueError):
        text = raw.decode("utf-8", "replace")
    return plain(text)
