"""The command `wakeboard schedules`."""

from __future__ import annotations

from textwrap import dedent
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tests.cli.conftest import Cli
    from tests.cli.sample_store import SampleStore


def test_schedules_show_next_tick_last_run_and_live_runs(cli: Cli, sample: SampleStore):
    weekly = sample.add_schedule("weekly-report")
    sample.add_schedule("tokens", "*/5 * * * *", due_in="3 min", time_zone="Etc/UTC", suspended=True)
    sample.add_schedule("shop/on-call", None)
    flaky = sample.add_schedule("flaky", "@hourly", due_in="20 min", time_zone="Etc/UTC")
    sample.succeed(fine := sample.run_now(weekly))
    sample.fail(sample.run_now(flaky))
    sample.fail(dead := sample.run_now(flaky), outcome="discarded")
    sample.run_now(flaky)
    sample.backdate(fine, "3 days")
    sample.backdate(dead, "2 hours")

    result = cli("schedules")

    assert result.code == 0
    assert (
        result.lines
        == dedent("""
        SCHEDULE               WHEN                       NEXT       LAST                  RUNS
        billing/flaky          @hourly                    in 20 min  dead 2 h ago          1 dead, 1 failed, 1 queued
        billing/tokens         */5 * * * *                suspended  -
        billing/weekly-report  0 8 * * MON Europe/Lisbon  in 2 days  succeeded 3 days ago
        shop/on-call           -                          on demand  -
        """)
        .strip()
        .splitlines()
    )


def test_a_stalled_schedule_shows_its_error(cli: Cli, sample: SampleStore):
    sample.add_schedule("weekly-report")
    sample.sql("update wakeboard.job_definitions set schedule_error = 'no such zone'")

    result = cli("schedules")

    assert "stalled" in result.lines[1]
    assert result.lines[2] == "billing/weekly-report is stalled: no such zone"
