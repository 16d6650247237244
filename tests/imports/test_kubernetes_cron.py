"""The ticks of CronJobs are those that robfig/cron computes."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.ticks.cron_expressions import cron_lines
from wakeboard.errors import InvalidSchedule
from wakeboard.imports.rules.imported_schedule import equal_expression
from wakeboard.imports.rules.kubernetes_cron import (
    kubernetes_ticks,
    next_kubernetes_tick,
    parse_kubernetes_cron,
    zone_prefix,
)
from wakeboard.ticks.cron_parser import parse_cron
from wakeboard.ticks.dst_ticks import DstTicks

# Computed by robfig/cron 3.0.1 with the zone data of tzdata: expression, zone, a moment, and the next ten ticks.
CASES: list[dict[str, Any]] = json.loads(Path(__file__).with_name("robfig_ticks.json").read_text())
NOW = datetime(2026, 11, 22, 13, 17, 23, tzinfo=UTC)


@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case['schedule']} {case['zone']} {case['after'][:10]}")
def test_the_ticks_are_those_of_robfig_cron(case: dict[str, Any]):
    if "error" in case:
        with pytest.raises(InvalidSchedule, match="schedule"):
            parse_kubernetes_cron(case["schedule"])
        return
    cron = parse_kubernetes_cron(case["schedule"])
    ticks = kubernetes_ticks(cron, case["zone"], datetime.fromisoformat(case["after"]), 10)
    assert [f"{tick:%Y-%m-%dT%H:%M:%SZ}" for tick in ticks] == case["ticks"]


@pytest.mark.parametrize(
    ("schedule", "zone", "expression"),
    [
        ("0 3 * * *", None, "0 3 * * *"),
        ("TZ=Europe/Lisbon 0 3 * * *", "Europe/Lisbon", "0 3 * * *"),
        ("CRON_TZ=Asia/Tokyo   @daily", "Asia/Tokyo", "@daily"),
        ("TZ= 0 3 * * *", "", "0 3 * * *"),
    ],
)
def test_a_zone_in_front_of_the_expression_is_split_off(schedule: str, zone: str | None, expression: str):
    assert zone_prefix(schedule) == (zone, expression)


@pytest.mark.parametrize(
    ("schedule", "says"),
    [
        ("0 0 * * 7", 'day of the week "7", which is not a range within 0-6'),
        ("0 0 * *", "has 4 fields, not five"),
        ("@reboot", "is not a known short form"),
        ("*/0 * * * *", "steps by 0"),
        ("x * * * *", "which is not a number"),
        ("1-2-3 * * * *", "which is not understood"),
        ("@every 5", "an interval that is not understood"),
    ],
)
def test_what_kubernetes_refuses_is_refused_with_a_reason(schedule: str, says: str):
    with pytest.raises(InvalidSchedule) as refused:
        parse_kubernetes_cron(schedule)
    assert says in str(refused.value)


@pytest.mark.parametrize(
    ("written", "equal"),
    [
        ("0 3 * * MON", "0 3 * * MON"),
        ("  0 3\t* * * ", "0 3 * * *"),
        ("0 3 ? * mon-fri", "0 3 * * mon-fri"),
        ("*/100 * * * *", "0 * * * *"),
        ("+5 007 * * *", "5 7 * * *"),
        ("1,,3-5 * * * *", "1,3-5 * * * *"),
        ("0 0 1-31 * MON", "0 0 1-31 * MON"),
        ("@daily", "@daily"),
    ],
)
def test_an_equal_expression_is_the_text_itself_if_it_means_the_same(written: str, equal: str):
    assert equal_expression(written, parse_kubernetes_cron(written)) == equal


@pytest.mark.parametrize("written", ["0 0 30 2 *", ", * * * *"])
def test_what_is_never_due_has_no_equal_expression(written: str):
    with pytest.raises(InvalidSchedule):
        equal_expression(written, parse_kubernetes_cron(written))


@given(line=cron_lines, start=st.integers(0, 3_000_000))
def test_both_computations_of_ticks_agree_in_utc(line: str, start: int):
    """Two implementations that share no code agree on every expression that both accept."""
    try:
        cron = parse_kubernetes_cron(line)
        equal = equal_expression(line, cron)
    except InvalidSchedule:
        return
    after = NOW + timedelta(minutes=start)
    tick = next_kubernetes_tick(cron, "Etc/UTC", after)
    ours = DstTicks(parse_cron(equal, name=""), "Etc/UTC", "Skip", "Both").next_tick(after)
    within = ours is not None and ours.year <= after.year + 5
    assert tick == (ours if within else None)
