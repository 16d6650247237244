"""Intervals, single moments and bounds: against a list of every second, and what is refused."""

from __future__ import annotations

from collections import Counter
from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from wakeboard.errors import InvalidSchedule
from wakeboard.ticks.compiled_ticks import compile_ticks, ticks_for, utc_text
from wakeboard.ticks.cron_words import schedule_in_words
from wakeboard.ticks.tick_load import counts_of
from wakeboard.ticks.ticks import Ticks, moment_of

ORIGIN = 1_790_000_040  # a whole minute
SECONDS = 8_000
OFFSET = st.integers(0, SECONDS - 1)


def ticks_of(schedule: str, starts: int | None = None, ends: int | None = None) -> Ticks:
    bounds = [None if offset is None else moment_of(ORIGIN + offset) for offset in (starts, ends)]
    compiled = compile_ticks(schedule, name="team/x", starts_at=bounds[0], ends_at=bounds[1])
    return ticks_for(compiled, "Etc/UTC", "RunAfter", "First")


@given(
    every=st.one_of(st.integers(1, 130), st.sampled_from([180, 300, 600])),
    single=st.none() | OFFSET,
    starts=st.none() | OFFSET,
    ends=st.none() | OFFSET,
    after=OFFSET,
    until=OFFSET,
    newest=st.integers(0, 5),
)
def test_ticks_are_those_of_a_list_of_all_seconds(
    every: int, single: int | None, starts: int | None, ends: int | None, after: int, until: int, newest: int
) -> None:
    schedule = f"every {every}s" if single is None else f"at {utc_text(moment_of(ORIGIN + single))}"
    anchor = 0 if starts is None else ORIGIN + starts
    due = [
        offset
        for offset in range(SECONDS)
        if ((ORIGIN + offset - anchor) % every == 0 if single is None else offset == single)
        and (starts is None or offset >= starts)
        and (ends is None or offset <= ends)
    ]
    ticks = ticks_of(schedule, starts, ends)
    later = [moment_of(ORIGIN + offset) for offset in due if offset > after]
    assert ticks.upcoming(moment_of(ORIGIN + after), len(later)) == later
    passed = [moment for moment in later if moment <= moment_of(ORIGIN + until)]
    missed = ticks.missed(moment_of(ORIGIN + after), moment_of(ORIGIN + until), newest)
    assert missed.skipped == max(0, len(passed) - newest)
    assert list(missed.ticks) == passed[missed.skipped :]
    minutes = {offset // 60 for offset in due}
    assert ticks.minutes(ORIGIN, ORIGIN + SECONDS) == sum(1 << minute for minute in minutes)
    counts = Counter(offset // 60 for offset in due)
    width = -(-SECONDS // 60)
    assert counts_of(ticks.minute_planes(ORIGIN, ORIGIN + SECONDS), width) == [
        counts[minute] for minute in range(width)
    ]


def test_bounds_hold_for_cron_expressions_too() -> None:
    ticks = ticks_of("* * * * *", starts=90, ends=300)
    assert ticks.upcoming(moment_of(ORIGIN - 9_000), 9) == [moment_of(ORIGIN + at) for at in (120, 180, 240, 300)]
    assert ticks.next_tick(moment_of(ORIGIN + 300)) is None


@pytest.mark.parametrize(
    "schedule",
    [
        "every 0s",
        "every 367d",
        "every 90",
        "every 1.5h",
        "at noon",
        "at 2026-12-01T08:00",
        "at 1969-01-01T00:00Z",
        "at 2100-01-01T00:00Z",
    ],
)
def test_what_is_no_schedule_is_refused_with_an_example(schedule: str) -> None:
    with pytest.raises(InvalidSchedule, match=r"write .* for example"):
        compile_ticks(schedule, name="team/x")


@pytest.mark.parametrize(
    ("schedule", "words"),
    [
        ("every 90m", "every 90 minutes"),
        ("every 1d", "every day"),
        ("at 2026-12-01T08:00:00Z", "once, at 2026-12-01 08:00 UTC"),
    ],
)
def test_words(schedule: str, words: str) -> None:
    assert schedule_in_words(compile_ticks(schedule, name="team/x")) == words
    starts = datetime(2026, 1, 1, tzinfo=UTC)
    bounded = schedule_in_words(compile_ticks("0 8 * * *", name="team/x", starts_at=starts))
    assert bounded == "every day at 08:00, from 2026-01-01 00:00 UTC"
