"""When something is due next, and what clock changes do to it."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from tests.cli.conftest import Type
    from tests.cli.sample_store import SampleStore


def test_a_cron_line_needs_no_database(type_anywhere: Type):
    said = type_anywhere("next", "@daily", "-n", "2")

    assert said.code == 0
    assert said.lines[0].split() == ["UTC", "IN", "NOTE"]
    assert [line.split()[2] for line in said.lines[1:]] == ["00:00", "00:00"]


def test_clock_changes_are_told(type_anywhere: Type):
    gap = type_anywhere("next", "30 1 * * *", "--zone", "Europe/Lisbon", "-n", "366", "--json").json
    notes = [tick["note"] for tick in gap["ticks"] if tick["note"]]
    skipped = type_anywhere("next", "30 1 * * *", "--zone", "Europe/Lisbon", "-n", "366", "--gap", "Skip")

    assert any(note.startswith("moved from 01:30, which does not exist on 20") for note in notes)
    assert any("comes twice" in note for note in notes)
    assert skipped.lines[-1].startswith("Note: skips 01:30, which does not exist on 20")


def test_local_times_stand_with_their_offset(type_anywhere: Type):
    (tick,) = type_anywhere("next", "0 12 1 7 *", "--zone", "Europe/Lisbon", "-n", "1", "--json").json["ticks"]

    assert tick["local"].endswith("-07-01T12:00+01:00")
    assert tick["at"].endswith("-07-01T11:00:00.000Z")
    assert "Jul" not in tick["local"]


def test_h_is_a_value_of_its_own_for_each_schedule(type_anywhere: Type):
    def first(name: str) -> str:
        return type_anywhere("next", "H H * * *", "--name", name, "-n", "1", "--json").json["ticks"][0]["at"]

    assert first("billing/tidy") == first("billing/tidy") != first("shop/report")


def test_a_schedules_ticks_come_from_the_store(type_command: Type, story: SampleStore):
    story.declare("weekly-report")
    story.declare("asleep", "0 8 * * *", suspended=True)
    story.declare("on-call", None)

    found = type_command("next", "weekly-report", "-n", "3", "--json").json

    assert (found["schedule"], found["cron"], found["time_zone"]) == (
        "billing/weekly-report", "0 8 * * MON", "Europe/Lisbon",
    )  # fmt: skip
    assert {datetime.fromisoformat(tick["local"]).strftime("%a %H:%M") for tick in found["ticks"]} == {"Mon 08:00"}
    assert type_command("next", "asleep").lines[0].endswith("It is suspended now.")
    said = type_command("next", "on-call").out
    assert said == "billing/on-call has no cron line: `wakeboard run-now billing/on-call` makes a run.\n"


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["61 * * * *"], 'has the minute "61"'),
        (["0 8 * * MON", "--zone", "Lisbon"], 'timeZone "Lisbon" is not known'),
        (["0 0 31 2 *"], "would never run"),
    ],
)
def test_a_wrong_line_is_told_what_to_write(type_anywhere: Type, words: list[str], sentence: str):
    said = type_anywhere("next", *words)

    assert said.code == 2
    assert sentence in said.err
