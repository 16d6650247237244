"""What programs print and servers answer, as text that the board keeps: bounded, readable, storable."""

from __future__ import annotations

import codecs
import re
from typing import Final

LONGEST: Final = 8_000  # characters; escaped as JSON they are at most twice as many, which a result may have

# What a server may name. Of the others, some make half surrogate pairs (utf-7, unicode_escape), and some take minutes
# for a megabyte (punycode, idna), in which the worker does nothing else.
_CHARSETS: Final = re.compile(
    r"ascii|utf-8(-sig)?|utf-16.*|utf-32.*|iso8859-.*|cp\d+|koi8-.|mac-.*|shift_jis|euc_.*|gb.*|big5"
)

_COLOURS: Final = re.compile(r"\x1b\[[0-9;?]*[ -/]*[@-~]")  # and whatever else steers a terminal (ECMA-48, CSI)
_CONTROLS: Final = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f]")


def plain(text: str) -> str:
    """`text` without what steers terminals; other control characters become a replacement character."""
    return _CONTROLS.sub("\N{REPLACEMENT CHARACTER}", _COLOURS.sub("", text))


def readable(raw: bytes, charset: str = "utf-8") -> str:
    """Bytes as plain text, whatever they are; a charset that is not one of `_CHARSETS` counts as UTF-8."""
    try:
        text = raw.decode(charset if _CHARSETS.fullmatch(codecs.lookup(charset).name) else "utf-8", "replace")
    except (LookupError, ValueError):
        text = raw.decode("utf-8", "replace")
    return plain(text)
