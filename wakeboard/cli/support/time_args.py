"""Parses times and durations in arguments, and formats times for users and for JSON."""

from __future__ import annotations

import re
from datetime import datetime, timedelta

from wakeboard.errors import InvalidValue
from wakeboard.process.display_zone import in_zone, of_zone, offset_of

_UNITS = {"s": 1, "m": 60, "min": 60, "h": 3600, "d": 86_400, "w": 604_800}  # seconds
_DURATION = re.compile(r"(\d+(?:\.\d+)?)\s*(s|min|m|h|d|w)", re.IGNORECASE)


def with_offset(time: datetime) -> str:
    """A time in the display zone, to the second, with its offset."""
    return f"{in_display_zone(time)} {offset_of(time)}"


def in_display_zone(time: datetime) -> str:
    """A time in the display zone, to the second, without an offset."""
    return f"{in_zone(time):%Y-%m-%d %H:%M:%S}"


def parse_duration(text: str) -> timedelta:
    """Parses a duration: 90s, 10m, 2h, 3d, 1w, or several (1h30m). Raises InvalidValue."""
    parts = _DURATION.findall(text)
    if not parts or _DURATION.sub("", text).strip():
        raise InvalidValue(f"{text!r} is not a duration; write for example 90s, 10m, 2h or 3d.")
    try:
        return timedelta(seconds=sum(float(number) * _UNITS[unit.lower()] for number, unit in parts))
    except OverflowError:
        raise InvalidValue(f"{text!r} is too long; write for example 90s, 10m, 2h or 3d.") from None


def parse_time(text: str) -> datetime:
    """Parses an ISO 8601 time. Without an offset it is a time of the display zone. Raises InvalidValue."""
    try:
        return of_zone(datetime.fromisoformat(text.strip()))
    except (ValueError, OverflowError):
        raise InvalidValue(
            f"{text!r} is not an ISO 8601 time; write for example 2026-03-29T08:00:00+01:00 or 2026-03-29T07:00Z."
        ) from None


def parse_since(text: str) -> timedelta | datetime:
    """Parses `--since`: how long ago (2h), or a time. Raises InvalidValue."""
    try:
        return parse_duration(text) if _DURATION.match(text) else parse_time(text)
    except InvalidValue:
        raise InvalidValue(
            f"{text!r} is neither a duration nor an ISO 8601 time; write for example 2h or 2026-03-29T08:00Z."
        ) from None


def time_since(since: timedelta | datetime, now: datetime) -> datetime:
    """The time that `--since` means at `now`. Raises InvalidValue."""
    try:
        return now - since if isinstance(since, timedelta) else since
    except OverflowError:
        raise InvalidValue("--since is too long ago; write for example 2h or 3d.") from None


def time_after(duration: timedelta, now: datetime) -> datetime:
    """`duration` after `now`. Raises InvalidValue."""
    try:
        return now + duration
    except OverflowError:
        raise InvalidValue("that is too far in the future; write for example 10m or 2h.") from None
