from __future__ import annotations

import struct
from datetime import UTC, datetime, timedelta
from importlib.metadata import version
from importlib.resources import files
from itertools import islice, pairwise

import pytest
from hypothesis import given

from tests.ticks.moments import ODD_ZONES, moments, zone_info, zones
from wakeboard.errors import InvalidSchedule
from wakeboard.ticks.zones import known_zones, periods_from, periods_in_year, tzdata_version


@given(moments, zones)
def test_the_wall_clock_of_a_period_is_that_of_the_zone(moment: datetime, zone: str):
    period = next(periods_from(zone, int(moment.timestamp())))
    assert period.start <= moment.timestamp() < period.end
    assert moment.astimezone(zone_info(zone)).utcoffset() == timedelta(seconds=period.offset)


@given(moments, zones)
def test_periods_follow_each_other_without_holes(moment: datetime, zone: str):
    for period, following in pairwise(islice(periods_from(zone, int(moment.timestamp())), 8)):
        assert period.end == following.start
        assert period.start < period.end


@pytest.mark.parametrize("zone", ODD_ZONES)
def test_every_clock_change_since_1970_begins_a_period(zone: str):
    starts = {period.start for year in range(1970, 2038) for period in periods_in_year(zone, year)}
    assert {change for change in clock_changes(zone) if 0 <= change < 2**31} <= starts


def test_clock_changes_are_never_less_than_six_days_apart():
    """Periods are looked for in strides of three days."""
    shortest = min(later - earlier for zone in known_zones() for earlier, later in pairwise(clock_changes(zone)))
    assert shortest > 6 * 86_400


def clock_changes(zone: str) -> list[int]:
    """The changes of the offset since 1900 as they stand in the zone's file (RFC 8536, version 2)."""
    data = files("tzdata").joinpath("zoneinfo", *zone.split("/")).read_bytes()
    _, _, _, times, types, letters = struct.unpack(">6l", data[20:44])
    at = 44 + times * 5 + types * 6 + letters  # tzdata's files have neither leap seconds nor indicators
    at = data.index(b"TZif", at)
    _, _, _, times, types, _ = struct.unpack(">6l", data[at + 20 : at + 44])
    at += 44
    moments = struct.unpack(f">{times}q", data[at : at + 8 * times])
    kinds = data[at + 8 * times : at + 9 * times]
    at += 9 * times
    offsets = [struct.unpack(">l", data[at + 6 * kind : at + 6 * kind + 4])[0] for kind in range(types)]
    changes, offset = list[int](), offsets[0]
    for moment, kind in zip(moments, kinds, strict=True):
        if offsets[kind] != offset and moment >= datetime(1900, 1, 1, tzinfo=UTC).timestamp():
            changes.append(moment)
        offset = offsets[kind]
    return changes


def test_the_zone_data_is_that_of_the_pinned_package():
    year, release = version("tzdata").split(".")[:2]
    assert tzdata_version() == f"{year}{'abcdefghijklmnopqrstuvwxyz'[int(release) - 1]}"


@pytest.mark.parametrize("zone", ["Europe/Lisboa", "europe/lisbon", "../zones", "/etc/localtime", "", "Europe"])
def test_a_path_that_is_not_a_zone_is_never_opened(zone: str):
    with pytest.raises(InvalidSchedule, match="is not a known time zone"):
        periods_in_year(zone, 2026)


def test_every_known_zone_has_data():
    for zone in known_zones():
        assert periods_in_year(zone, 2026)
