"""Durations as users write them: a whole number and a unit, such as 90s, 5m, 26h or 7d."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from datetime import timedelta

PATTERN: Final = "[1-9][0-9]{0,7}[smhd]"
INTERVAL_IN_WORDS: Final = "a whole number with s, m, h or d, from 1s to 366d"
_UNITS: Final = {"s": 1, "m": 60, "h": 3600, "d": 86_400}
_DURATION: Final = re.compile(PATTERN)


def parse_duration(text: str) -> int | None:
    """The seconds of a duration; None if the text is none."""
    return int(text[:-1]) * _UNITS[text[-1]] if _DURATION.fullmatch(text) else None


def duration_text(span: timedelta) -> str:
    """A duration in the largest unit that divides it: "26h", "90s"."""
    seconds = int(span.total_seconds())
    unit = next(unit for unit in ("d", "h", "m", "s") if seconds % _UNITS[unit] == 0)
    return f"{seconds // _UNITS[unit]}{unit}"
