"""Rates of starts, as users write them: 60/minute, 5/second, 1000/day, 10/30s."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final, Self

from wakeboard.errors import InvalidValue
from wakeboard.text.humanize import counted
from wakeboard.text.sanitize import one_line

MAX_COUNT: Final = 1_000_000  # the bounds of set_rate_limit.sql
MAX_PERIOD_S: Final = 2_678_400
EXAMPLES: Final = "write a number of runs and a time, such as 60/minute, 5/second or 100/30s"

_UNITS: Final = {
    "s": 1,
    "second": 1,
    "m": 60,
    "min": 60,
    "minute": 60,
    "h": 3600,
    "hour": 3600,
    "d": 86_400,
    "day": 86_400,
}
_NO_PLURALS: Final = frozenset({"", "ss", "ms", "hs", "ds"})  # ms are milliseconds
_WORDS: Final = ((86_400, "day", "d"), (3600, "hour", "h"), (60, "minute", "m"), (1, "second", "s"))
_RATE: Final = re.compile(r"([0-9]{1,7})\s*/\s*([0-9]{0,7})\s*([a-z]+)", re.ASCII | re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Rate:
    """`count` runs (1 to 1,000,000) each `period_s` seconds (1 to 2,678,400, which is 31 days)."""

    count: int
    period_s: int

    @classmethod
    def parse(cls, text: str) -> Self:
        """Raises InvalidValue with an example."""
        found = _RATE.fullmatch(text.strip())
        word = found[3].lower() if found else ""
        unit = _UNITS.get(word, _UNITS.get(word.removesuffix("s")) if word not in _NO_PLURALS else None)
        if not found or unit is None:
            raise InvalidValue(f"the rate is {one_line(text)[:40]!r}: {EXAMPLES}")
        rate = cls(int(found[1]), int(found[2] or 1) * unit)
        if not 1 <= rate.count <= MAX_COUNT:
            raise InvalidValue(f"the rate has {counted(rate.count, 'run')}: write 1 to 1000000, or `none`")
        if not 1 <= rate.period_s <= MAX_PERIOD_S:
            raise InvalidValue(f"the rate is per {rate.period_s} s: write 1 second to 31 days")
        return rate

    def __str__(self) -> str:
        """As `parse` reads it."""
        for seconds, word, letter in _WORDS:
            if self.period_s % seconds == 0:
                number = self.period_s // seconds
                return f"{self.count}/{word}" if number == 1 else f"{self.count}/{number}{letter}"
        raise AssertionError
