"""Moments and durations as people read and write them."""

from __future__ import annotations

import time
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

import pytest

from wakeboard.cli.time_args import clock, iso, moment_since, read_duration, read_moment, read_since
from wakeboard.display_zone import use_zone
from wakeboard.errors import InvalidValue, WakeboardError
from wakeboard.rules.humanize import lasted, relative

if TYPE_CHECKING:
    from collections.abc import Iterator

NOW = datetime(2026, 3, 29, 12, 0, tzinfo=UTC)


@pytest.mark.parametrize(
    ("away", "said"),
    [
        (timedelta(0), "now"),
        (timedelta(milliseconds=-400), "now"),
        (timedelta(seconds=1), "in 1 s"),
        (timedelta(seconds=-89), "89 s ago"),
        (timedelta(seconds=90), "in 2 min"),
        (timedelta(minutes=-89), "89 min ago"),
        (timedelta(hours=2), "in 2 h"),
        (timedelta(hours=-35), "35 h ago"),
        (timedelta(days=3), "in 3 days"),
        (timedelta(days=2) - timedelta(seconds=1), "in 2 days"),
        (timedelta(days=-4000), "2015-04-16"),
    ],
)
def test_how_far_a_moment_is(away: timedelta, said: str):
    assert relative(NOW + away, NOW) == said


def test_no_moment_is_a_dash():
    assert relative(None, NOW) == "-"


@pytest.mark.parametrize(
    ("span", "said"),
    [(0.0854, "85 ms"), (1.23, "1.2 s"), (42, "42 s"), (720, "12 min"), (10_800, "3 h"), (-5, "0 ms")],
)
def test_how_long_something_took(span: float, said: str):
    assert lasted(timedelta(seconds=span)) == said


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("90s", 90), ("10m", 600), ("10min", 600), ("2h", 7200), ("1h30m", 5400), ("0.5D", 43_200), ("1w", 604_800)],
)
def test_a_length_of_time_is_read(text: str, seconds: int):
    assert read_duration(text).total_seconds() == seconds


@pytest.mark.parametrize("text", ["", "5", "h", "-5m", "5 parsecs", "9" * 400 + "s"])
def test_what_is_no_length_of_time_is_refused(text: str):
    with pytest.raises(WakeboardError, match="write for example 90s"):
        read_duration(text)


@pytest.fixture
def in_kathmandu(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """This machine is far from UTC; afterwards times are shown in UTC again."""
    monkeypatch.setenv("TZ", "Asia/Kathmandu")
    time.tzset()
    yield
    use_zone("UTC")
    monkeypatch.undo()
    time.tzset()


@pytest.mark.usefixtures("in_kathmandu")
@pytest.mark.parametrize(
    ("zone", "moment", "shown"),
    [
        ("UTC", "2026-03-29T08:00:00.000Z", "2026-03-29 12:00:00 UTC"),
        ("local", "2026-03-29T02:15:00.000Z", "2026-03-29 17:45:00 +05:45"),
        ("Europe/Lisbon", "2026-03-29T07:00:00.000Z", "2026-03-29 13:00:00 +01:00"),
    ],
)
def test_times_are_shown_and_read_in_the_zone_that_is_asked_for(zone: str, moment: str, shown: str):
    use_zone(zone)

    assert clock(NOW) == shown
    assert iso(read_moment("2026-03-29T08:00")) == moment
    assert iso(read_moment("2026-03-29T08:00+01:00")) == "2026-03-29T07:00:00.000Z"
    assert iso(read_moment("2026-03-29T08:00Z")) == "2026-03-29T08:00:00.000Z"


@pytest.mark.parametrize("name", ["Mars", "utc", "../etc/passwd", "Europe/Lisbon "])
def test_a_zone_that_is_not_known_is_refused(name: str):
    with pytest.raises(InvalidValue, match="write local, UTC or an IANA name"):
        use_zone(name)


def test_since_takes_either():
    assert moment_since(read_since("2h"), NOW) == NOW - timedelta(hours=2)
    assert moment_since(read_since("2026-03-28T00:00Z"), NOW) == NOW - timedelta(hours=36)
    for text in ("yesterday", "99999999w"):
        with pytest.raises(WakeboardError, match="write for example 2h"):
            moment_since(read_since(text), NOW)
