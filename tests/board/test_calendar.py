"""The calendar of ticks, compared with enumerating them."""

from __future__ import annotations

import re
from datetime import UTC, date, datetime, timedelta
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.board.schedules import get, schedules_in
from tests.ticks.moments import zone_info, zones
from wakeboard.board.pages.calendar_days import segments_of
from wakeboard.ticks.cron_parser import parse_cron
from wakeboard.ticks.dst_ticks import DstTicks

if TYPE_CHECKING:
    from playwright.async_api import Browser

    from tests.board.schedules import Schedules

pytestmark = pytest.mark.anyio

CRONS = ("*/10 * * * *", "30 1 * * *", "0 2 * * *", "15 0 * * *", "0 */3 * * *", "7 1-3 * * *", "0 12 L * *")
ZONES = ("Europe/Lisbon", "America/New_York", "Australia/Lord_Howe", "Asia/Tokyo", "Etc/UTC")


def generate(schedules: Schedules) -> list[DstTicks]:
    """Some schedules of each kind, and their ticks."""
    found: list[DstTicks] = []
    for number in range(70):
        cron, zone = CRONS[number % 7], ZONES[number % 5]
        gap, overlap = ("Skip", "RunAfter")[number % 2], ("First", "Both")[number % 3 % 2]
        schedules.add(f"job-{number}", cron, time_zone=zone, dst_gap=gap, dst_overlap=overlap)
        found.append(DstTicks(parse_cron(cron, name="x"), zone, gap, overlap))  # pyright: ignore[reportArgumentType]
    return found


@pytest.mark.parametrize(
    ("zone", "day"),
    [
        ("Europe/Lisbon", date(2027, 3, 28)),
        ("America/New_York", date(2026, 11, 1)),
        ("Australia/Lord_Howe", date(2027, 4, 4)),
        ("Australia/Lord_Howe", date(2027, 10, 3)),
        ("Asia/Tokyo", date(2026, 11, 1)),
    ],
)
def test_the_counts_of_a_day_are_those_of_its_single_ticks(database: str, board: str, zone: str, day: date):
    if day < datetime.now(UTC).date():
        day = day.replace(year=day.year + 11)  # the same weekday
    with schedules_in(database) as schedules:
        all_ticks = generate(schedules)
    begin = datetime(day.year, day.month, day.day, tzinfo=zone_info(zone)).astimezone(UTC)
    next_day = day + timedelta(days=1)
    end = datetime(next_day.year, next_day.month, next_day.day, tzinfo=zone_info(zone)).astimezone(UTC)
    expected: dict[tuple[int, int], int] = {}
    for ticks in all_ticks:
        tick = ticks.next_tick(begin - timedelta(seconds=1))
        while tick is not None and tick < end:
            local = tick.astimezone(zone_info(zone))
            place = local.hour, local.fold
            expected[place] = expected.get(place, 0) + 1
            tick = ticks.next_tick(tick)

    page = get(board, f"/calendar?zone={zone}&day={day}")
    week = get(board, f"/calendar?zone={zone}&day={day}&view=week&frequent=1")

    rows = page.all(
        r'<th scope="row">(\d\d):\d\d( <span class="mark mark-change">second time)?.*?<td class="number">(.*?)</td>'
    )
    shown = {(int(hour), int(bool(second))): number(count) for hour, second, count in rows if number(count)}
    assert shown == expected
    assert f"{sum(expected.values()):,} ticks to come" in page.text
    first_days = week.all(r'<th scope="row">(\d\d):00</th>\s*<td class="[^"]*"[^>]*>(.*?)</td>')
    by_hour = {hour: sum(count for place, count in expected.items() if place[0] == hour) for hour, _ in expected}
    assert {int(hour): number(count) for hour, count in first_days if number(count)} == by_hour


def test_a_week_leaves_out_what_runs_each_hour_and_names_the_others(database: str, board: str):
    with schedules_in(database) as schedules:
        for name, cron in {
            "often": "*/10 * * * *",
            "nightly": "30 1 * * *",
            "hourly": "7 * * * *",
            "by-day": "7 1-20 * * *",
        }.items():
            schedules.add(name, cron, time_zone="Etc/UTC")
    week = get(board, "/calendar?zone=UTC&day=2060-11-01&view=week")
    assert "Without 2 schedules that run each hour or more often. Show them" in week.text
    assert week.all('class="cell-names">([^<]*)<').count("nightly, by-day") == 7
    assert f"{7 * 21} ticks to come" in week.text
    whole = get(board, "/calendar?zone=UTC&day=2060-11-01&view=week&frequent=1")
    assert f"{7 * (21 + 24 + 144):,} ticks to come" in whole.text
    chosen = get(board, "/calendar?zone=UTC&day=2060-11-01&view=week&at=2060-11-02T01:00Z&minutes=60")
    assert len(chosen.all(r'<td class="[^"]* chosen">')) == 1


# Until 2011 the clocks of Newfoundland went back at 00:01, from one day into the day before.
@given(zones, st.dates(date(2012, 1, 1), date(2100, 1, 1)))
def test_the_segments_of_a_day_cover_it_without_overlap(zone: str, day: date):
    segments = segments_of(zone, day)

    assert all(first.end == second.start for first, second in pairwise(segments))
    assert all(0 < segment.end - segment.start <= 3600 for segment in segments)
    for segment in segments:
        local = datetime.fromtimestamp(segment.start, zone_info(zone))
        assert (local.date(), local.hour, f"{local:%H:%M}") == (day, segment.hour, segment.label)
        assert segment.is_second == bool(local.fold)
    following = segments_of(zone, day + timedelta(days=1))
    assert not segments or not following or segments[-1].end == following[0].start


def test_clock_changes_are_announced_with_what_they_do(database: str, board: str):
    with schedules_in(database) as schedules:
        for number in range(3):
            schedules.add(f"moved-{number}", "30 1 * * *", time_zone="Europe/Lisbon")
        schedules.add("skipped", "30 1 * * *", time_zone="Europe/Lisbon", dst_gap="Skip", dst_overlap="Both")
        schedules.add("elsewhere", "0 12 * * *", time_zone="Asia/Tokyo")

    gap = get(board, "/calendar?zone=Europe/Lisbon&day=2027-03-28")
    week = get(board, "/calendar?zone=Europe/Lisbon&day=2027-03-24&view=week")
    double = get(board, "/calendar?zone=Europe/Lisbon&day=2027-10-31")
    elsewhere = get(board, "/calendar?zone=Asia/Tokyo&day=2027-03-28")
    hit = get(board, "/calendar?zone=Asia/Tokyo&day=2027-03-28&at=2027-03-28T01:00Z&minutes=60")

    sentence = "Europe/Lisbon: the clock goes from 01:00 to 02:00 at"
    assert all(sentence in page.text for page in (gap, week, elsewhere))
    assert "3 schedules will run after the gap; 1 schedule will skip its ticks in the gap." in gap.text
    assert "02:00 after the gap" in gap.text
    assert "01:00 second time" in double.text
    assert "3 schedules will run in the doubled time once; 1 schedule will run twice." in double.text
    assert len(week.all('class="gap"')) == 1
    assert "moved from 01:30, which does not exist on 2027-03-28" in hit.text
    assert "3 schedules Schedule" in hit.text


def test_a_full_cell_is_listed_page_by_page(database: str, board: str):
    with schedules_in(database) as schedules:
        ids = [schedules.add(f"job-{number % 90}", "0 0 * * *", source=f"file:{number}") for number in range(230)]

    found: list[str] = []
    path: str | None = "/calendar?zone=UTC&day=2027-06-01&at=2027-06-01T00:00Z&minutes=1"
    while path:
        page = get(board, path)
        found += page.all(r'<td><a class="job" href="/schedules/(\d+)"')
        links = page.all(r'Pages of the cell"><a rel="next" href="([^"]*)"')
        path = links[0] if links else None

    assert sorted(map(int, found)) == ids


def test_each_tick_of_an_interval_below_a_minute_counts(database: str, board: str):
    with schedules_in(database) as schedules:
        schedules.add("every-2", None, schedule="every 2s", cron_fields="every 2 0")
        schedules.add("every-45", None, schedule="every 45s", cron_fields="every 45 0 from=3900398440")

    page = get(board, "/calendar?zone=UTC&day=2093-08-06&at=2093-08-06T00:00Z&minutes=60&q=every-2")
    ends = get(board, "/calendar?zone=UTC&day=2093-08-06&q=every-45")

    assert "43,200 ticks to come, at most 30 in a minute" in page.text
    assert page.all(r'<td class="number"><a[^>]*>([^<]*)</a>') == ["1,800"] * 24
    assert "every-2 send_mail every 2 seconds every 2s Etc/UTC 1,800 Thu 00:00:00 , Thu 00:00:02" in page.text
    first = -(-3_900_398_440 // 45) * 45
    assert f"{len(range(first, 3_900_441_600, 45)):,} ticks to come, at most 2 in a minute" in ends.text


def test_h_is_advised_only_for_minutes_that_a_schedule_names(database: str, board: str):
    with schedules_in(database) as schedules:
        for number in range(12):
            schedules.add(f"spread-{number}", "0 5 * * *", schedule="H(0-0) 5 * * *")
        schedules.add("fixed", "0 5 * * *")
    advice = "instead of a fixed minute"

    spread, mixed = (get(board, f"/calendar?zone=UTC&day=2060-06-01&q={words}") for words in ("spread", "billing"))

    assert ("12 at 05:00" in spread.text, advice in spread.text) == (True, False)
    assert ("13 at 05:00" in mixed.text, advice in mixed.text) == (True, True)


def test_paused_schedules_and_past_ticks_do_not_count(database: str, board: str):
    with schedules_in(database) as schedules:
        schedules.add("runs", "* * * * *")
        schedules.add("asleep", "* * * * *", suspended=True)
        held = schedules.add("held", "* * * * *")
        schedules.conn.execute("select wakeboard.pause(%s)", [f"schedule:{held}"])
        now = schedules.now()
        opened: dict[str, Any] = {"circuit_opened_at": now, "circuit_probe_at": now, "circuit_probes": 0}
        schedules.add("broken", "* * * * *", suspend_after_dead=2, **opened)

    tomorrow = get(board, f"/calendar?zone=UTC&day={datetime.now(UTC).date() + timedelta(days=1)}")
    today = get(board, "/calendar?zone=UTC")
    yesterday = get(board, f"/calendar?zone=UTC&day={datetime.now(UTC).date() - timedelta(days=1)}")

    assert "1,440 ticks to come, at most 1 in a minute" in tomorrow.text
    assert "Without 1 paused , 1 circuit open and 1 suspended" in tomorrow.text
    (left,) = re.findall("([0-9,]+) ticks? to come", today.text)
    assert int(left.replace(",", "")) < 1440
    assert "0 ticks to come" in yesterday.text


async def test_the_calendar_begins_in_the_zone_of_the_browser(database: str, board: str, browser: Browser):
    with schedules_in(database) as schedules:
        schedules.add("job", "0 0 * * *")
    context = await browser.new_context(timezone_id="Asia/Tokyo")
    page = await context.new_page()

    await page.goto(board + "/calendar?day=2027-06-01")
    await page.wait_for_url("**/calendar?day=2027-06-01&zone=Asia%2FTokyo")

    row = page.locator(".heat-day tbody tr", has_text="09:00")
    assert (await row.inner_text()).split() == ["09:00", "1", "1"]
    await context.close()


@pytest.mark.parametrize(
    ("query", "sentence"),
    [
        ("day=tomorrow", "Day is 'tomorrow': write for example 2027-03-28"),
        ("day=9999-01-01", "choose one from 1971-01-01 to 2199-12-31"),
        ("view=month", "View is 'month': choose one of day, week"),
        ("at=now", "At is 'now': write for example 2027-03-28T01:00Z"),
        ("at=2027-01-01T00:00Z&minutes=100000", "Minutes is '100000': write 1 to 180"),
    ],
)
def test_a_wrong_parameter_gets_a_sentence(board: str, query: str, sentence: str):
    answer = get(board, f"/calendar?{query}")

    assert answer.status == 400
    assert sentence in answer.text


def number(cell: str) -> int:
    """The number in the source of a cell; 0 for none."""
    exact = re.search(r'title="([0-9,]+) tick', cell)
    text = exact[1] if exact else re.sub(r"<[^>]*>", "", cell).strip()
    return int(text.replace(",", "")) if text[:1].isdigit() else 0
