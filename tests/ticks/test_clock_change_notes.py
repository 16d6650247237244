from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING

import pytest

from tests.ticks.moments import at, utc
from wakeboard.ticks.clock_change_notes import explain, skipped_between
from wakeboard.ticks.cron_parser import parse_cron
from wakeboard.ticks.dst_ticks import DstTicks

if TYPE_CHECKING:
    from wakeboard.ticks.dst_ticks import Gap, Overlap


def tick_schedule(line: str, zone: str, gap: Gap = "RunAfter", overlap: Overlap = "First") -> DstTicks:
    return DstTicks(parse_cron(line, name="billing/report"), zone, gap, overlap)


@pytest.mark.parametrize(
    ("zone", "line", "overlap", "after", "nth", "expected"),
    [
        ("Europe/Lisbon", "30 1 * * *", "First", "2024-03-30 00:00", 0, None),
        ("Europe/Lisbon", "30 1 * * *", "First", "2024-03-30 12:00", 0,
         "moved from 01:30, which does not exist on 2024-03-31"),
        ("Europe/Lisbon", "*/20 1 * * *", "First", "2024-03-30 12:00", 0,
         "moved from 01:00 and 2 more, which do not exist on 2024-03-31"),
        ("Europe/Lisbon", "0 1,2 * * *", "First", "2024-03-30 12:00", 0,
         "also runs for 01:00, which does not exist on 2024-03-31"),
        ("Pacific/Apia", "0 8 * * *", "First", "2011-12-29 12:00", 0,
         "moved from 08:00, which does not exist on 2011-12-30"),
        ("Europe/Lisbon", "30 1 * * *", "First", "2024-10-26 12:00", 0,
         "01:30 comes twice on 2024-10-27: this is the first time, the only one that counts"),
        ("Europe/Lisbon", "30 1 * * *", "Both", "2024-10-26 12:00", 0,
         "01:30 comes twice on 2024-10-27: this is the first time"),
        ("Europe/Lisbon", "30 1 * * *", "Both", "2024-10-26 12:00", 1,
         "01:30 comes twice on 2024-10-27: this is the second time"),
        ("Europe/Lisbon", "0 2 * * *", "First", "2024-10-26 12:00", 0, None),
        ("Europe/Lisbon", "0 * * * *", "First", "2024-10-27 00:30", 0,
         "01:00 comes twice on 2024-10-27: this is the first time"),
        ("Europe/Lisbon", "0 * * * *", "First", "2024-10-27 00:30", 1,
         "01:00 comes twice on 2024-10-27: this is the second time"),
        ("Europe/Lisbon", "0 * * * *", "First", "2024-10-27 00:30", 2, None),
        ("Etc/UTC", "30 1 * * *", "First", "2024-10-26 12:00", 0, None),
    ],
)  # fmt: skip
def test_a_tick_that_a_clock_change_touched_is_explained(
    zone: str, line: str, overlap: Overlap, after: str, nth: int, expected: str | None
):
    ticks = tick_schedule(line, zone, overlap=overlap)
    assert explain(ticks, ticks.upcoming(at(after, zone), nth + 1)[nth]) == expected


@pytest.mark.parametrize(
    ("line", "gap", "expected"),
    [
        ("30 1 * * *", "Skip", ("skips 01:30, which does not exist on 2024-03-31",)),
        ("*/20 1 * * *", "Skip", ("skips 01:00 and 2 more, which do not exist on 2024-03-31",)),
        ("0 1-23/2 * * *", "Skip", ("skips 01:00, which does not exist on 2024-03-31",)),
        ("0 2 * * *", "Skip", ()),
        ("30 1 * * *", "RunAfter", ()),
        ("30 * * * *", "Skip", ()),
        ("0 */3 * * *", "Skip", ()),
    ],
)
def test_a_note_names_the_ticks_that_a_gap_skips(line: str, gap: Gap, expected: tuple[str, ...]):
    after = at("2024-03-30 12:00", "Europe/Lisbon")
    assert skipped_between(tick_schedule(line, "Europe/Lisbon", gap), after, after + timedelta(days=2)) == expected


def test_only_gaps_between_the_two_times_have_notes():
    ticks = tick_schedule("30 1 * * *", "Europe/Lisbon", "Skip")
    change = utc("2024-03-31 01:00")
    assert skipped_between(ticks, change, change + timedelta(days=30)) == ()
    assert skipped_between(ticks, change - timedelta(days=30), change - timedelta(seconds=1)) == ()
    assert len(skipped_between(ticks, change - timedelta(seconds=1), change)) == 1
