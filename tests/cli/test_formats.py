"""How times, durations, tables and texts are parsed and printed."""

from __future__ import annotations

import time
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

import pytest
from rich.cells import cell_len

from wakeboard.cli.support.tables import Column, table
from wakeboard.cli.support.time_args import parse_duration, parse_since, parse_time, time_since, with_offset
from wakeboard.errors import InvalidValue, WakeboardError
from wakeboard.process.display_zone import use_zone
from wakeboard.text.humanize import lasted, relative
from wakeboard.views.rules.json_types import iso

if TYPE_CHECKING:
    from collections.abc import Iterator

NOW = datetime(2026, 3, 29, 12, 0, tzinfo=UTC)


@pytest.mark.parametrize(
    ("away", "text"),
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
        (timedelta(days=90), "in 3 months"),
        (timedelta(days=-4000), "11 years ago"),
    ],
)
def test_a_relative_time_has_one_unit(away: timedelta, text: str):
    assert relative(NOW + away, NOW) == text


def test_a_missing_time_is_a_dash():
    assert relative(None, NOW) == "-"


@pytest.mark.parametrize(
    ("span", "text"), [(0.0854, "85 ms"), (1.23, "1.2 s"), (42, "42 s"), (720, "12 min"), (10_800, "3 h"), (-5, "0 ms")]
)
def test_a_duration_is_formatted_with_one_unit(span: float, text: str):
    assert lasted(timedelta(seconds=span)) == text


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("90s", 90), ("10m", 600), ("10min", 600), ("2h", 7200), ("1h30m", 5400), ("0.5D", 43_200), ("1w", 604_800)],
)
def test_a_duration_is_parsed(text: str, seconds: int):
    assert parse_duration(text).total_seconds() == seconds


@pytest.mark.parametrize("text", ["", "5", "h", "-5m", "5 parsecs", "9" * 400 + "s"])
def test_an_invalid_duration_is_refused(text: str):
    with pytest.raises(WakeboardError, match="write for example 90s"):
        parse_duration(text)


@pytest.fixture
def in_kathmandu(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Sets the machine's time zone to Kathmandu."""
    monkeypatch.setenv("TZ", "Asia/Kathmandu")
    time.tzset()
    yield
    monkeypatch.undo()
    time.tzset()


@pytest.mark.usefixtures("in_kathmandu")
@pytest.mark.parametrize(
    ("zone", "parsed", "shown"),
    [
        ("UTC", "2026-03-29T08:00:00.000Z", "2026-03-29 12:00:00 UTC"),
        ("local", "2026-03-29T02:15:00.000Z", "2026-03-29 17:45:00 +05:45"),
        ("Europe/Lisbon", "2026-03-29T07:00:00.000Z", "2026-03-29 13:00:00 +01:00"),
    ],
)
def test_times_are_formatted_and_parsed_in_the_display_zone(zone: str, parsed: str, shown: str):
    use_zone(zone)

    assert with_offset(NOW) == shown
    assert iso(parse_time("2026-03-29T08:00")) == parsed
    assert iso(parse_time("2026-03-29T08:00+01:00")) == "2026-03-29T07:00:00.000Z"
    assert iso(parse_time("2026-03-29T08:00Z")) == "2026-03-29T08:00:00.000Z"


@pytest.mark.parametrize("name", ["Mars", "utc", "../etc/passwd", "Europe/Lisbon "])
def test_an_unknown_time_zone_is_refused(name: str):
    with pytest.raises(InvalidValue, match="is not a known time zone; write for example local, UTC"):
        use_zone(name)


def test_since_is_a_duration_or_a_time():
    assert time_since(parse_since("2h"), NOW) == NOW - timedelta(hours=2)
    assert time_since(parse_since("2026-03-28T00:00Z"), NOW) == NOW - timedelta(hours=36)
    for text in ("yesterday", "99999999w"):
        with pytest.raises(WakeboardError, match="write for example 2h"):
            time_since(parse_since(text), NOW)


def test_a_table_fits_the_terminal_and_counts_wide_characters_twice():
    columns = [Column("RUN OF", shrinks=True), Column("TRY", right=True), Column("DETAILS", shrinks=True)]
    rows = [["billing/日次レポートを送信する", "1/5", "接続がリセットされました" * 3], ["tokens", "-", "x"]]

    shown = [str(line) for line in table(columns, rows, 40)]

    assert all(cell_len(line) <= 40 for line in shown)
    assert shown[1].endswith("…")
    ends = {
        cell_len(line[: line.index(word) + len(word)]) for line, word in zip(shown, ("TRY", "1/5", "-"), strict=True)
    }
    assert len(ends) == 1


def test_a_narrow_terminal_cuts_the_name_last():
    columns = [Column("RUN OF", shrinks=True), Column("WHEN"), Column("DETAILS", shrinks=True)]
    rows = [["billing/close-the-month-of-march", "2 h ago", "ValueError: the other side result 503"]]

    assert str(table(columns, rows, 51)[1]) == "billing/close-the-month-of-march  2 h ago  ValueEr…"
    assert str(table(columns, rows, 45)[1]) == "billing/close-the-month-o…  2 h ago  ValueEr…"
