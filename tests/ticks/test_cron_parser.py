from __future__ import annotations

import contextlib
from datetime import datetime

import pytest
from croniter import croniter
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from tests.ticks.cron_expressions import cron_lines
from tests.ticks.moments import moments, utc
from wakeboard.errors import InvalidSchedule
from wakeboard.ticks.compiled_cron import CronFields
from wakeboard.ticks.cron_parser import parse_cron
from wakeboard.ticks.dst_ticks import DstTicks


def ticks_of(line: str, after: str, n: int = 3, name: str = "billing/report") -> list[str]:
    ticks = DstTicks(parse_cron(line, name=name), "Etc/UTC", "RunAfter", "First").upcoming(utc(after), n)
    return [f"{tick:%a %Y-%m-%d %H:%M}" for tick in ticks]


@pytest.mark.parametrize(
    ("line", "after", "expected"),
    [
        ("* * * * *", "2026-01-01 00:00", "Thu 2026-01-01 00:01, Thu 2026-01-01 00:02"),
        ("*/20 * * * *", "2026-01-01 00:30", "Thu 2026-01-01 00:40, Thu 2026-01-01 01:00"),
        ("5/20 * * * *", "2026-01-01 00:30", "Thu 2026-01-01 00:45, Thu 2026-01-01 01:05"),
        ("0 8 * * MON", "2026-01-01 00:00", "Mon 2026-01-05 08:00, Mon 2026-01-12 08:00"),
        ("0 8 * * mon-fri", "2026-01-02 08:00", "Mon 2026-01-05 08:00, Tue 2026-01-06 08:00"),
        ("30 6,18 1 JAN,jul *", "2026-01-01 07:00", "Thu 2026-01-01 18:30, Wed 2026-07-01 06:30"),
        ("0 9-17/4 * * *", "2026-01-01 00:00", "Thu 2026-01-01 09:00, Thu 2026-01-01 13:00, Thu 2026-01-01 17:00"),
        ("  0\t8  * * *\n", "2026-01-01 00:00", "Thu 2026-01-01 08:00"),
        # the short forms, never hashed
        ("@hourly", "2026-01-01 00:30", "Thu 2026-01-01 01:00, Thu 2026-01-01 02:00"),
        ("@daily", "2026-01-01 00:30", "Fri 2026-01-02 00:00"),
        ("@midnight", "2026-01-01 00:30", "Fri 2026-01-02 00:00"),
        ("@weekly", "2026-01-01 00:30", "Sun 2026-01-04 00:00"),
        ("@Monthly", "2026-01-01 00:30", "Sun 2026-02-01 00:00"),
        ("@yearly", "2026-01-01 00:30", "Fri 2027-01-01 00:00"),
        ("@annually", "2026-01-01 00:30", "Fri 2027-01-01 00:00"),
        # Sunday is 0 and 7, and a range may end with it
        ("0 0 * * 0", "2026-01-01 00:00", "Sun 2026-01-04 00:00, Sun 2026-01-11 00:00"),
        ("0 0 * * 7", "2026-01-01 00:00", "Sun 2026-01-04 00:00, Sun 2026-01-11 00:00"),
        ("0 0 * * 6-7", "2026-01-01 00:00", "Sat 2026-01-03 00:00, Sun 2026-01-04 00:00, Sat 2026-01-10 00:00"),
        ("0 0 * * SAT-SUN", "2026-01-01 00:00", "Sat 2026-01-03 00:00, Sun 2026-01-04 00:00, Sat 2026-01-10 00:00"),
        ("0 0 * * 1-7/3", "2026-01-01 00:00", "Sun 2026-01-04 00:00, Mon 2026-01-05 00:00, Thu 2026-01-08 00:00"),
        # the last day, and counted weekdays
        ("0 0 L * *", "2028-02-01 00:00", "Tue 2028-02-29 00:00, Fri 2028-03-31 00:00, Sun 2028-04-30 00:00"),
        ("0 0 15,L * *", "2026-02-01 00:00", "Sun 2026-02-15 00:00, Sat 2026-02-28 00:00, Sun 2026-03-15 00:00"),
        ("0 0 * * FRI#2", "2026-01-01 00:00", "Fri 2026-01-09 00:00, Fri 2026-02-13 00:00"),
        ("0 0 * * 5#1,5#3", "2026-01-01 00:00", "Fri 2026-01-02 00:00, Fri 2026-01-16 00:00, Fri 2026-02-06 00:00"),
        ("0 0 * * MON#5", "2026-01-01 00:00", "Mon 2026-03-30 00:00, Mon 2026-06-29 00:00"),
        ("0 0 * * L5", "2026-01-01 00:00", "Fri 2026-01-30 00:00, Fri 2026-02-27 00:00"),
        ("0 0 * * L7", "2026-01-01 00:00", "Sun 2026-01-25 00:00, Sun 2026-02-22 00:00"),
        # the day of the month or the day of the week, when both are restricted
        ("0 0 13 * FRI", "2026-01-01 00:00", "Fri 2026-01-02 00:00, Fri 2026-01-09 00:00, Tue 2026-01-13 00:00"),
        ("0 0 1 * MON#1", "2026-01-02 00:00", "Mon 2026-01-05 00:00, Sun 2026-02-01 00:00, Mon 2026-02-02 00:00"),
        ("0 0 31 2 MON", "2026-01-01 00:00", "Mon 2026-02-02 00:00, Mon 2026-02-09 00:00"),
        ("0 0 */1 * MON", "2026-01-01 00:00", "Mon 2026-01-05 00:00, Mon 2026-01-12 00:00"),
        ("0 0 */10 * MON", "2026-01-01 00:00", "Mon 2026-01-05 00:00, Sun 2026-01-11 00:00, Mon 2026-01-12 00:00"),
        # a range of one is one value
        ("5-5 8-8 * * *", "2026-01-01 00:00", "Thu 2026-01-01 08:05, Fri 2026-01-02 08:05"),
        ("0 0 * * MON-MON/2", "2026-01-01 00:00", "Mon 2026-01-05 00:00, Mon 2026-01-12 00:00"),
        # leap days, across a century that has none
        ("0 0 29 2 *", "2026-01-01 00:00", "Tue 2028-02-29 00:00, Sun 2032-02-29 00:00"),
        ("0 0 29 2 *", "2096-03-01 00:00", "Fri 2104-02-29 00:00"),
        ("0 0 * 2 MON#5", "2026-01-01 00:00", "Mon 2044-02-29 00:00, Mon 2072-02-29 00:00"),
    ],
)
def test_a_cron_expression_means_what_cron_means(line: str, after: str, expected: str):
    wanted = expected.split(", ")
    assert ticks_of(line, after, len(wanted)) == wanted


@pytest.mark.parametrize(
    ("line", "complaint", "example"),
    [
        ("", "is empty", "0 8 * * MON"),
        ("8 * * *", "has 4 fields, not five", "0 8 * * MON"),
        ("0 0 8 * * MON", "has 6 fields, not five", "0 8 * * MON"),
        ("0 0 8 * * MON 2026", "has 7 fields, not five", "0 8 * * MON"),
        ("tomorrow", "has 1 field, not five", "0 8 * * MON"),
        ("@reboot", "is not one of the short forms", "@hourly"),
        ("@every 5m", "is an interval, not a cron expression", "every: 5m"),
        ("every 20s", "is an interval, not a cron expression", "every: 5m"),
        ("at 2027-01-04T08:00:00Z", "is a moment, not a cron expression", "at: 2027-01-04T08:00:00Z"),
        ("TZ=Europe/Lisbon 0 8 * * *", "names a time zone", '"0 8 * * *" and timeZone: Europe/Lisbon'),
        ("CRON_TZ=Asia/Tokyo 0 8 * * *", "names a time zone", '"0 8 * * *" and timeZone: Asia/Tokyo'),
        ("61 8 * * *", 'the minute "61", which is not within 0-59', "*/15"),
        ("0 24 * * *", 'the hour "24", which is not within 0-23', "9-17"),
        ("0 0 0 * *", 'the day of the month "0", which is not within 1-31', "1,15"),
        ("0 0 1 13 *", 'the month "13", which is not within 1-12', "JAN-MAR"),
        ("0 0 * * 8", 'the day of the week "8", which is not within 0-7', "MON-FRI"),
        ("-5 * * * *", 'the minute "-5", which is not understood', "*/15"),
        ("0 8 * * MONDAY", 'the day of the week "MONDAY", which is not understood', "MON-FRI"),
        ("0 8 1,,2 * *", 'the day of the month "", which is not understood', "1,15"),
        ("*/0 * * * *", 'the minute "*/0", which steps by 0, not by 1-60', "*/15"),
        ("*/90 * * * *", 'the minute "*/90", which steps by 90, not by 1-60', "*/15"),
        ("10-5 * * * *", 'the minute "10-5", which runs backwards', "10-59,0-5"),
        ("0 22-6 * * *", 'the hour "22-6", which runs backwards', "22-23,0-6"),
        ("0 0 * NOV-FEB *", 'the month "NOV-FEB", which runs backwards', "NOV-DEC,JAN-FEB"),
        ("0 0 * * FRI-MON", 'the day of the week "FRI-MON", which runs backwards', "FRI-SAT,SUN-MON"),
        ("0 0 * * 5-0", 'the day of the week "5-0", which runs backwards', "5-7,0"),
        ("0 0 31 2 *", "names days that its months do not have", "0 0 L 2 *"),
        ("0 0 30-31 2 *", "names days that its months do not have", "0 0 L 2 *"),
        ("0 0 31 4,6,9,11 *", "names days that its months do not have", "0 0 L 4 *"),
        ("R * * * *", 'the minute "R", which is not understood', "H"),
        ("0 0 ? * *", 'the day of the month "?", which is not understood', "L"),
        ("0 0 15W * *", 'the day of the month "15W", which is not understood', "1,15"),
        ("0 0 L-3 * *", 'the day of the month "L-3", which is not understood', "L"),
        ("0 0 * * FRIL", 'the day of the week "FRIL", which is not understood', "L5"),
        ("0 0 * * MON#6", 'the day of the week "MON#6", which is not understood', "FRI#2"),
        ("0 0 * * MON,FRI#1", "mixes plain days with counted ones", "FRI#2"),
        ("0 0 * * *,FRI#1", "mixes plain days with counted ones", "FRI#2"),
        ("H,30 * * * *", "H must be alone in its field", "H/15"),
        ("H(10-5) * * * *", 'the minute "H(10-5)", which runs backwards', "H(0-59)"),
        ("H(0-99) * * * *", 'the minute "H(0-99)", which is not within 0-59', "H"),
        ("0 8 * *\u00a0*", "has 4 fields", "0 8 * * MON"),
        ("\u0660 8 * * *", 'the minute "\u0660", which is not understood', "*/15"),
    ],
)
def test_an_invalid_cron_expression_is_refused_with_what_to_write_instead(line: str, complaint: str, example: str):
    with pytest.raises(InvalidSchedule) as refused:
        parse_cron(line, name="billing/report")
    sentence = str(refused.value)
    assert f'schedule "{line}"' in sentence
    assert complaint in sentence
    assert example in sentence.partition("write for example")[2]


@given(st.one_of(st.text(max_size=30), st.text("0123456789*,-/#LHRW?@ MONFRIJA()", max_size=30), cron_lines))
def test_any_text_is_compiled_or_refused(line: str):
    with contextlib.suppress(InvalidSchedule):
        parse_cron(line, name="billing/report")


def test_the_error_for_a_cron_expression_of_any_length_is_short():
    with pytest.raises(InvalidSchedule) as refused:
        parse_cron("7" * 1_000_000, name="billing/report")
    assert len(str(refused.value)) < 400


@pytest.mark.parametrize(
    ("line", "name", "expected"),
    [
        ("H * * * *", "billing/report", "Thu 2026-01-01 00:22"),
        ("H H * * *", "billing/report", "Thu 2026-01-01 07:22"),
        ("H H * * *", "billing/cleanup", "Thu 2026-01-01 20:57"),
        ("H/15 * * * *", "billing/report", "Thu 2026-01-01 00:07"),
        ("0 H(1-5) * * *", "billing/report", "Thu 2026-01-01 02:00"),
        ("0 0 H * *", "billing/report", "Mon 2026-01-12 00:00"),
        ("0 0 * * H", "billing/report", "Sat 2026-01-03 00:00"),
    ],
)
def test_h_always_gives_one_name_the_same_time(line: str, name: str, expected: str):
    """Pinned: if these change, schedules that exist would move when they are next applied."""
    assert ticks_of(line, "2026-01-01 00:00", 1, name) == [expected]


def test_h_spreads_names_over_the_whole_day():
    """Drawn for each field separately: a minute does not decide about its hour."""
    fields = [parse_cron("H H * * *", name=f"team/report-{n}") for n in range(3000)]
    assert len({field.minutes for field in fields}) == 60
    assert len({field.hours for field in fields}) == 24
    assert len({(field.minutes, field.hours) for field in fields}) > 1200  # of 1,440; chance leaves some out


def test_h_as_a_day_is_one_that_every_month_has():
    days = {parse_cron("0 0 H * *", name=f"team/report-{n}").days for n in range(1000)}
    assert days == {1 << day for day in range(1, 29)}


def test_a_cron_expression_without_h_means_the_same_for_every_name():
    assert parse_cron("@daily", name="a/a") == parse_cron("0 0 * * *", name="b/b")


@pytest.mark.parametrize("hours", ["*", "*/2", "*/1", "8,*", "0-23", "H/6"])
def test_a_wildcard_hour_follows_real_time(hours: str):
    assert parse_cron(f"0 {hours} * * *", name="a/a").follows_real_time


@pytest.mark.parametrize("hours", ["8", "0-22", "0-23/2", "H", "H(0-12)/3"])
def test_named_hours_are_times_of_the_day(hours: str):
    assert not parse_cron(f"0 {hours} * * *", name="a/a").follows_real_time


@given(cron_lines)
def test_compiled_fields_can_be_read_from_their_text(line: str):
    fields = parse_cron(line, name="billing/report")
    text = fields.to_text()
    assert CronFields.from_text(text) == fields
    assert CronFields.from_text(text).to_text() == text
    assert len(text) < 100


def test_the_text_form_of_compiled_fields_never_changes():
    """It is stored in databases; a new form needs a new first word."""
    line = "*/15 8 L 1 FRI#2,L5"
    assert parse_cron(line, name="a/a").to_text() == "1 200040008001 100 0 2 0 5#0,5#2 le"


@pytest.mark.parametrize("text", ["", "1", "2 1 1 1 1 1 - -", "1 x 1 1 1 1 - -", "1 1 1 1 1 1 5 -", "0 8 * * MON"])
def test_a_text_that_is_not_of_compiled_fields_is_refused(text: str):
    with pytest.raises(InvalidSchedule, match="apply the schedule again"):
        CronFields.from_text(text)


@settings(max_examples=200)
@given(cron_lines, moments)
def test_ticks_are_those_of_croniter_where_the_clock_never_changes(line: str, after: datetime):
    _, _, day, _, weekday = line.split()
    assume(day == "*" or weekday == "*" or "*/" not in day + weekday)  # croniter takes some such fields for a bare *
    oracle = croniter(line, after, ret_type=datetime)
    expected = [oracle.get_next() for _ in range(4)]
    tick_schedule = DstTicks(parse_cron(line, name="billing/report"), "Etc/UTC", "RunAfter", "First")
    assert tick_schedule.upcoming(after, 4) == expected
