"""The comparison of the ticks of a CronJob with those of its JobSchedule."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest

from tests.imports.import_examples import NOW, OPTIONS, cron_job
from wakeboard.imports.rules.check import TickComparison, compare_ticks
from wakeboard.imports.rules.cron_job import import_cron_job
from wakeboard.imports.rules.crontab import read_crontab
from wakeboard.imports.rules.crontab_line import import_crontab_line


def compared(expression: str, zone: str, **changed: Any) -> TickComparison:
    """The comparison with a JobSchedule whose spec has been edited."""
    imported = import_cron_job(cron_job({"schedule": expression, "timeZone": zone}), OPTIONS)
    spec = {key: value for key, value in {**imported.spec, **changed}.items() if value is not None}
    return compare_ticks(replace(imported, spec=spec), NOW)


@pytest.mark.parametrize(
    ("schedule", "zone"),
    [
        ("0 3 * * *", "Etc/UTC"),
        ("30 1 * * *", "Europe/Lisbon"),
        ("30 2 * * 0", "America/New_York"),
        ("*/7 * * * *", "Australia/Lord_Howe"),
        ("0 0 13 * FRI", "Asia/Kathmandu"),
        ("15 0,1,2 28-31 * *", "Europe/Berlin"),
    ],
)
def test_an_imported_schedule_has_the_ticks_of_its_cron_job(schedule: str, zone: str):
    comparison = compared(schedule, zone)
    assert comparison.differences == ()
    assert len(comparison.ticks) == 10


def test_the_next_ten_ticks_are_compared():
    (first, second) = compared("0 3 * * *", "Etc/UTC", schedule="0 4 * * *").differences
    assert first == ("only the source is due at 2026-11-23 03:00 +0000 and 9 more, the JobSchedule is not")
    assert second.startswith("only the JobSchedule is due at 2026-11-23 04:00")


def test_the_ticks_around_clock_changes_are_compared():
    """Without `dst`, a JobSchedule moves 01:30 into the next hour in spring, and runs it once in autumn."""
    spring, autumn = compared("30 1 * * *", "Europe/Lisbon", dst=None).differences
    assert "2027-03-28 only the JobSchedule is due at 2027-03-28 02:00 +0100" in spring
    assert "2027-10-31 only the source is due at 2027-10-31 01:30 +0000" in autumn


def test_a_tick_that_kubernetes_loses_at_a_skipped_midnight_is_reported():
    """In Beirut the clock skips midnight. robfig/cron then finds a tick of Saturday on Sunday."""
    (difference,) = compared("0 5 * * SAT", "Asia/Beirut").differences
    assert "only the source is due at 2027-03-28 05:00" in difference


def test_an_interval_cannot_be_compared():
    assert "cannot be compared" in compared("@every 1h", "Etc/UTC").differences[0]


def test_a_crontab_is_compared_without_clock_changes():
    (line,) = read_crontab("CRON_TZ=Europe/Lisbon\n30 1 * * 7 run", with_users=False)
    comparison = compare_ticks(import_crontab_line(line, OPTIONS, namespace=None, taken=()), NOW)
    assert comparison.differences == ()
    assert comparison.ticks[0] == datetime(2026, 11, 29, 1, 30, tzinfo=UTC)
