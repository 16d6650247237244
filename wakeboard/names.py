"""The shapes that names may have: patterns that RE2, Python and Postgres read alike, and the same in words."""

from __future__ import annotations

from typing import Final

LABEL: Final = r"^[a-z0-9]([a-z0-9-]*[a-z0-9])?$"  # DNS-1123
SUBDOMAIN: Final = r"^[a-z0-9]([a-z0-9-]*[a-z0-9])?(\.[a-z0-9]([a-z0-9-]*[a-z0-9])?)*$"  # DNS-1123
WORD: Final = r"^[A-Za-z0-9][A-Za-z0-9._/-]*$"

IN_WORDS: Final = {
    LABEL: "lower-case letters, digits and inner hyphens",
    SUBDOMAIN: "lower-case letters, digits and inner hyphens and dots",
    WORD: "letters, digits, dots, underscores, slashes and hyphens, beginning with a letter or digit",
}
