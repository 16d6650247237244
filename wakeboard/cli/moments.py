"""Moments and durations as people write them, and as programs read them."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta

from wakeboard.errors import WakeboardError

_UNITS = {"s": 1, "m": 60, "min": 60, "h": 3600, "d": 86_400, "w": 604_800}  # seconds
_DURATION = re.compile(r"(\d+(?:\.\d+)?)\s*(s|min|m|h|d|w)", re.IGNORECASE)


def clock(moment: datetime) -> str:
    """A moment to the second, in UTC."""
    return f"{moment.astimezone(UTC):%Y-%m-%d %H:%M:%S}"


def iso(moment: datetime) -> str:
    """A moment for programs: 2026-03-29T01:00:00.000Z."""
    return moment.astimezone(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def read_duration(text: str) -> timedelta:
    """What a person wrote: 90s, 10m, 2h, 3d, 1w, or several (1h30m). Raises WakeboardError."""
    parts = _DURATION.findall(text)
    if not parts or _DURATION.sub("", text).strip():
        raise WakeboardError(f"{text!r} is no length of time; write for example 90s, 10m, 2h or 3d.")
    try:
        return timedelta(seconds=sum(float(number) * _UNITS[unit.lower()] for number, unit in parts))
    except OverflowError:
        raise WakeboardError(f"{text!r} is too long; write for example 90s, 10m, 2h or 3d.") from None


def read_moment(text: str) -> datetime:
    """An ISO 8601 moment; without an offset it is local time of this machine. Raises WakeboardError."""
    try:
        moment = datetime.fromisoformat(text.strip())
        return moment.astimezone(UTC)
    except (ValueError, OverflowError):
        raise WakeboardError(
            f"{text!r} is no moment; write for example 2026-03-29T08:00:00+01:00 or 2026-03-29T07:00Z."
        ) from None


def read_since(text: str, now: datetime) -> datetime:
    """What `--since` says: so long before `now` (2h), or a moment. Raises WakeboardError."""
    try:
        return now - read_duration(text) if _DURATION.match(text) else read_moment(text)
    except OverflowError:
        raise WakeboardError(f"{text!r} is before all time; write for example 2h or 3d.") from None
    except WakeboardError:
        raise WakeboardError(
            f"{text!r} is neither a length of time nor a moment; write for example 2h or 2026-03-29T08:00Z."
        ) from None
