"""The commands `wakeboard schedules` and `wakeboard next`."""

from __future__ import annotations

import re
from datetime import datetime
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


def test_next_of_a_cron_expression_needs_no_database(bare_cli: Cli):
    result = bare_cli("next", "@daily", "-n", "2")

    assert result.code == 0
    assert result.lines[0].split() == ["UTC", "IN", "NOTE"]
    assert [line.split()[2] for line in result.lines[1:]] == ["00:00", "00:00"]


def test_next_has_notes_on_clock_changes(bare_cli: Cli):
    gap = bare_cli("next", "30 1 * * *", "--zone", "Europe/Lisbon", "-n", "366", "--json").json
    notes = [tick["note"] for tick in gap["ticks"] if tick["note"]]
    skipped = bare_cli("next", "30 1 * * *", "--zone", "Europe/Lisbon", "-n", "366", "--gap", "Skip")

    assert any(note.startswith("moved from 01:30, which does not exist on 20") for note in notes)
    assert any("comes twice" in note for note in notes)
    assert skipped.lines[-1].startswith("Note: skips 01:30, which does not exist on 20")


def test_local_times_have_their_offset(bare_cli: Cli):
    (tick,) = bare_cli("next", "0 12 1 7 *", "--zone", "Europe/Lisbon", "-n", "1", "--json").json["ticks"]

    assert tick["local"].endswith("-07-01T12:00+01:00")
    assert tick["at"].endswith("-07-01T11:00:00.000Z")
    assert "Jul" not in tick["local"]


def test_next_of_a_schedule_uses_its_stored_rules(cli: Cli, sample: SampleStore):
    sample.add_schedule("weekly-report")
    sample.add_schedule("asleep", "0 8 * * *", suspended=True)
    sample.add_schedule("on-call", None)

    found = cli("next", "weekly-report", "-n", "3", "--json").json

    assert (found["schedule"], found["cron"], found["time_zone"]) == (
        "billing/weekly-report", "0 8 * * MON", "Europe/Lisbon",
    )  # fmt: skip
    assert {datetime.fromisoformat(tick["local"]).strftime("%a %H:%M") for tick in found["ticks"]} == {"Mon 08:00"}
    assert cli("next", "asleep").lines[0].endswith("It is suspended.")
    result = cli("next", "on-call").out
    assert result == "billing/on-call has no ticks of its own: `wakeboard run-now billing/on-call` enqueues a run.\n"


def test_a_schedule_shows_what_is_wrong_its_runs_and_its_ticks(cli: Cli, sample: SampleStore):
    weekly = sample.add_schedule("weekly-report", payload={"segment": "active"})
    dead, done = sample.run_now(weekly), sample.run_now(weekly)
    sample.register_worker("report")
    sample.fail(dead, "the other side result 503", outcome="discarded")
    sample.succeed(done)

    shown = cli("schedule", "weekly-report").cells

    assert shown[0].startswith("active billing/weekly-report: 0 8 * * MON Europe/Lisbon; type report, queue default,")
    assert f"Its run {dead} is dead." in shown
    assert 'payload {"segment": "active"}' in shown
    assert [line.split()[:2] for line in shown if "billing/weekly-report" in line][1:] == [
        [str(dead), "dead"],
        [str(done), "succeeded"],
    ]
    cli("pause", "schedule", "weekly-report")
    assert "While it is paused, none of these ticks becomes a run." in cli("schedule", "weekly-report").cells
    assert sum("Mon " in line and "08:00 +" in line for line in shown) == 5


def test_queues_and_workers_are_listed(cli: Cli, sample: SampleStore):
    sample.register_worker("report", queues=("default", "mail"))
    sample.enqueue("report")
    cli("pause", "queue", "mail")
    cli("pause", "queue", "unused")

    assert [line.split() for line in cli("queues").lines[1:]] == [
        ["default", "1", "0", "0", "default", "active"],
        ["mail", "0", "0", "0", "default", "paused"],
        ["unused", "0", "0", "0", "-", "paused"],
    ]
    assert re.fullmatch(r"default 1 10 (now|\d+ s ago) 0 0.1.0 default, mail", cli("workers").cells[1])
