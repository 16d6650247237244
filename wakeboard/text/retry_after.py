"""Reads the header Retry-After of a response. No I/O, no clock."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Final

MAX_RETRY_AFTER_S: Final = 86_400.0


def retry_after_s(header: str | None, now: datetime) -> float | None:
    """Return the seconds that a Retry-After header asks for: more than 0, at most a day.

    The header is a number or an HTTP date (RFC 9110, 10.2.3). None if it is missing, invalid or not in the future: then
    the run's own backoff applies.
    """
    header = (header or "").strip()
    if header.isascii() and header.isdecimal():
        seconds = float(header)
    else:
        from email.utils import parsedate_to_datetime

        try:
            moment = parsedate_to_datetime(header)
        except (ValueError, OverflowError):
            return None
        seconds = (moment.replace(tzinfo=moment.tzinfo or UTC) - now).total_seconds()
    return min(seconds, MAX_RETRY_AFTER_S) if seconds > 0 else None
