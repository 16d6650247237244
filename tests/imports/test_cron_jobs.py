"""Finding CronJobs in manifests, and setting `suspend: true` in their text."""

from __future__ import annotations

import io
import json
from typing import TYPE_CHECKING, Any

import pytest
import yaml

from wakeboard.errors import WakeboardError
from wakeboard.imports.cron_jobs import CronJobs, cron_jobs_in, cron_jobs_of

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

CRON_JOB = """\
apiVersion: batch/v1
kind: CronJob
metadata: {name: report}  # of each day
spec:
  # Before the office opens.
  schedule: "0 3 * * *"   # UTC
  jobTemplate: {spec: {template: {spec: {containers: []}}}}
"""


def read(text: str | bytes) -> CronJobs:
    return cron_jobs_of(io.BytesIO(text if isinstance(text, bytes) else text.encode()), "in")


def names(result: CronJobs) -> list[Any]:
    return [each.value["metadata"]["name"] for each in result.found]


def test_a_folder_is_read_and_other_kinds_are_skipped(tmp_path: Path):
    (tmp_path / "deep").mkdir()
    (tmp_path / "deep" / "a.yaml").write_text(f"kind: ConfigMap\n---\n{CRON_JOB}---\n---\n{CRON_JOB}")
    (tmp_path / "b.json").write_text(json.dumps(yaml.safe_load(CRON_JOB)))
    (tmp_path / "kustomization.yml").write_text("resources: [a.yaml]\n")
    (tmp_path / "notes.txt").write_text("{")

    result = cron_jobs_in(tmp_path)

    assert [each.where.removeprefix(f"{tmp_path}/") for each in result.found] == [
        "b.json",
        "deep/a.yaml:3",
        "deep/a.yaml:12",
    ]
    assert (result.problems, result.others) == ([], 2)


@pytest.mark.parametrize("kind", ["List", "CronJobList"])
def test_the_items_of_a_list_are_found_in_json_and_yaml(kind: str):
    item = yaml.safe_load(CRON_JOB)
    if kind == "CronJobList":
        del item["kind"], item["apiVersion"]
    of_list = {"apiVersion": "batch/v1", "kind": kind, "items": [item]}
    (found,) = read(json.dumps(of_list)).found
    assert found.value == yaml.safe_load(CRON_JOB)
    assert found.text is None
    (found,) = read(yaml.safe_dump(of_list)).found
    assert found.value == yaml.safe_load(CRON_JOB)


@pytest.mark.parametrize("write", [json.dumps, yaml.safe_dump])
def test_another_groups_cron_job_is_passed_by(write: Callable[[object], str]):
    other = yaml.safe_load(CRON_JOB) | {"apiVersion": "batch.tutorial.example/v1"}
    result = read(write({"apiVersion": "v1", "kind": "List", "items": [other, other]}))
    assert (result.found, result.problems, result.others) == ([], [], 2)
    assert read(write(other)).others == 1
    assert len(read(write(other | {"apiVersion": "batch/v2alpha1"})).found) == 1


@pytest.mark.parametrize(
    "text",
    [
        "{{- range $job := .Values.jobs }}\n---\nkind: CronJob\n{{- end }}\n",
        'kind: CronJob\nmetadata:\n  labels:\n    {{- include "x" . | nindent 4 }}\nspec: {}\n',
        "kind: CronJob\nspec:\n  schedule: {{ .Values.schedule }}\n",
        "{{ if .Values.on }}\nkind: CronJob\n{{ end }}\n",
    ],
)
def test_a_helm_template_is_called_one(text: str):
    (problem,) = read(text).problems
    assert "this is a Helm template; render it first: helm template CHART | wakeboard import -" in problem


def test_invalid_yaml_has_its_file_and_line_and_hides_no_other_file(tmp_path: Path):
    (tmp_path / "a.yaml").write_text(CRON_JOB + "---\nschedule: *x\n")
    (tmp_path / "b.yaml").write_text(CRON_JOB)
    (tmp_path / "c.yaml").write_text("kind: CronJob\nspec: {{ .Values.spec }}\n")
    result = cron_jobs_in(tmp_path)
    assert names(result) == ["report", "report"]
    assert [problem.removeprefix(f"{tmp_path}/").split(": ")[0] for problem in result.problems] == [
        "a.yaml:9",
        "c.yaml:2",
    ]


@pytest.mark.parametrize(
    ("content", "says"),
    [
        (b"\xff\xfe", "not UTF-8"),
        (b"# " + b"x" * (4 << 20), "larger than 4,096 KiB"),
        (b'{"kind": "CronJob", "a": ' + b"[" * 200_000 + b"]" * 200_000 + b"}", "nested too deeply"),
        (b'{"kind": "CronJob", "a": ' + b"[" * 100 + b"]" * 100 + b"}", "nested too deeply"),
        (b"a: " + b"[" * 200, "nested too deeply"),
        (b"kind: CronJob\na: \x1b[31m", "control character"),
        (b'{"kind": "CronJob", ', "not YAML"),
    ],
)
def test_hostile_input_is_a_problem(content: bytes, says: str):
    result = read(content)
    assert result.found == []
    assert says in result.problems[0]
    assert result.problems[0].startswith(("in:1: ", "in:2: "))


def test_json_may_be_larger_than_yaml():
    of_list = {"kind": "List", "items": [yaml.safe_load(CRON_JOB) | {"x": "y" * 5_000_000}]}
    assert names(read(json.dumps(of_list))) == ["report"]


def test_a_missing_folder_is_an_error(tmp_path: Path):
    with pytest.raises(WakeboardError, match="there is no file or folder"):
        cron_jobs_in(tmp_path / "gone")


@pytest.mark.parametrize(
    ("text", "suspended"),
    [
        (CRON_JOB, CRON_JOB.replace("# UTC\n", "# UTC\n  suspend: true\n")),
        (
            CRON_JOB.replace("# UTC\n", "# UTC\n  suspend: false # not yet\n"),
            CRON_JOB.replace("# UTC\n", "# UTC\n  suspend: true # not yet\n"),
        ),
        (CRON_JOB.replace("\n", "\r\n"), CRON_JOB.replace("# UTC\n", "# UTC\n  suspend: true\n")),
        (
            CRON_JOB.replace("containers: []", "containers: [{name: a}]").rstrip("\n") + "\n  x: |\n    no end",
            CRON_JOB.replace("containers: []", "containers: [{name: a}]").replace("# UTC\n", "# UTC\n  suspend: true\n")
            + "  x: |\n    no end",
        ),
        (
            f"# first\n---\n# second\n{CRON_JOB}# its end\n---\nkind: ConfigMap\n",
            "# second\n" + CRON_JOB.replace("# UTC\n", "# UTC\n  suspend: true\n") + "# its end\n",
        ),
    ],
)
def test_comments_and_layout_stay(text: str, suspended: str):
    (found,) = read(text).found
    assert found.text == suspended


@pytest.mark.parametrize(
    "text",
    [
        "{apiVersion: batch/v1, kind: CronJob, metadata: {name: report}, spec: {schedule: '0 3 * * *'}}",
        "--- {apiVersion: batch/v1, kind: CronJob, metadata: {name: report}, spec: {schedule: '0 3 * * *'}}",
        CRON_JOB.replace('"0 3 * * *"   # UTC', ">-\n    0 3 * * *"),
        CRON_JOB + "status: {}\n",
        CRON_JOB.replace("{name: report}", "{name: report, uid: x}"),
        CRON_JOB.replace("# UTC", "# \u202e"),
        "a: &x {schedule: x}\nkind: CronJob\nmetadata: {name: report}\nspec: *x\n",
    ],
)
def test_a_layout_that_cannot_be_edited_safely_is_rewritten(text: str):
    (found,) = read(text).found
    assert found.text is None
