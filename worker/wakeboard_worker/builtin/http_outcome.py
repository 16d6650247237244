"""Decides from the response to an `http` run whether the run succeeds, is retried, or is dead. No I/O, no clock."""

from __future__ import annotations

from datetime import UTC, datetime
from http import HTTPStatus
from typing import Any, Final

from wakeboard.errors import Discard, RetryAfter

RETRIED: Final = frozenset({408, 425, 429})  # and 5xx
MAX_RETRY_AFTER_S: Final = 86_400.0
SHOWN_CHARACTERS: Final = 1_000  # characters of a body, in errors


class HttpError(Exception):
    """The request failed. The run is retried with its backoff."""


def outcome_of(status: int, retry_after: str | None, body: str, now: datetime) -> dict[str, Any]:
    """Return the run's result. Raises RetryAfter or HttpError if a retry may succeed, otherwise Discard."""
    if HTTPStatus.OK <= status < HTTPStatus.MULTIPLE_CHOICES:
        return {"status": status, "body": body}
    message = f"the server answered {status}: {body[:SHOWN_CHARACTERS].strip()}".rstrip(": ")
    if status not in RETRIED and status < HTTPStatus.INTERNAL_SERVER_ERROR:
        raise Discard(message)
    seconds = retry_after_s(retry_after, now)
    if seconds is None:
        raise HttpError(message)
    raise RetryAfter(seconds, message)


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
