"""What the API server does with a schedule's CEL rules, in Python: the same patterns, the same order."""

from __future__ import annotations

import re

from wakeboard.schedules.rules.admission_rules import (
    CRON_EXPRESSION,
    FIELD,
    FIELDS,
    MONTHS,
    NAMED_RANGE,
    NEVER_IN_FEBRUARY,
    NEVER_THE_31ST,
    NUMERIC_RANGE,
    WEEKDAYS,
)


def admitted(line: str) -> bool:
    """Whether no rule refuses it."""
    capitals = upper_ascii(line)
    fields = re.findall(FIELD, capitals)
    return (
        1 <= len(line) <= 100
        and "TZ=" not in capitals
        and re.fullmatch(CRON_EXPRESSION, capitals) is not None
        and (len(fields) != len(FIELDS) or all(map(_matches, FIELDS, fields)))
        and all(_ascends(span, numeric=True) for span in re.findall(NUMERIC_RANGE, line))
        and all(_ascends(span, numeric=False) for span in re.findall(NAMED_RANGE, capitals))
        and not any(re.fullmatch(never, capitals) for never in (NEVER_IN_FEBRUARY, NEVER_THE_31ST))
    )


def upper_ascii(text: str) -> str:
    """CEL's upperAscii: other letters stay as they are."""
    return "".join(letter.upper() if letter.isascii() else letter for letter in text)


def _matches(field: tuple[str, str, str], text: str) -> bool:
    pattern, _, _ = field
    return re.fullmatch(pattern, f"{text},") is not None


def _ascends(span: str, *, numeric: bool) -> bool:
    first, last = span.split("-")
    if numeric:
        return int(first) <= int(last)
    order = f"{MONTHS} {WEEKDAYS}"
    return last == "SUN" or order.find(first) <= order.find(last)
