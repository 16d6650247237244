"""Decides from the response to an `http` run whether the run succeeds, is retried, or is dead. No I/O, no clock."""

from __future__ import annotations

from http import HTTPStatus
from typing import TYPE_CHECKING, Any, Final

from wakeboard.errors import Discard, RetryAfter
from wakeboard.text.retry_after import retry_after_s

if TYPE_CHECKING:
    from datetime import datetime

RETRIED: Final = frozenset({408, 425, 429})  # and 5xx
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
