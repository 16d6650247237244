"""Patterns of SQL's LIKE for values of a search."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from wakeboard.views.rules.run_search import Value


def like_pattern(value: Value) -> str:
    """The pattern that matches the whole value; `*` of a wild one matches any text."""
    escaped = re.sub(r"([\\%_])", r"\\\1", value.text)
    return escaped.replace("*", "%") if value.wild else escaped


def contains_pattern(value: Value) -> str:
    """The pattern that matches text that contains the value."""
    return f"%{like_pattern(value)}%"
