"""What becomes of due ticks: pure decisions, as tables."""

from __future__ import annotations

import json
import re
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from wakeboard.schedules.calls import DueDefinition, Skipped
from wakeboard.schedules.scheduler import plan_skip, plan_ticks
from wakeboard.ticks.catch_up import CatchUpPolicy, due_ticks_to_run
from wakeboard.ticks.compiled_ticks import ticks_for
from wakeboard.ticks.cron_parser import parse_cron

if TYPE_CHECKING:
    from collections.abc import Sequence

NEVER = datetime(1970, 1, 1, tzinfo=UTC)
FIVE_MINUTES = timedelta(minutes=5)


def at(clock: str, day: int = 10) -> datetime:
    """A moment in March 2026, UTC."""
    hour, minute, *second = (int(part) for part in clock.split(":"))
    return datetime(2026, 3, day, hour, minute, *second, tzinfo=UTC)


def due(
    line: str,
    cursor: datetime,
    now: datetime,
    *,
    catch_up: str = "Latest",
    limit: int = 100,
    deadline: int | None = None,
    last_tick: datetime = NEVER,
    zone: str = "Etc/UTC",
) -> DueDefinition:
    fields = parse_cron(line, name="team/due").to_text()
    return DueDefinition(
        1,
        1,
        cursor,
        last_tick,
        fields,
        zone,
        "RunAfter",
        "First",
        catch_up,
        limit,
        deadline,
        False,
        line,
        None,
        None,
        "team/due",
        now,
    )


def clocks(moments: Sequence[datetime]) -> list[str]:
    return [f"{moment:%H:%M}" for moment in moments]


@pytest.mark.parametrize(
    ("line", "cursor", "now", "made", "following"),
    [
        pytest.param("* * * * *", "8:00", "8:00", ["08:00"], "8:01", id="on the dot"),
        pytest.param("* * * * *", "8:00", "8:00:59", ["08:00"], "8:01", id="within its minute"),
        pytest.param(
            "* * * * *", "8:00", "8:04", ["08:00", "08:01", "08:02", "08:03", "08:04"], "8:05", id="a slow wake"
        ),
        pytest.param("* * * * *", "8:00", "8:05", [f"08:0{n}" for n in range(6)], "8:06", id="just not missed"),
        pytest.param("30 8 * * *", "8:30", "8:34", ["08:30"], None, id="once a day"),
    ],
)
def test_ticks_that_are_not_missed_are_always_made(
    line: str, cursor: str, now: str, made: list[str], following: str | None
):
    for catch_up in ("Skip", "Latest", "All"):
        plan = plan_ticks(due(line, at(cursor), at(now), catch_up=catch_up, limit=1), FIVE_MINUTES)
        assert clocks(plan.ticks) == made
        assert not plan.skipped
        assert plan.up_to == plan.ticks[-1]
        assert plan.next_cursor == (at(following) if following else at("8:30", day=11))


@pytest.mark.parametrize(
    ("catch_up", "limit", "made", "skipped"),
    [
        ("Skip", 100, ["10:00"], Skipped(at("6:00"), at("9:00"), 4, "CatchUpSkip")),
        ("Latest", 100, ["10:00"], Skipped(at("6:00"), at("9:00"), 4, "CatchUpLatest")),
        ("All", 3, ["08:00", "09:00", "10:00"], Skipped(at("6:00"), at("7:00"), 2, "CatchUpAll")),
        ("All", 5, ["06:00", "07:00", "08:00", "09:00", "10:00"], None),
        ("All", 100, ["06:00", "07:00", "08:00", "09:00", "10:00"], None),
    ],
)
def test_after_an_outage_catch_up_decides_about_each_due_tick(
    catch_up: str, limit: int, made: list[str], skipped: Skipped | None
):
    plan = plan_ticks(due("0 * * * *", at("6:00"), at("10:03"), catch_up=catch_up, limit=limit), FIVE_MINUTES)
    assert clocks(plan.ticks) == made
    assert list(plan.skipped) == ([skipped] if skipped else [])
    assert plan.next_cursor == at("11:00")


@pytest.mark.parametrize(
    ("line", "cursor", "now", "catch_up", "made"),
    [
        ("* * * * *", "5:00", "8:00:40", "Latest", ["08:00"]),
        ("*/2 * * * *", "5:00", "8:00:40", "Latest", ["08:00"]),
        ("* * * * *", "5:00", "8:00:40", "Skip", []),
        ("* * * * *", "5:00", "8:00:40", "All", ["07:58", "07:59", "08:00"]),
        ("* * * * *", "7:55", "8:00:01", "Latest", ["08:00"]),
        ("*/6 * * * *", "7:00", "8:04", "Skip", ["08:00"]),
        ("*/6 * * * *", "7:00", "8:05:01", "Skip", []),
        ("*/5 * * * *", "7:00", "8:00:01", "Skip", []),
    ],
)
def test_the_grace_never_adds_a_run_to_those_of_the_policy(
    line: str, cursor: str, now: str, catch_up: str, made: list[str]
):
    plan = plan_ticks(due(line, at(cursor), at(now), catch_up=catch_up, limit=3), FIVE_MINUTES)
    assert clocks(plan.ticks) == made


@pytest.mark.parametrize(
    ("deadline", "catch_up", "made", "skipped"),
    [
        (3 * 3600, "All", ["08:00", "09:00", "10:00"], [Skipped(at("6:00"), at("7:00"), 2, "TooLate")]),
        (2 * 3600 + 180, "All", ["08:00", "09:00", "10:00"], [Skipped(at("6:00"), at("7:00"), 2, "TooLate")]),
        (
            3 * 3600,
            "Latest",
            ["10:00"],
            [Skipped(at("6:00"), at("7:00"), 2, "TooLate"), Skipped(at("8:00"), at("9:00"), 2, "CatchUpLatest")],
        ),
        (180, "All", ["10:00"], [Skipped(at("6:00"), at("9:00"), 4, "TooLate")]),
        (179, "All", [], [Skipped(at("6:00"), at("10:00"), 5, "TooLate")]),
        (30, "Skip", [], [Skipped(at("6:00"), at("10:00"), 5, "TooLate")]),
    ],
)
def test_the_starting_deadline_drops_whatever_is_older_than_it(
    deadline: int, catch_up: str, made: list[str], skipped: list[Skipped]
):
    plan = plan_ticks(due("0 * * * *", at("6:00"), at("10:03"), catch_up=catch_up, deadline=deadline), FIVE_MINUTES)
    assert clocks(plan.ticks) == made
    assert list(plan.skipped) == skipped
    assert plan.up_to == at("10:00")
    assert plan.next_cursor == at("11:00")


def test_one_second_more_than_five_minutes_is_missed():
    plan = plan_ticks(due("0 * * * *", at("10:00"), at("10:05:01"), catch_up="Skip"), FIVE_MINUTES)
    assert list(plan.skipped) == [Skipped(at("10:00"), at("10:00"), 1, "CatchUpSkip")]


def test_a_tick_at_or_before_the_last_one_is_never_enqueued_again():
    moved_back = due("0 * * * *", at("6:00"), at("10:03"), catch_up="All", last_tick=at("9:00"))
    plan = plan_ticks(moved_back, FIVE_MINUTES)
    assert clocks(plan.ticks) == ["10:00"]
    assert not plan.skipped


def test_a_cursor_moved_back_by_hand_just_moves_on():
    plan = plan_ticks(due("0 * * * *", at("6:00"), at("10:03"), last_tick=at("10:00")), FIVE_MINUTES)
    assert (list(plan.ticks), list(plan.skipped)) == ([], [])
    assert plan.up_to is None
    assert plan.next_cursor == at("11:00")


def test_an_announced_tick_runs_even_if_zone_data_changed():
    plan = plan_ticks(due("0 8 * * *", at("9:00"), at("9:01")), FIVE_MINUTES)
    assert clocks(plan.ticks) == ["09:00"]
    plan = plan_ticks(due("0 * * * *", at("6:30"), at("10:03"), catch_up="All"), FIVE_MINUTES)
    assert clocks(plan.ticks) == ["06:30", "07:00", "08:00", "09:00", "10:00"]


def test_a_schedule_without_a_further_tick_gets_no_cursor():
    end = datetime(9998, 12, 31, 23, 59, tzinfo=UTC)
    plan = plan_ticks(due("59 23 31 12 *", end, end + timedelta(seconds=1)), FIVE_MINUTES)
    assert list(plan.ticks) == [end]
    assert plan.next_cursor is None


FINE = due("0 * * * *", at("9:00"), at("10:03"), last_tick=at("8:00"))


@pytest.mark.parametrize(
    "ours", [FINE._replace(cron_fields="2 from the future"), FINE._replace(time_zone="Mars/Olympus")]
)
def test_a_definition_that_cannot_be_computed_keeps_its_cursor(ours: DueDefinition):
    for plan in (plan_ticks(ours, FIVE_MINUTES), plan_skip(ours, "Suspended")):
        assert plan.error
        assert (list(plan.ticks), list(plan.skipped)) == ([], [])
        assert (plan.next_cursor, plan.up_to) == (at("9:00"), None)


def test_skipping_records_every_due_tick_as_one_stretch():
    plan = plan_skip(due("0 * * * *", at("6:00"), at("10:03"), catch_up="All"), "Suspended")
    assert list(plan.ticks) == []
    assert list(plan.skipped) == [Skipped(at("6:00"), at("10:00"), 5, "Suspended")]
    assert plan.next_cursor == at("11:00")


@given(
    line=st.sampled_from(["*/20 * * * *", "7 */2 * * *", "0 * * * *", "30 1 * * *", "0 0 1 * *", "15 2 * * SUN"]),
    zone=st.sampled_from(["Etc/UTC", "Europe/Lisbon", "Australia/Lord_Howe", "Asia/Gaza"]),
    behind=st.integers(0, 20 * 86_400),
    catch_up=st.sampled_from(["Skip", "Latest", "All"]),
    limit=st.integers(1, 50),
    deadline=st.none() | st.integers(1, 10 * 86_400),
    misfire_grace=st.integers(1, 86_400),
)
def test_no_due_tick_is_lost_and_none_is_counted_twice(
    line: str, zone: str, behind: int, catch_up: str, limit: int, deadline: int | None, misfire_grace: int
):
    now = datetime(2026, 4, 10, 12, 34, 56, 789, tzinfo=UTC)
    tick_schedule = ticks_for(parse_cron(line, name="").to_text(), zone, "RunAfter", "First")
    cursor = tick_schedule.next_tick(now - timedelta(seconds=behind))
    assert cursor is not None
    if cursor > now:
        return
    ours = due(line, cursor, now, catch_up=catch_up, limit=limit, deadline=deadline, zone=zone)
    plan = plan_ticks(ours, timedelta(seconds=misfire_grace))
    later = tick_schedule.missed(cursor, now, 10**9).ticks
    ticks = [cursor, *later]
    assert len(plan.ticks) + sum(skipped.ticks for skipped in plan.skipped) == len(ticks)
    assert set(plan.ticks) <= set(ticks)
    assert list(plan.ticks) == sorted(plan.ticks)
    assert plan.up_to == ticks[-1]
    assert plan.next_cursor == tick_schedule.next_tick(now)
    for skipped in plan.skipped:
        assert skipped.ticks == sum(skipped.since <= tick <= skipped.until for tick in ticks)
        assert not any(skipped.since <= tick <= skipped.until for tick in plan.ticks)
    if deadline is None:
        late_pod = now - cursor <= timedelta(seconds=misfire_grace)
        most = len(ticks) if late_pod else {"Skip": 1, "Latest": 1, "All": limit}[catch_up]
        assert len(plan.ticks) <= most
        assert catch_up == "Skip" or list(plan.ticks) == ticks[-most:]


SCHEDULES = Path(__file__).parents[2] / "wakeboard/store/migrations/0004_schedules.sql"


@pytest.mark.parametrize(
    ("policy", "newest_is_on_time", "count"),
    [
        ("Skip", False, 0),
        ("Skip", True, 1),
        ("Latest", False, 1),
        ("Latest", True, 1),
        ("All", False, 7),
        ("All", True, 7),
    ],
)
def test_a_catch_up_policy_decides_how_many_due_ticks_run(policy: str, newest_is_on_time: bool, count: int):
    assert due_ticks_to_run(policy, limit=7, newest_is_on_time=newest_is_on_time) == count


def test_every_catch_up_policy_can_be_run_and_stored():
    allowed = re.search(r"check \(catch_up in \((.*?)\)\)", SCHEDULES.read_text())
    assert allowed is not None
    assert re.findall(r"'(\w+)'", allowed[1]) == list(get_args(CatchUpPolicy))
    assert all(due_ticks_to_run(policy, limit=7, newest_is_on_time=False) >= 0 for policy in get_args(CatchUpPolicy))


@pytest.mark.parametrize(("source", "made"), [("app", ["08:00", "09:00", "10:00"]), ("file:shop", ["09:00", "10:00"])])
def test_a_past_moment_is_a_tick_of_an_application_alone_and_once(source: str, made: list[str]) -> None:
    """Before its edit, the schedule had a moment that had passed, and then one that is a tick of its hourly times."""
    edits = [("at 2026-03-10T08:00:00Z", at("08:30")), ("0 * * * *", at("10:30")), ("at 2026-03-10T10:00:00Z", None)]
    rules = {"time_zone": "Etc/UTC", "dst_gap": "RunAfter", "dst_overlap": "First", "starts_at": None, "ends_at": None}
    times = [
        {**rules, "schedule": line, "until": until and until.isoformat(), "source": source} for line, until in edits
    ]
    times[0]["since"] = at("08:15").isoformat()
    given = due("0 * * * *", at("08:15"), at("12:00"), catch_up="All")._replace(
        cron_fields=None, schedule=json.dumps(times)
    )
    assert clocks(plan_ticks(given, timedelta(days=1)).ticks) == made
