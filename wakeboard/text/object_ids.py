"""The ids of runs and schedules: positive numbers of the type bigint. Checks those that users and links contain."""

from __future__ import annotations

from typing import Final

LARGEST_ID: Final = (1 << 63) - 1
_MOST_DIGITS: Final = len(str(LARGEST_ID))


def parse_id(text: str) -> int | None:
    """The id that decimal digits stand for, with or without leading zeros; None: no run or schedule can have it."""
    if not (text.isascii() and text.isdecimal() and len(text.lstrip("0")) <= _MOST_DIGITS):
        return None
    number = int(text.lstrip("0") or "0")
    return number if is_id(number) else None


def is_id(number: object) -> bool:
    """Whether a run or a schedule may have this id."""
    return isinstance(number, int) and not isinstance(number, bool) and 1 <= number <= LARGEST_ID
