"""What the answer to an `http` run means for it: done, tried again, or dead. No I/O, no clock."""

from __future__ import annotations

from datetime import UTC, datetime
from http import HTTPStatus
from typing import Any, Final

from wakeboard.errors import Discard, RetryAfter

TRY_AGAIN: Final = frozenset({408, 425, 429})  # and 5xx
LONGEST_RETRY_AFTER_S: Final = 86_400.0
SHOWN: Final = 1_000  # characters of a body, in errors


class HttpError(Exception):
    """The request failed for now; it is tried again with the run's backoff."""


def verdict(status: int, retry_after: str | None, body: str, now: datetime) -> dict[str, Any]:
    """The run's result. Raises RetryAfter or HttpError for what may get better, and Discard for what will not."""
    if HTTPStatus.OK <= status < HTTPStatus.MULTIPLE_CHOICES:
        return {"status": status, "body": body}
    said = f"the server answered {status}: {body[:SHOWN].strip()}".rstrip(": ")
    if status not in TRY_AGAIN and status < HTTPStatus.INTERNAL_SERVER_ERROR:
        raise Discard(said)
    seconds = retry_after_s(retry_after, now)
    if seconds is None:
        raise HttpError(said)
    raise RetryAfter(seconds, said)


def retry_after_s(said: str | None, now: datetime) -> float | None:
    """Retry-After in seconds, of a number or an HTTP date (RFC 9110, 10.2.3): more than 0, at most a day.

    None where it says nothing, or that the time has come already: then the run's own backoff is the better answer.
    """
    said = (said or "").strip()
    if said.isascii() and said.isdecimal():
        seconds = float(said)
    else:
        from email.utils import parsedate_to_datetime

        try:
            moment = parsedate_to_datetime(said)
        except (ValueError, OverflowError):
            return None
        seconds = (moment.replace(tzinfo=moment.tzinfo or UTC) - now).total_seconds()
    return min(seconds, LONGEST_RETRY_AFTER_S) if seconds > 0 else None
