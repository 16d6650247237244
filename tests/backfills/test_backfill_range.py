"""Which ticks a range of a backfill means, and the sentences for ranges that mean none."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from wakeboard.backfills.rules import BackfillWords, TickRules, backfill_range, parse_annotation
from wakeboard.errors import InvalidValue
from wakeboard.ticks.cron_parser import parse_cron

NOW = datetime(2026, 11, 22, 12, tzinfo=UTC)


def rules(cron: str, zone: str = "Etc/UTC", gap: str = "RunAfter", overlap: str = "First") -> TickRules:
    return TickRules("billing/close-day", parse_cron(cron, name="billing/close-day").to_text(), zone, gap, overlap)


def ticks(of: TickRules, first: str, last: str, now: datetime = NOW) -> list[str]:
    return [f"{tick:%m-%d %H:%M}" for tick in backfill_range(of, first, last, now).ticks]


@pytest.mark.parametrize(
    ("cron", "zone", "first", "last", "expected"),
    [
        # A range begins with its first time and ends before the second.
        ("0 0 * * *", "Etc/UTC", "2026-01-01", "2026-01-03", ["01-01 00:00", "01-02 00:00"]),
        ("0 2 * * *", "Etc/UTC", "2026-01-01T02:00", "2026-01-02T02:00", ["01-01 02:00"]),
        ("0 2 * * *", "Etc/UTC", "2026-01-01T02:00:00.5", "2026-01-02T02:00:00.5", ["01-02 02:00"]),
        # Dates are those of the schedule's zone, times with an offset are not.
        ("0 0 * * *", "Asia/Tokyo", "2026-01-02", "2026-01-03", ["01-01 15:00"]),
        ("0 0 * * *", "Asia/Tokyo", "2026-01-01T15:00Z", "2026-01-01T15:01Z", ["01-01 15:00"]),
        ("0 0 * * *", "Asia/Tokyo", "2026-01-01T10:00-05:00", "2026-01-02T00:01", ["01-01 15:00"]),
        # On March 29 the clock in Lisbon jumps from 01:00 to 02:00, on October 25 it goes back from 02:00 to 01:00.
        ("30 1 * * *", "Europe/Lisbon", "2026-03-29", "2026-03-30", ["03-29 01:00"]),
        ("30 1 * * *", "Europe/Lisbon", "2026-03-29T01:30", "2026-03-30", ["03-29 01:00"]),
        ("30 1 * * *", "Europe/Lisbon", "2026-10-25", "2026-10-26", ["10-25 00:30"]),
        ("0 * * * *", "Europe/Lisbon", "2026-10-25T01:00", "2026-10-25T02:00", ["10-25 00:00", "10-25 01:00"]),
        # In Cairo a day begins at 01:00: midnight does not exist on April 24.
        ("0 * * * *", "Africa/Cairo", "2026-04-24", "2026-04-24T02:00", ["04-23 22:00"]),
    ],
)
def test_the_ticks_of_a_range(cron: str, zone: str, first: str, last: str, expected: list[str]):
    assert ticks(rules(cron, zone), first, last) == expected


def test_the_rules_for_clock_changes_are_those_of_the_schedule():
    skipping = rules("30 1 * * *", "Europe/Lisbon", gap="Skip", overlap="Both")
    assert ticks(skipping, "2026-03-28", "2026-03-31") == ["03-28 01:30", "03-30 00:30"]
    assert ticks(skipping, "2026-10-25", "2026-10-26") == ["10-25 00:30", "10-25 01:30"]


def test_a_range_that_ends_in_the_future_ends_now():
    found = backfill_range(rules("0 * * * *"), "2026-11-22", "2027-01-01", NOW)
    assert (found.end, found.shortened, len(found.ticks)) == (NOW, True, 12)


@pytest.mark.parametrize(
    ("first", "last", "sentence"),
    [
        ("2026-02-01", "2026-01-01", 'from "2026-02-01" to "2026-01-01"; write the earlier time first'),
        ("2026-02-01", "2026-02-01", "is empty, because its end is not part of it; write a later end"),
        ("1969-12-31", "2026-01-01", '"1969-12-31" is before 1970; write a time from 1970-01-01 UTC on'),
        ("0001-01-01", "2026-01-01", "is before 1970"),
        ("0001-01-01T00:00+23:00", "2026-01-01", "is neither a date nor a time"),
        ("2026-11-23", "2026-11-24", 'the range begins in the future, at "2026-11-23"'),
        ("2026-13-01", "2026-01-01", '"2026-13-01" is neither a date nor a time; write for example 2026-01-01, '),
        ("", "2026-01-01", '"" is neither a date nor a time'),
        (
            "1970-01-01",
            "2026-01-01",
            "these are 490,896 ticks, and a backfill has at most 100,000; write a shorter range",
        ),
        ("2026-01-01T00:01", "2026-01-01T00:59", "has no tick from"),
        ("2026-11-22T11:30", "2026-11-22T13:00", None),
    ],
)
def test_a_range_that_means_no_ticks_gets_a_sentence(first: str, last: str, sentence: str | None):
    if sentence is None:
        assert ticks(rules("0 * * * *"), first, last, NOW.replace(minute=1)) == ["11-22 12:00"]
        return
    with pytest.raises(InvalidValue) as raised:
        backfill_range(rules("0 * * * *"), first, last, NOW)
    assert sentence in str(raised.value)


def test_a_time_before_1970_in_utc_is_refused_in_every_zone():
    with pytest.raises(InvalidValue, match="is before 1970"):
        backfill_range(rules("0 0 * * *", "Asia/Tokyo"), "1970-01-01", "2026-01-01", NOW)


def test_a_schedule_without_a_cron_expression_has_no_ticks():
    with pytest.raises(InvalidValue, match="create a run with `wakeboard run-now billing/close-day`"):
        backfill_range(TickRules("billing/close-day", None, "Etc/UTC", "Skip", "Both"), "2026-01-01", "2026-02-01", NOW)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("2026-01-01/2026-02-01", BackfillWords("2026-01-01", "2026-02-01")),
        (" 2026-01-01/2026-02-01  again yes ", BackfillWords("2026-01-01", "2026-02-01", 1, True, True)),
        ("2026-01-01T01:00Z/2026-02-01 at-once=20", BackfillWords("2026-01-01T01:00Z", "2026-02-01", 20)),
    ],
)
def test_an_annotation_names_a_range_and_options(text: str, words: BackfillWords):
    assert parse_annotation(text) == words


@pytest.mark.parametrize(
    "text", ["", "january", "2026-01-01", "/2026-01-01", "a/b at-once=0", "a/b at-once=x", "a/b at-once", "a/b no"]
)
def test_an_annotation_that_is_not_understood_gets_an_example(text: str):
    with pytest.raises(InvalidValue, match="write 2026-01-01/2026-02-01"):
        parse_annotation(text)
