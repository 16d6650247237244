"""Patterns of valid names, with the same meaning in RE2, Python and Postgres, and their descriptions for errors."""

from __future__ import annotations

import json
import re
from typing import Final

from wakeboard.errors import InvalidValue, WakeboardError
from wakeboard.text.sanitize import shortened

LABEL: Final = r"^[a-z0-9]([a-z0-9-]*[a-z0-9])?$"  # DNS-1123
SUBDOMAIN: Final = r"^[a-z0-9]([a-z0-9-]*[a-z0-9])?(\.[a-z0-9]([a-z0-9-]*[a-z0-9])?)*$"  # DNS-1123
WORD: Final = r"^[A-Za-z0-9][A-Za-z0-9._/-]*$"

RESERVED: Final = "wakeboard."  # begins the job types whose runs the product itself makes; in SQL: refuse_value
PRINTABLE: Final = r"^[^\x01-\x1f\x7f-\x9f]+$"  # the keys of runs and effects, the names of steps

IN_WORDS: Final = {
    LABEL: "lower-case letters, digits and inner hyphens",
    SUBDOMAIN: "lower-case letters, digits and inner hyphens and dots",
    WORD: "letters, digits, dots, underscores, slashes and hyphens, beginning with a letter or digit",
}

RESERVED_IN_WORDS: Final = f"names that begin with {RESERVED} are of the product, write another one"

LONGEST_KEY: Final = 256  # characters


def check_utf8(text: str) -> None:
    """Raises InvalidValue for what is no text, and for half of a surrogate pair, which no database stores."""
    if not isinstance(text, str):  # pyright: ignore[reportUnnecessaryIsInstance]  it is the user's
        raise InvalidValue(f"a key or a name is of type {type(text).__name__}; write a text")
    try:
        text.encode()
    except UnicodeEncodeError as exc:
        raise InvalidValue(f"a text cannot be stored as UTF-8: {exc.reason}") from None


def check_key(key: str, what: str) -> None:
    """Raises WakeboardError for a key that the database would refuse, with the same message."""
    check_utf8(key)
    if len(key) > LONGEST_KEY or not re.fullmatch(PRINTABLE, key) or "\0" in key:
        shown = json.dumps(shortened(key), ensure_ascii=False)
        raise WakeboardError(f"{what} is {shown}; write 1 to 256 characters, no control characters")
