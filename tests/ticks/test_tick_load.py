"""The load of many schedules, compared with enumerating their ticks."""

from __future__ import annotations

import random
from collections import Counter
from datetime import UTC, datetime

import pytest

from tests.ticks.moments import ODD_ZONES, utc
from wakeboard.ticks.cron_parser import parse_cron
from wakeboard.ticks.tick_load import ClockChange, TickRule, clock_changes, minute_counts, pile_ups, rules_with_ticks

LINES = (
    "* * * * *", "*/5 * * * *", "0 * * * *", "30 1 * * *", "0 2 * * *", "15 */2 * * *", "0 0 * * MON", "*/20 1-3 * * *",
    "H H * * *", "0 0 L * *", "0 8 29 3 *", "59 23 * * *",
)  # fmt: skip


def rule(line: str, zone: str = "Etc/UTC", gap: str = "RunAfter", overlap: str = "First") -> TickRule:
    return TickRule(parse_cron(line, name="billing/report").to_text(), zone, gap, overlap)  # pyright: ignore[reportArgumentType]


def instant(text: str) -> int:
    return int(utc(text).timestamp())


def generated(seed: int, number: int) -> Counter[TickRule]:
    rng = random.Random(seed)
    return Counter(
        rule(rng.choice(LINES), rng.choice(ODD_ZONES), rng.choice(["Skip", "RunAfter"]), rng.choice(["First", "Both"]))
        for _ in range(number)
    )


@pytest.mark.parametrize("day", ["2027-03-28", "2026-11-01", "2027-03-14", "2026-10-04", "2027-04-04", "2026-12-31"])
def test_the_counts_are_those_of_the_single_ticks(day: str):
    rules = generated(7, 400)
    begin = instant(f"{day} 00:00") - 15 * 3600
    end = begin + 50 * 3600

    expected = [0] * 3000
    for each, schedules in rules.items():
        tick = each.ticks().next_tick(datetime.fromtimestamp(begin - 1, UTC))
        while tick is not None and tick.timestamp() < end:
            expected[(int(tick.timestamp()) - begin) // 60] += schedules
            tick = each.ticks().next_tick(tick)

    assert minute_counts(rules, begin, end) == expected


def test_the_rules_of_a_minute_are_those_with_a_tick_in_it():
    rules = [rule("0 8 * * *"), rule("5 8 * * *"), rule("0 8 * * *", "Europe/Lisbon")]

    found = rules_with_ticks(rules, instant("2026-12-01 08:00"), instant("2026-12-01 08:01"))

    assert found == [(rules[0], 1), (rules[2], 1)]  # Lisbon has the time of UTC in winter


def test_a_stored_rule_that_is_not_valid_has_no_ticks():
    unreadable = TickRule("0 ?", "Etc/UTC", "Skip", "First")
    unknown_zone = rule("30 1 * * *")._replace(time_zone="Mars/Olympus")

    assert minute_counts({unreadable: 3, unknown_zone: 1, rule("* * * * *"): 2}, 0, 120) == [2, 2]
    assert clock_changes({unreadable: 3, unknown_zone: 1}, 0, 86_400 * 300) == []


def test_a_pile_up_is_far_above_the_other_minutes():
    day = [0] * 1440
    midnight = [40, *day[1:]]

    assert pile_ups(midnight).single == [0]
    assert pile_ups([9, *day[1:]]).single == []
    assert pile_ups([100] * 1438 + [199, 240]).single == [1439]
    assert pile_ups([]) == pile_ups(day)


def test_a_minute_that_is_full_in_each_hour_is_listed_once():
    hourly = [60 if minute % 60 == 0 else 1 for minute in range(1440)]

    assert pile_ups(hourly).hourly == [0]
    assert pile_ups(hourly).single == []
    assert pile_ups([100, *hourly[1:]]).single == [0]


def test_a_clock_change_says_what_it_does_to_how_many_schedules():
    lisbon = "Europe/Lisbon"
    rules = {
        rule("30 1 * * *", lisbon): 5,
        rule("30 1 * * *", lisbon, "Skip", "Both"): 2,
        rule("*/15 * * * *", lisbon): 9,
        rule("0 12 * * *", lisbon): 1,
        rule("30 1 * * *", "Asia/Tokyo"): 4,
    }

    def change(begin: str) -> ClockChange:
        (found,) = clock_changes(rules, instant(begin), instant(begin) + 86_400)
        return found

    gap = change("2027-03-28 00:00")
    double = change("2026-10-25 00:00")

    assert gap == ClockChange(lisbon, utc("2027-03-28 01:00"), "01:00", "02:00", True, 5, 2, 0, 0)
    assert double == ClockChange(lisbon, utc("2026-10-25 01:00"), "02:00", "01:00", False, 0, 0, 5, 2)
    assert clock_changes(rules, instant("2027-03-29 00:00"), instant("2027-04-29 00:00")) == []
