"""The zone in which people see and write times: UTC, unless `--zone` or WAKEBOARD_ZONE says otherwise.

It is set once, when a command starts. JSON, logs and the database have UTC whatever it is.
"""

from __future__ import annotations

from datetime import UTC, datetime, tzinfo

from wakeboard.errors import InvalidValue

LOCAL = "local"  # the machine's own zone
_UTC_NAMES = frozenset({"", "UTC", "Etc/UTC"})

_name = "UTC"
_zone: tzinfo | None = UTC  # None: the machine's own


def use_zone(name: str) -> None:
    """Shows and reads times in the zone of this IANA name, or `local`. Raises InvalidValue for any other name."""
    global _name, _zone
    if name in _UTC_NAMES:
        _name, _zone = "UTC", UTC
    elif name == LOCAL:
        _name, _zone = "local time", None
    else:
        from wakeboard.zones import known_zones, zone_info

        if name not in known_zones():
            raise InvalidValue(
                f"--zone {name[:60]!r} is not known; write local, UTC or an IANA name, for example Europe/Lisbon."
            )
        _name, _zone = name, zone_info(name)


def zone_label() -> str:
    """What the zone is called above a column of times."""
    return _name


def in_zone(moment: datetime) -> datetime:
    """The same moment as the clock of the zone shows it."""
    return moment.astimezone(_zone)


def of_zone(moment: datetime) -> datetime:
    """What a moment that was written without an offset means; one with an offset stays."""
    return moment.replace(tzinfo=_zone).astimezone(UTC) if moment.tzinfo is None else moment.astimezone(UTC)


def offset_of(moment: datetime) -> str:
    """What follows a time of day, so that it is one moment: "UTC" or "+01:00"."""
    return "UTC" if _zone is UTC else in_zone(moment).isoformat()[-6:]
