"""Decodes the output of programs and the bodies of responses into text that can be stored and shown in a terminal."""

from __future__ import annotations

import codecs
import re
from typing import Final

MAX_CHARACTERS: Final = 8_000  # escaped as JSON at most twice as many, which fits into a result

# The charsets that a server may declare. Of the others, some decode to lone surrogates (utf-7, unicode_escape), some
# block the event loop for minutes per megabyte (punycode, idna).
_CHARSETS: Final = re.compile(
    r"ascii|utf-8(-sig)?|utf-16.*|utf-32.*|iso8859-.*|cp\d+|koi8-.|mac-.*|shift_jis|euc_.*|gb.*|big5"
)

_ESCAPE_SEQUENCES: Final = re.compile(r"\x1b\[[0-9;?]*[ -/]*[@-~]")  # colours and cursor control (ECMA-48, CSI)
_CONTROLS: Final = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f]")


def printable(text: str) -> str:
    """Remove terminal escape sequences from `text` and replace other control characters."""
    return _CONTROLS.sub("\N{REPLACEMENT CHARACTER}", _ESCAPE_SEQUENCES.sub("", text))


def decode_output(raw: bytes, charset: str = "utf-8") -> str:
    """Decode bytes as plain text. Invalid bytes are replaced. A charset that is not in `_CHARSETS` is read as UTF-8."""
    try:
        text = raw.decode(charset if _CHARSETS.fullmatch(codecs.lookup(charset).name) else "utf-8", "replace")
    except (LookupError, ValueError):
        text = raw.decode("utf-8", "replace")
    return printable(text)
