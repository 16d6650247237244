"""Files with alert rules: their problems have a line, and the last valid rules stay in force."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest

from wakeboard.alerts.file import AlertFile, load_alert_file
from wakeboard.errors import InvalidSchedule
from wakeboard.manifests import load_folder

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

VALID = "apiVersion: wakeboard.dev/v1alpha1\nkind: AlertRules\nspec:\n  rules:\n    - {name: dead, dead: 1}\n"


def names(file: AlertFile) -> list[str]:
    alerts = file.alerts()
    return [rule.name for rule in alerts.rules] if alerts else []


def test_each_problem_has_its_file_and_line(tmp_path: Path):
    file = tmp_path / "alerts.yaml"
    file.write_text(VALID + "    - {name: late, late: 5}\n    - {name: silent}\n")
    with pytest.raises(InvalidSchedule) as refused:
        load_alert_file(file)
    first, second = refused.value.problems
    assert first.startswith(f"{file}:6: spec.rules.1.late is 5; write a duration")
    assert second.startswith(f"{file}:7: spec.rules.silent has no condition")


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("kind: JobSchedule\n", ':1: these are not alert rules; write "apiVersion: wakeboard.dev/v1alpha1"'),
        ("spec: [\n", ":2: this is not YAML"),
        ("", ":1: these are not alert rules"),
        (VALID + "---\n" + VALID, ":7: this is a second document; put all alert rules into the first"),
    ],
)
def test_another_document_is_refused(tmp_path: Path, text: str, sentence: str):
    (tmp_path / "alerts.yaml").write_text(text)
    with pytest.raises(InvalidSchedule) as refused:
        load_alert_file(tmp_path / "alerts.yaml")
    assert sentence in str(refused.value)


def test_the_last_valid_rules_stay_and_problems_are_reported_once(tmp_path: Path):
    reports: list[Sequence[str]] = []
    path = tmp_path / "alerts.yaml"
    file = AlertFile(path, reports.append)
    assert not file.alerts()
    path.write_text(VALID)
    assert names(file) == ["dead"]
    path.write_text(VALID.replace("dead: 1", "daed: 1"))
    os.utime(path, (1, 1))  # two writes may be in the same tick of the file system's clock
    assert names(file) == ["dead"]
    assert names(file) == ["dead"]
    path.unlink()
    assert names(file) == ["dead"]
    path.write_text(VALID.replace("dead", "late").replace("1}", "5m}"))
    assert names(file) == ["late"]
    missing, valid, invalid, missing_again, valid_again = reports
    assert "cannot be read: No such file" in missing[0]
    assert "daed is not known; did you mean dead?" in invalid[0]
    assert missing == missing_again
    assert not valid
    assert not valid_again


def test_an_optional_file_that_is_deleted_has_no_rules(tmp_path: Path):
    reports: list[Sequence[str]] = []
    path = tmp_path / "alerts.yaml"
    path.write_text(VALID)
    file = AlertFile(path, reports.append, is_optional=True)
    assert names(file) == ["dead"]
    path.unlink()
    assert names(file) == []
    assert not reports


def test_alert_rules_beside_schedules_are_no_problem_of_theirs(tmp_path: Path):
    (tmp_path / "alerts.yaml").write_text(VALID)
    found = load_folder(tmp_path)
    assert not found.problems
    assert found.complete
    assert found.notes == (f"{tmp_path}/alerts.yaml:1: ignored: alert rules; WAKEBOARD_ALERTS_FILE names their file",)
