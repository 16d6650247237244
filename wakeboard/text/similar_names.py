"""The name that a misspelled one probably means."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from difflib import get_close_matches
from typing import cast


def closest(word: str, known: Iterable[str] | Mapping[str, str], cutoff: float = 0.6) -> str | None:
    """The name in `known` that is most similar to `word`, whatever their case and separators; None if none is similar.

    A mapping has names under what is compared. `cutoff`: the least similarity, from 0 to 1.
    """
    names = cast("Mapping[str, str]", known) if isinstance(known, Mapping) else {name: name for name in known}
    by_letters = {letters(compared): name for compared, name in names.items()}
    found = get_close_matches(letters(word), by_letters, n=1, cutoff=cutoff)
    return by_letters[found[0]] if found else None


def letters(word: str) -> str:
    """`word` in lower case and without separators."""
    return re.sub(r"[\W_]", "", word).lower()
