"""Times in a short notation, so that a table of cases can be read without counting hours."""

from __future__ import annotations

from datetime import UTC, datetime
from functools import cache
from importlib.resources import files
from typing import TYPE_CHECKING
from zoneinfo import ZoneInfo

from hypothesis import strategies as st

if TYPE_CHECKING:
    from collections.abc import Iterable

# Half hours, a lost day, negative DST, midnights that do not exist, rules that were given up, and the ordinary.
ODD_ZONES = (
    "Africa/Cairo",
    "Africa/Casablanca",
    "America/Havana",
    "America/New_York",
    "America/St_Johns",
    "Antarctica/Troll",
    "Asia/Gaza",
    "Asia/Kathmandu",
    "Asia/Tehran",
    "Atlantic/Azores",
    "Australia/Lord_Howe",
    "Europe/Dublin",
    "Europe/Lisbon",
    "Pacific/Apia",
    "Pacific/Kwajalein",
    "Etc/UTC",
)

moments = st.datetimes(datetime(1971, 1, 1), datetime(2060, 1, 1), timezones=st.just(UTC))
zones = st.sampled_from(ODD_ZONES)


@cache
def zone_info(zone: str) -> ZoneInfo:
    """The zone by the pinned data, not by this machine's."""
    with files("tzdata").joinpath("zoneinfo", *zone.split("/")).open("rb") as data:
        return ZoneInfo.from_file(data, key=zone)


def utc(text: str) -> datetime:
    """`2026-03-29 01:30` in UTC."""
    return datetime.fromisoformat(text).replace(tzinfo=UTC)


def at(text: str, zone: str) -> datetime:
    """`2026-03-29 01:30` on the wall clock of `zone`."""
    return datetime.fromisoformat(text).replace(tzinfo=zone_info(zone))


def on_the_wall(ticks: Iterable[datetime], zone: str) -> list[str]:
    """`2026-03-29 02:00+01:00` for each of `ticks`: what the wall clock of `zone` shows, and how far it is from UTC."""
    return [tick.astimezone(zone_info(zone)).isoformat(" ", "minutes") for tick in ticks]
