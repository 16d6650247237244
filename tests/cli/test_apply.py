"""The commands `wakeboard apply` and `wakeboard confirm removal`."""

from __future__ import annotations

import io
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from pathlib import Path

    from tests.cli.conftest import Cli
    from tests.cli.sample_store import SampleStore

MANIFEST = """
apiVersion: wakeboard.dev/v1alpha1
kind: JobSchedule
metadata: {{name: {name}, namespace: billing}}
spec: {{jobType: ping, schedule: "{schedule}"}}
"""


def write_schedule(folder: Path, name: str, schedule: str = "0 8 * * MON") -> None:
    (folder / f"{name}.yaml").write_text(MANIFEST.format(name=name, schedule=schedule))


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    folder = tmp_path / "schedules"
    folder.mkdir()
    write_schedule(folder, "weekly-report")
    write_schedule(folder, "clean-up", "*/5 * * * *")
    return folder


def names(sample: SampleStore) -> set[str]:
    return {row[0] for row in sample.sql("select name from wakeboard.job_definitions where removed_at is null")}


def test_a_schedule_whose_time_has_passed_has_a_note(cli: Cli, folder: Path):
    text = MANIFEST.format(name="launch", schedule="").replace('schedule: ""', 'at: "2020-01-01T08:00:00Z"')
    (folder / "launch.yaml").write_text(text)
    note = "note: billing/launch has no further tick: its at (2020-01-01T08:00:00Z) has passed."
    assert [note in cli(*command).err for command in (("apply", "schedules", "--dry-run"), ("apply", "schedules"))] == [
        True,
        True,
    ]
    assert "note" not in cli("apply", "schedules").err


def test_applying_twice_changes_nothing(cli: Cli, sample: SampleStore, folder: Path):
    first = cli("apply", "schedules")
    again = cli("apply", "schedules", "--json")

    assert first.lines == ["created: billing/clean-up", "created: billing/weekly-report", "file:schedules: 2 created."]
    assert again.json["unchanged"] == ["billing/clean-up", "billing/weekly-report"]
    assert again.json["source"] == "file:schedules"
    assert names(sample) == {"weekly-report", "clean-up"}


@pytest.mark.parametrize("options", [[], ["--dry-run"]])
def test_a_schedule_that_another_source_has_too_is_named(
    cli: Cli, sample: SampleStore, folder: Path, options: list[str]
):
    """Both run: it may be the same folder under another name."""
    cli("apply", "schedules", "--name", "former")
    sample.add_schedule("weekly-report", source="k8s:abc")
    sample.sql(
        "update wakeboard.job_definitions set removed_at = now() where source = 'file:former' and name = 'clean-up'"
    )

    result = cli("apply", "schedules", *options)

    assert result.code == 0
    assert result.err == (
        "wakeboard: note: billing/weekly-report is also a schedule of file:former, k8s:abc; both run."
        " `--name` sets the source.\n"
    )
    duplicates = cli("apply", "schedules", "--json", *options).json["duplicates"]
    assert duplicates == {"billing/weekly-report": ["file:former", "k8s:abc"]}
    assert cli("apply", "schedules", "--json", "--name", "other").json["duplicates"].keys() >= {"billing/weekly-report"}


def test_a_schedule_after_an_unknown_one_is_named_before_and_after(cli: Cli, folder: Path):
    text = MANIFEST.format(name="late", schedule="@daily")
    after = "after: [{schedule: nope}, {schedule: clean-up}]"
    (folder / "late.yaml").write_text(text.replace('schedule: "@daily"', after))

    expected = "wakeboard: note: billing/late runs after billing/nope, which does not exist.\n"
    assert cli("apply", "schedules", "--dry-run").err == expected
    assert cli("apply", "schedules").err == expected

    (folder / "clean-up.yaml").unlink()
    assert cli("apply", "schedules", "--dry-run").err == expected
    pruned = cli("apply", "schedules", "--dry-run", "--prune").err
    assert "billing/late runs after billing/clean-up, which does not exist." in pruned
    assert cli("apply", "schedules", "--prune").err == pruned


def test_a_dry_run_lists_changes_and_makes_none(cli: Cli, sample: SampleStore, folder: Path):
    cli("apply", "schedules")
    write_schedule(folder, "weekly-report", "0 9 * * MON")
    write_schedule(folder, "new")
    (folder / "clean-up.yaml").unlink()

    result = cli("apply", "schedules", "--dry-run", "--prune", "--json").json

    assert (result["created"], result["updated"], result["removed"]) == (
        ["billing/new"], ["billing/weekly-report"], ["billing/clean-up"],
    )  # fmt: skip
    assert names(sample) == {"weekly-report", "clean-up"}
    lines = cli("apply", "schedules", "--dry-run", "--prune").lines
    assert lines == [
        "would be created: billing/new",
        "would be updated: billing/weekly-report",
        '  -schedule: "0 8 * * MON"',
        '  +schedule: "0 9 * * MON"',
        "would be removed: billing/clean-up",
        "file:schedules: 1 would be created, 1 would be updated, 1 would be removed; nothing was changed.",
    ]


def test_missing_schedules_are_removed_only_with_prune(cli: Cli, sample: SampleStore, folder: Path):
    sample.add_schedule("of-another", source="file:other")
    cli("apply", "schedules")
    (folder / "clean-up.yaml").unlink()

    kept = cli("apply", "schedules")
    assert "no longer in the folder (--prune removes them): billing/clean-up" in kept.lines
    assert names(sample) == {"weekly-report", "clean-up", "of-another"}

    assert "removed: billing/clean-up" in cli("apply", "schedules", "--prune").lines
    assert names(sample) == {"weekly-report", "of-another"}


def test_an_invalid_file_changes_nothing(cli: Cli, sample: SampleStore, folder: Path):
    write_schedule(folder, "wrong", "61 * * * *")

    result = cli("apply", "schedules")

    assert result.code == 1
    assert result.err.startswith("wakeboard: schedules/wrong.yaml:")
    assert 'has the minute "61"' in result.err
    assert result.err.endswith("Nothing was changed.\n")
    assert names(sample) == set()


@pytest.mark.parametrize("command", ["apply", "up"])
def test_a_missing_folder_is_an_error(cli: Cli, command: str):
    assert cli(command, "nowhere").err.startswith("wakeboard: there is no folder nowhere")


def test_an_empty_folder_prunes_only_if_that_is_allowed(cli: Cli, sample: SampleStore, folder: Path):
    cli("apply", "schedules")
    kept = names(sample)
    (folder.parent / "empty").mkdir()
    prune = ("apply", "empty", "--name", "schedules", "--prune")

    refused = cli(*prune)
    assert (refused.code, "add --allow-empty" in refused.err, names(sample)) == (2, True, kept)
    assert cli(*prune, "--dry-run").code == 2

    assert (cli(*prune, "--allow-empty").code, names(sample)) == (0, set())


def test_a_removal_of_many_schedules_needs_confirmation(cli: Cli, sample: SampleStore, folder: Path):
    for number in range(12):
        write_schedule(folder, f"job-{number}")
    cli("apply", "schedules")
    for number in range(12):
        (folder / f"job-{number}.yaml").unlink()

    pending = cli("apply", "schedules", "--prune")
    assert pending.code == 1
    assert "wakeboard confirm removal file:schedules" in pending.err

    cli("confirm", "removal", "file:schedules")
    assert cli("apply", "schedules", "--prune").code == 0
    assert names(sample) == {"weekly-report", "clean-up"}


def test_standard_input_needs_a_name_for_the_source(cli: Cli, monkeypatch: pytest.MonkeyPatch):
    text = "apiVersion: wakeboard.dev/v1alpha1\nkind: JobSchedule\nmetadata: {name: piped}\nspec: {jobType: ping}\n"
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(text.encode())))
    assert "add --name NAME" in cli("apply", "-").err
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(text.encode())))
    assert "created: default/piped" in cli("apply", "-", "--name", "pipe").out


def test_a_pending_removal_is_confirmed(cli: Cli, sample: SampleStore):
    sample.sql("select wakeboard.request_removal('file:test', 'hash', 12)")
    sample.sql("select wakeboard.request_removal('file:other', '', 0)")

    wrong = cli("confirm", "removal", "file:tset")
    assert (wrong.code, wrong.err) == (
        1,
        "wakeboard: no removal is pending for 'file:tset'; removals are pending for file:test.\n",
    )
    assert cli("confirm", "removal", "file:other").code == 1
    assert cli("confirm", "removal", "file:test").out == "the next sync of file:test removes 12 schedules.\n"
    assert sample.value("select wakeboard.request_removal('file:test', 'hash', 12)") is True


LIMITS = """
apiVersion: wakeboard.dev/v1alpha1
kind: Limits
limits:
  openai-api: {rate: 60/minute, burst: 10}
"""


def test_declared_limits_are_shown_as_different_until_they_are_restored(cli: Cli, folder: Path):
    (folder / "limits.yaml").write_text(LIMITS)
    assert "limit would be set: openai-api" in cli("apply", "schedules", "--dry-run").lines
    assert "limit set: openai-api" in cli("apply", "schedules").lines
    assert cli("apply", "schedules", "--json").json["limits"] == {}
    assert len(cli("limit").lines) == 2

    cli("limit", "openai-api", "--rate", "1/minute")
    cli("apply", "schedules")
    (difference,) = cli("limit").lines[2:]
    assert difference.startswith("openai-api differs from its declaration by file:schedules: 60/minute, burst 10.")
    assert difference.endswith("type: wakeboard limit openai-api --declared")
    assert "The limit openai-api differs from what file:schedules declares." in cli("check").out
    assert cli("limit", "openai-api", "--declared").out == "runs of openai-api: 60/minute, burst 10.\n"
    assert len(cli("limit").lines) == 2
    assert cli("limit", "other", "--declared").err.startswith("wakeboard: no file declares the limit of other")
