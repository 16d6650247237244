"""A folder of YAML, brought to the board."""

from __future__ import annotations

import io
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from pathlib import Path

    from tests.cli.conftest import Type
    from tests.cli.sample_store import SampleStore

MANIFEST = """
apiVersion: wakeboard.dev/v1alpha1
kind: JobSchedule
metadata: {{name: {name}, namespace: billing}}
spec: {{jobType: ping, schedule: "{schedule}"}}
"""


def declare(folder: Path, name: str, schedule: str = "0 8 * * MON") -> None:
    (folder / f"{name}.yaml").write_text(MANIFEST.format(name=name, schedule=schedule))


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    folder = tmp_path / "schedules"
    folder.mkdir()
    declare(folder, "weekly-report")
    declare(folder, "tidy", "*/5 * * * *")
    return folder


def names(story: SampleStore) -> set[str]:
    return {row[0] for row in story.sql("select name from wakeboard.job_definitions where removed_at is null")}


def test_applying_twice_is_applying_once(type_command: Type, story: SampleStore, folder: Path):
    first = type_command("apply", "schedules")
    again = type_command("apply", "schedules", "--json")

    assert first.lines == ["created: billing/tidy", "created: billing/weekly-report", "file:schedules: 2 created."]
    assert again.json["unchanged"] == ["billing/tidy", "billing/weekly-report"]
    assert again.json["source"] == "file:schedules"
    assert names(story) == {"weekly-report", "tidy"}


def test_a_dry_run_tells_and_changes_nothing(type_command: Type, story: SampleStore, folder: Path):
    type_command("apply", "schedules")
    declare(folder, "weekly-report", "0 9 * * MON")
    declare(folder, "new")
    (folder / "tidy.yaml").unlink()

    said = type_command("apply", "schedules", "--dry-run", "--prune", "--json").json

    assert (said["created"], said["updated"], said["removed"]) == (
        ["billing/new"], ["billing/weekly-report"], ["billing/tidy"],
    )  # fmt: skip
    assert names(story) == {"weekly-report", "tidy"}
    told = type_command("apply", "schedules", "--dry-run", "--prune").lines
    assert told == [
        "would be created: billing/new",
        "would be updated: billing/weekly-report",
        "would be removed: billing/tidy",
        "file:schedules: 1 would be created, 1 would be updated, 1 would be removed; nothing was changed.",
    ]


def test_what_is_missing_is_removed_only_when_asked(type_command: Type, story: SampleStore, folder: Path):
    story.declare("of-another", source="file:other")
    type_command("apply", "schedules")
    (folder / "tidy.yaml").unlink()

    kept = type_command("apply", "schedules")
    assert "not declared any more (--prune removes them): billing/tidy" in kept.lines
    assert names(story) == {"weekly-report", "tidy", "of-another"}

    assert "removed: billing/tidy" in type_command("apply", "schedules", "--prune").lines
    assert names(story) == {"weekly-report", "of-another"}


def test_one_wrong_file_changes_nothing(type_command: Type, story: SampleStore, folder: Path):
    declare(folder, "wrong", "61 * * * *")

    said = type_command("apply", "schedules")

    assert said.code == 1
    assert said.err.startswith("wakeboard: schedules/wrong.yaml:")
    assert 'has the minute "61"' in said.err
    assert said.err.endswith("Nothing was changed.\n")
    assert names(story) == set()


def test_a_source_may_have_another_name(type_command: Type, story: SampleStore, folder: Path):
    type_command("apply", "schedules/tidy.yaml", "--name", "ops")

    assert story.sql("select source, name from wakeboard.job_definitions") == [("file:ops", "tidy")]


def test_a_folder_that_is_not_there_is_named(type_command: Type):
    assert type_command("apply", "nowhere").err == "wakeboard: there is no folder nowhere\n"


def test_a_large_removal_is_held_and_says_what_to_type(type_command: Type, story: SampleStore, folder: Path):
    for number in range(12):
        declare(folder, f"job-{number}")
    type_command("apply", "schedules")
    for number in range(12):
        (folder / f"job-{number}.yaml").unlink()

    held = type_command("apply", "schedules", "--prune")
    assert held.code == 1
    assert "wakeboard confirm removal file:schedules" in held.err

    type_command("confirm", "removal", "file:schedules")
    assert type_command("apply", "schedules", "--prune").code == 0
    assert names(story) == {"weekly-report", "tidy"}


def test_standard_input_is_a_file_whose_source_must_be_named(type_command: Type, monkeypatch: pytest.MonkeyPatch):
    text = "apiVersion: wakeboard.dev/v1alpha1\nkind: JobSchedule\nmetadata: {name: piped}\nspec: {jobType: ping}\n"
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(text.encode())))
    assert "add --name NAME" in type_command("apply", "-").err
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(text.encode())))
    assert "created: default/piped" in type_command("apply", "-", "--name", "pipe").out
