from __future__ import annotations

import time
from datetime import UTC, datetime, timedelta
from itertools import islice
from typing import TYPE_CHECKING, Final

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.ticks.cron_expressions import cron_lines, daily_lines
from tests.ticks.moments import at, moments, on_the_wall, utc, zone_info, zones
from wakeboard.errors import InvalidSchedule
from wakeboard.ticks.compiled_ticks import ticks_for
from wakeboard.ticks.cron_parser import parse_cron
from wakeboard.ticks.dst_ticks import DstTicks
from wakeboard.ticks.zones import periods_from

if TYPE_CHECKING:
    from zoneinfo import ZoneInfo

    from wakeboard.ticks.compiled_cron import CronFields
    from wakeboard.ticks.dst_ticks import Gap, Overlap

LONGEST_GAP = timedelta(hours=25)  # Apia's day, and a bit

gaps = st.sampled_from(["Skip", "RunAfter"])
overlaps = st.sampled_from(["First", "Both"])


def tick_schedule(line: str, zone: str, gap: Gap = "RunAfter", overlap: Overlap = "First") -> DstTicks:
    return DstTicks(parse_cron(line, name="billing/report"), zone, gap, overlap)


# Clock changes of the past: those to come may still be called off.
GAPS: Final = """
# Lisbon, 2024-03-31: 01:00 is followed by 02:00
Europe/Lisbon | 30 1 * * * | RunAfter | 2024-03-30 12:00 | 03-31 02:00+01:00, 04-01 01:30+01:00
Europe/Lisbon | 30 1 * * * | Skip | 2024-03-30 12:00 | 04-01 01:30+01:00
Europe/Lisbon | 0 1 * * * | RunAfter | 2024-03-30 12:00 | 03-31 02:00+01:00, 04-01 01:00+01:00
Europe/Lisbon | 0 2 * * * | RunAfter | 2024-03-30 12:00 | 03-31 02:00+01:00, 04-01 02:00+01:00
Europe/Lisbon | */20 1 * * * | RunAfter | 2024-03-30 12:00 | 03-31 02:00+01:00, 04-01 01:00+01:00
Europe/Lisbon | 30 1,2 * * * | RunAfter | 2024-03-30 12:00 | 03-31 02:00+01:00, 03-31 02:30+01:00
Europe/Lisbon | 0 1,2 * * * | RunAfter | 2024-03-30 12:00 | 03-31 02:00+01:00, 04-01 01:00+01:00
# New York, 2024-03-10: 02:00 is followed by 03:00
America/New_York | 30 2 * * * | RunAfter | 2024-03-09 12:00 | 03-10 03:00-04:00, 03-11 02:30-04:00
America/New_York | 30 2 * * * | Skip | 2024-03-09 12:00 | 03-11 02:30-04:00
America/New_York | 30 2 10 3 * | Skip | 2024-03-09 12:00 | 2025-03-10 02:30-04:00
# Lord Howe, 2024-10-06: half an hour, 02:00 is followed by 02:30
Australia/Lord_Howe | 15 2 * * * | RunAfter | 2024-10-05 12:00 | 10-06 02:30+11:00, 10-07 02:15+11:00
Australia/Lord_Howe | 45 2 * * * | Skip | 2024-10-05 12:00 | 10-06 02:45+11:00, 10-07 02:45+11:00
# Havana and Cairo: midnight does not exist
America/Havana | 0 0 * * * | RunAfter | 2024-03-09 12:00 | 03-10 01:00-04:00, 03-11 00:00-04:00
America/Havana | 0 0 * * * | Skip | 2024-03-09 12:00 | 03-11 00:00-04:00
Africa/Cairo | 30 0 * * * | RunAfter | 2024-04-25 12:00 | 04-26 01:00+03:00, 04-27 00:30+03:00
# Apia went over the date line: 2011-12-30 does not exist
Pacific/Apia | 0 8 * * * | RunAfter | 2011-12-29 09:00 | 12-31 00:00+14:00, 12-31 08:00+14:00
Pacific/Apia | 0 8 * * * | Skip | 2011-12-29 09:00 | 12-31 08:00+14:00
Pacific/Apia | 0 0 * * FRI | RunAfter | 2011-12-29 09:00 | 12-31 00:00+14:00, 2012-01-06 00:00+14:00
# Kiritimati lost the last day of a year; Kathmandu began one a quarter of an hour late
Pacific/Kiritimati | 0 8 * * * | RunAfter | 1994-12-30 09:00 | 1995-01-01 00:00+14:00, 1995-01-01 08:00+14:00
Asia/Kathmandu | 5 0 * * * | RunAfter | 1985-12-31 09:00 | 1986-01-01 00:15+05:45, 1986-01-02 00:05+05:45
# Lisbon joined Greenwich as a year began, in the very second that it began in UTC too
Europe/Lisbon | 30 23 * * * | RunAfter | 1911-12-31 12:00 | 1912-01-01 00:00+00:00, 1912-01-01 23:30+00:00
# Casablanca has its DST the other way round: the clock goes forward when Ramadan ends
Africa/Casablanca | 30 2 * * * | RunAfter | 2024-04-13 12:00 | 04-14 03:00+01:00, 04-15 02:30+01:00
# Tehran gave clock changes up in 2022: the last gap was at midnight
Asia/Tehran | 30 0 * * * | RunAfter | 2022-03-21 12:00 | 03-22 01:00+04:30, 03-23 00:30+04:30
Asia/Tehran | 30 0 * * * | RunAfter | 2024-03-20 12:00 | 03-21 00:30+03:30, 03-22 00:30+03:30
"""
OVERLAPS: Final = """
# Lisbon, 2024-10-27: 01:00 to 02:00 comes twice
Europe/Lisbon | 30 1 * * * | First | 2024-10-26 12:00 | 10-27 01:30+01:00, 10-28 01:30+00:00
Europe/Lisbon | 30 1 * * * | Both | 2024-10-26 12:00 | 10-27 01:30+01:00, 10-27 01:30+00:00
Europe/Lisbon | 0 2 * * * | Both | 2024-10-26 12:00 | 10-27 02:00+00:00, 10-28 02:00+00:00
Europe/Lisbon | 0 1 * * * | Both | 2024-10-26 12:00 | 10-27 01:00+01:00, 10-27 01:00+00:00
Europe/Lisbon | */45 1 * * * | Both | 2024-10-27 00:30 | 10-27 01:00+01:00, 10-27 01:45+01:00, 10-27 01:00+00:00
# New York, 2024-11-03
America/New_York | 30 1 * * * | First | 2024-11-02 12:00 | 11-03 01:30-04:00, 11-04 01:30-05:00
America/New_York | 30 1 * * * | Both | 2024-11-02 12:00 | 11-03 01:30-04:00, 11-03 01:30-05:00
# Lord Howe, 2024-04-07: 01:30 to 02:00 comes twice
Australia/Lord_Howe | 45 1 * * * | Both | 2024-04-06 12:00 | 04-07 01:45+11:00, 04-07 01:45+10:30
Australia/Lord_Howe | 15 1 * * * | Both | 2024-04-06 12:00 | 04-07 01:15+11:00, 04-08 01:15+10:30
# Havana: midnight comes twice; Cairo: the last hour of a day does
America/Havana | 0 0 * * * | First | 2024-11-02 12:00 | 11-03 00:00-04:00, 11-04 00:00-05:00
America/Havana | 0 0 * * * | Both | 2024-11-02 12:00 | 11-03 00:00-04:00, 11-03 00:00-05:00
Africa/Cairo | 30 23 * * THU | First | 2024-10-30 12:00 | 10-31 23:30+03:00, 11-07 23:30+02:00
Africa/Cairo | 30 23 * * THU | Both | 2024-10-30 12:00 | 10-31 23:30+03:00, 10-31 23:30+02:00
# Casablanca: the clock goes back when Ramadan begins
Africa/Casablanca | 30 2 * * * | First | 2024-03-09 12:00 | 03-10 02:30+01:00, 03-11 02:30+00:00
Africa/Casablanca | 30 2 * * * | Both | 2024-03-09 12:00 | 03-10 02:30+01:00, 03-10 02:30+00:00
# Dhaka lived through the last hour of a year twice
Asia/Dhaka | 30 23 * * * | First | 2009-12-31 12:00 | 12-31 23:30+07:00, 2010-01-01 23:30+06:00
Asia/Dhaka | 30 23 * * * | Both | 2009-12-31 12:00 | 12-31 23:30+07:00, 12-31 23:30+06:00
Asia/Tehran | 30 23 * * * | Both | 2022-09-21 12:00 | 09-21 23:30+04:30, 09-21 23:30+03:30
# Kwajalein went over the date line the other way, and lived through almost a whole day twice
Pacific/Kwajalein | 0 8 * * * | First | 1969-09-29 12:00 | 09-30 08:00+11:00, 10-01 08:00-12:00
Pacific/Kwajalein | 0 8 * * * | Both | 1969-09-29 12:00 | 09-30 08:00+11:00, 09-30 08:00-12:00
"""
WILDCARD_HOURS: Final = """
Europe/Lisbon | 0 * * * * | 2024-03-30 23:30 | 03-31 00:00+00:00, 03-31 02:00+01:00, 03-31 03:00+01:00
Europe/Lisbon | 30 */2 * * * | 2024-03-30 23:30 | 03-31 00:30+00:00, 03-31 02:30+01:00
America/New_York | 0 */2 * * * | 2024-03-09 23:30 | 03-10 00:00-05:00, 03-10 04:00-04:00
Europe/Lisbon | 0 * * * * | 2024-10-27 00:30 | 10-27 01:00+01:00, 10-27 01:00+00:00, 10-27 02:00+00:00
Europe/Lisbon | 0 */3 * * * | 2024-10-26 23:30 | 10-27 00:00+01:00, 10-27 03:00+00:00
Australia/Lord_Howe | */20 * * * * | 2024-04-07 01:35 | 04-07 01:40+11:00, 04-07 01:40+10:30
Pacific/Apia | 0 * * * * | 2011-12-29 22:30 | 12-29 23:00-10:00, 12-31 00:00+14:00, 12-31 01:00+14:00
"""


def rows(table: str) -> list[list[str]]:
    """The cells of a table's lines, without comments."""
    return [line.split(" | ") for line in table.splitlines() if line and not line.startswith("#")]


@pytest.mark.parametrize(("zone", "line", "gap", "after", "expected"), rows(GAPS))
def test_a_tick_in_a_gap_is_dropped_or_runs_at_its_end(zone: str, line: str, gap: Gap, after: str, expected: str):
    assert_ticks(tick_schedule(line, zone, gap=gap), after, expected)


@pytest.mark.parametrize(("zone", "line", "overlap", "after", "expected"), rows(OVERLAPS))
def test_a_tick_in_an_overlap_counts_the_first_time_or_both(
    zone: str, line: str, overlap: Overlap, after: str, expected: str
):
    assert_ticks(tick_schedule(line, zone, overlap=overlap), after, expected)


@pytest.mark.parametrize(("zone", "line", "after", "expected"), rows(WILDCARD_HOURS))
@pytest.mark.parametrize(("gap", "overlap"), [("Skip", "First"), ("RunAfter", "Both")])
def test_a_wildcard_hour_follows_real_time_under_all_dst_rules(
    zone: str, line: str, after: str, expected: str, gap: Gap, overlap: Overlap
):
    assert_ticks(tick_schedule(line, zone, gap, overlap), after, expected)


def assert_ticks(ticks: DstTicks, after: str, expected: str) -> None:
    wanted = [tick if tick[4] == "-" else f"{after[:5]}{tick}" for tick in expected.split(", ")]
    assert on_the_wall(ticks.upcoming(at(after, ticks.zone), len(wanted)), ticks.zone) == wanted


def test_the_given_time_may_be_in_any_zone():
    daily = tick_schedule("0 8 * * *", "Europe/Lisbon")
    assert daily.next_tick(at("2026-07-01 12:00", "Asia/Tokyo")) == utc("2026-07-01 07:00")


def test_ticks_end_with_the_year_9998():
    assert tick_schedule("0 0 * * *", "Etc/UTC").next_tick(utc("9999-06-01")) is None
    assert tick_schedule("0 0 * * *", "Etc/UTC").upcoming(utc("9998-12-30 12:00"), 5) == [utc("9998-12-31")]


def test_a_zone_that_the_pinned_data_does_not_have_is_refused():
    with pytest.raises(InvalidSchedule, match="Mars/Olympus"):
        ticks_for("1 1 100 fffffffe 1ffe 2 - -", "Mars/Olympus", "Skip", "First").next_tick(utc("2026-01-01"))


@settings(max_examples=300)
@given(cron_lines, zones, gaps, overlaps, moments)
def test_ticks_ascend_and_each_is_the_next_of_every_time_before_it(
    line: str, zone: str, gap: Gap, overlap: Overlap, after: datetime
):
    ticks = tick_schedule(line, zone, gap, overlap)
    first, second, third = ticks.upcoming(after, 3)
    assert after < first < second < third
    for moment in (after, after + (first - after) // 2, first - timedelta(microseconds=1)):
        assert ticks.next_tick(moment) == first
    assert ticks.next_tick(first) == second


@st.composite
def near_clock_changes(draw: st.DrawFn) -> tuple[str, datetime]:
    """A zone, and a moment around one of its clock changes if it has any, where all is decided."""
    zone, moment = draw(zones), draw(moments)
    periods = islice(periods_from(zone, int(moment.timestamp())), 5)
    changes = [period.start for period in periods if period.shown_until != period.local_start]
    around = datetime.fromtimestamp(changes[0], UTC) if changes else moment
    return zone, around + draw(st.timedeltas(timedelta(hours=-36), timedelta(hours=6)))


@settings(max_examples=100)
@given(daily_lines, near_clock_changes(), gaps, overlaps)
def test_ticks_are_those_found_by_testing_every_minute(
    line: str, place: tuple[str, datetime], gap: Gap, overlap: Overlap
):
    zone, after = place
    until = after + timedelta(hours=36)
    found = tick_schedule(line, zone, gap, overlap).missed(after, until, newest=100_000)
    fields = parse_cron(line, name="billing/report")
    assert list(found.ticks) == ticks_minute_by_minute(fields, zone, gap, overlap, after, until)


def ticks_minute_by_minute(
    fields: CronFields, zone: str, gap: str, overlap: str, after: datetime, until: datetime
) -> list[datetime]:
    """The same by PEP 495 alone: every local minute is looked up with both folds."""
    if fields.follows_real_time:
        gap, overlap = "Skip", "Both"
    info = zone_info(zone)
    minute = after.astimezone(info).replace(tzinfo=None, second=0, microsecond=0) - LONGEST_GAP
    found: set[datetime] = set()
    for _ in range((until - after + 2 * LONGEST_GAP) // timedelta(minutes=1)):
        minute += timedelta(minutes=1)
        if named(fields, minute):
            found |= instants(minute, info, gap, overlap)
    return sorted(tick for tick in found if after < tick <= until)


def named(fields: CronFields, minute: datetime) -> bool:
    """Enough for lines without days."""
    return bool(fields.minutes >> minute.minute & 1 and fields.hours >> minute.hour & 1)


def instants(minute: datetime, info: ZoneInfo, gap: str, overlap: str) -> set[datetime]:
    first, second = minute.replace(tzinfo=info, fold=0), minute.replace(tzinfo=info, fold=1)
    before, after = first.utcoffset(), second.utcoffset()
    assert before is not None
    assert after is not None
    if before == after:
        return {first.astimezone(UTC)}
    if before > after:  # comes twice
        return {first.astimezone(UTC)} | ({second.astimezone(UTC)} if overlap == "Both" else set())
    return {end_of_gap(second.astimezone(UTC), info, before)} if gap == "RunAfter" else set()


def end_of_gap(instant: datetime, info: ZoneInfo, before: timedelta) -> datetime:
    """Read by the offset after the gap, a missing time lies before it; from there on, the first with another offset."""
    while instant.astimezone(info).utcoffset() == before:
        instant += timedelta(minutes=1)
    return instant


@settings(max_examples=300)
@given(daily_lines, near_clock_changes(), gaps, overlaps, st.integers(0, 40))
def test_missed_ticks_are_those_walked_one_by_one(
    line: str, place: tuple[str, datetime], gap: Gap, overlap: Overlap, newest: int
):
    zone, after = place
    ticks, until = tick_schedule(line, zone, gap, overlap), after + timedelta(days=9)
    walked: list[datetime] = []
    tick = ticks.next_tick(after)
    while tick is not None and tick <= until and len(walked) < 500:
        walked.append(tick)
        tick = ticks.next_tick(tick)
    until = walked[-1] if len(walked) == 500 else until
    skipped = walked[: max(len(walked) - newest, 0)]
    missed = ticks.missed(after, until, newest)
    assert missed.skipped == len(skipped)
    assert (missed.skipped_first, missed.skipped_last) == ((skipped[0], skipped[-1]) if skipped else (None, None))
    assert list(missed.ticks) == walked[len(skipped) :]


def test_missed_ticks_end_with_the_moment_itself():
    """A tick that is due now is due: `until` counts, `after`, the tick before, does not."""
    missed = tick_schedule("0 * * * *", "Etc/UTC").missed(utc("2026-01-01 08:00"), utc("2026-01-01 10:00"), newest=5)
    assert missed.ticks == (utc("2026-01-01 09:00"), utc("2026-01-01 10:00"))
    assert missed.skipped == 0


@pytest.mark.parametrize(("hours", "count"), [("1", 3), ("2", 3), ("1,2", 5)])
def test_a_tick_that_stands_for_one_in_a_gap_counts_once(hours: str, count: int):
    """Lisbon, 2024-03-31: the tick of 01:00 falls on the instant of 02:00."""
    daily = tick_schedule(f"0 {hours} * * *", "Europe/Lisbon")
    after, until = utc("2024-03-29 12:00"), utc("2024-04-01 12:00")
    assert len(daily.missed(after, until, newest=100).ticks) == count
    assert daily.missed(after, until, newest=0).skipped == count


def test_no_tick_is_missed_in_an_empty_interval():
    for until in ("2026-01-01 08:00", "2026-01-01 07:00"):
        missed = tick_schedule("* * * * *", "Etc/UTC").missed(utc("2026-01-01 08:00"), utc(until), newest=5)
        assert (missed.ticks, missed.skipped) == ((), 0)


@pytest.mark.parametrize("newest", [0, 1, 100])
def test_three_years_of_missed_minutely_ticks_take_no_time(newest: int):
    begun = time.process_time()
    missed = tick_schedule("* * * * *", "Europe/Lisbon").missed(utc("2023-01-01"), utc("2026-01-01"), newest)
    assert missed.skipped == (365 + 366 + 365) * 1440 - newest
    assert time.process_time() - begun < 0.5  # measured: 2 ms


@given(cron_lines, zones, gaps, overlaps, moments, st.integers(0, 5 * 1440))
def test_the_minutes_of_a_span_are_its_ticks(
    line: str, zone: str, gap: Gap, overlap: Overlap, begin: datetime, length: int
):
    ticks = tick_schedule(line, zone, gap, overlap)
    start = int(begin.timestamp()) // 60 * 60
    missed = ticks.missed(
        datetime.fromtimestamp(start - 1, UTC), datetime.fromtimestamp(start + length * 60 - 1, UTC), 10_000
    )

    bits = ticks.minutes(start, start + length * 60)

    assert [minute for minute in range(length) if bits >> minute & 1] == [
        (int(tick.timestamp()) - start) // 60 for tick in missed.ticks
    ]
    assert bits < 1 << length
