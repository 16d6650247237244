"""Moments and durations as people write them, and as programs read them."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta

from wakeboard.display_zone import in_zone, of_zone, offset_of
from wakeboard.errors import InvalidValue

_UNITS = {"s": 1, "m": 60, "min": 60, "h": 3600, "d": 86_400, "w": 604_800}  # seconds
_DURATION = re.compile(r"(\d+(?:\.\d+)?)\s*(s|min|m|h|d|w)", re.IGNORECASE)


def clock(moment: datetime) -> str:
    """A moment to the second, with its offset."""
    return f"{time_of(moment)} {offset_of(moment)}"


def time_of(moment: datetime) -> str:
    """A moment to the second where the zone is known."""
    return f"{in_zone(moment):%Y-%m-%d %H:%M:%S}"


def iso(moment: datetime) -> str:
    """A moment for programs: 2026-03-29T01:00:00.000Z."""
    return moment.astimezone(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def read_duration(text: str) -> timedelta:
    """Parses a length of time: 90s, 10m, 2h, 3d, 1w, or several (1h30m). Raises InvalidValue."""
    parts = _DURATION.findall(text)
    if not parts or _DURATION.sub("", text).strip():
        raise InvalidValue(f"{text!r} is no length of time; write for example 90s, 10m, 2h or 3d.")
    try:
        return timedelta(seconds=sum(float(number) * _UNITS[unit.lower()] for number, unit in parts))
    except OverflowError:
        raise InvalidValue(f"{text!r} is too long; write for example 90s, 10m, 2h or 3d.") from None


def read_moment(text: str) -> datetime:
    """An ISO 8601 moment; without an offset it is one of the zone in which times are shown. Raises InvalidValue."""
    try:
        return of_zone(datetime.fromisoformat(text.strip()))
    except (ValueError, OverflowError):
        raise InvalidValue(
            f"{text!r} is no moment; write for example 2026-03-29T08:00:00+01:00 or 2026-03-29T07:00Z."
        ) from None


def read_since(text: str) -> timedelta | datetime:
    """Parses `--since`: how long ago (2h), or a moment. Raises InvalidValue."""
    try:
        return read_duration(text) if _DURATION.match(text) else read_moment(text)
    except InvalidValue:
        raise InvalidValue(
            f"{text!r} is neither a length of time nor a moment; write for example 2h or 2026-03-29T08:00Z."
        ) from None


def moment_since(since: timedelta | datetime, now: datetime) -> datetime:
    """The moment that `--since` means at `now`. Raises InvalidValue."""
    try:
        return now - since if isinstance(since, timedelta) else since
    except OverflowError:
        raise InvalidValue("--since is too long ago; write for example 2h or 3d.") from None


def moment_after(span: timedelta, now: datetime) -> datetime:
    """`span` after `now`. Raises InvalidValue."""
    try:
        return now + span
    except OverflowError:
        raise InvalidValue("that is too far away; write for example 10m or 2h.") from None
