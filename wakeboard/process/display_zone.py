"""The time zone in which commands print and read times: UTC, or that of `--zone` or WAKEBOARD_ZONE.

It is set once, when a command starts. JSON, logs and the database always use UTC.
"""

from __future__ import annotations

from datetime import UTC, datetime, tzinfo

from wakeboard.errors import InvalidValue

LOCAL = "local"  # the zone of this machine
_UTC_NAMES = frozenset({"", "UTC", "Etc/UTC"})

_name = "UTC"
_zone: tzinfo | None = UTC  # None: the zone of this machine


def use_zone(name: str, given_as: str = "--zone ") -> None:
    """Set the zone: an IANA name or `local`. Raises InvalidValue for any other name.

    `given_as`: what precedes the name in the error: how the user gave it.
    """
    global _name, _zone
    if name in _UTC_NAMES:
        _name, _zone = "UTC", UTC
    elif name == LOCAL:
        _name, _zone = "local time", None
    else:
        from wakeboard.ticks.zones import known_zones, unknown_zone, zone_info

        if name not in known_zones():
            raise InvalidValue(unknown_zone(f"{given_as}{name[:60]!r}", "local, UTC or Europe/Lisbon."))
        _name, _zone = name, zone_info(name)


def zone_label() -> str:
    """The name of the zone, for the heading of a column of times."""
    return _name


def in_zone(moment: datetime) -> datetime:
    """The same moment in the zone."""
    return moment.astimezone(_zone)


def of_zone(moment: datetime) -> datetime:
    """The moment in UTC. A datetime without an offset is a time in the zone."""
    return moment.replace(tzinfo=_zone).astimezone(UTC) if moment.tzinfo is None else moment.astimezone(UTC)


def offset_of(moment: datetime) -> str:
    """The offset of the zone at this moment: "UTC" or "+01:00"."""
    return "UTC" if _zone is UTC else in_zone(moment).isoformat()[-6:]
