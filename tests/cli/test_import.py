"""The command `wakeboard import`."""

from __future__ import annotations

import io
import json
import stat
from typing import TYPE_CHECKING, Any

import pytest
import yaml

from tests.imports.import_examples import cron_job
from wakeboard.local.worker_settings import read_env_file
from wakeboard.manifests import load_folder

if TYPE_CHECKING:
    from pathlib import Path

    from tests.cli.conftest import Cli

MANIFEST = """\
# The report of each day.
apiVersion: batch/v1
kind: CronJob
metadata: {name: report, namespace: shop}
spec:
  schedule: "0 3 * * *"
  timeZone: Asia/Tokyo
  concurrencyPolicy: Forbid
  jobTemplate:
    spec: {backoffLimit: 2, template: {spec: {restartPolicy: Never, containers: [{name: main, image: report:1}]}}}
"""


@pytest.fixture
def manifests(tmp_path: Path) -> Path:
    folder = tmp_path / "manifests"
    folder.mkdir()
    (folder / "report.yaml").write_text(MANIFEST)
    return folder


@pytest.fixture
def kubectl(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A program that notes its arguments, and prints `answer.json` or what `fails` holds."""
    folder = tmp_path / "programs"
    folder.mkdir()
    program = folder / "kubectl"
    program.write_text(
        f'#!/bin/sh\necho "$@" >> {folder}/asked\n'
        f"test -e {folder}/fails && {{ cat {folder}/fails >&2; exit 1; }}\ncat {folder}/answer.json\n"
    )
    program.chmod(program.stat().st_mode | stat.S_IXUSR)
    monkeypatch.setenv("PATH", f"{folder}:/usr/bin:/bin")
    (folder / "answer.json").write_text(json.dumps({"kind": "List", "items": [cron_job()]}))
    return folder


def pipe(monkeypatch: pytest.MonkeyPatch, text: str) -> None:
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(text.encode())))


def test_the_report_says_what_maps_and_what_changes(bare_cli: Cli, manifests: Path):
    result = bare_cli("import", "manifests")
    assert result.code == 0
    assert result.lines[:9] == [
        "1 of 1 can be imported.",
        "",
        "shop/report (manifests/report.yaml:2)",
        '  schedule: "0 3 * * *"',
        '  timeZone: "Asia/Tokyo"',
        "  concurrencyPolicy: Forbid",
        "  backoffLimit: 2 -> maxAttempts: 3",
        "  (not set) -> timeoutSeconds: 86400",
        "",
    ]
    assert result.lines[9] == "What changes in meaning:"
    assert "as soon as the running Job ends" in result.out
    assert result.lines[-1] == "Nothing was written; --output FOLDER writes the files, and --check compares ticks."
    assert {path.name for path in manifests.parent.iterdir()} == {"manifests"}


def test_the_import_is_the_suspended_cron_job_and_a_valid_schedule(bare_cli: Cli, manifests: Path):
    result = bare_cli("import", "manifests", "--output", "jobs")

    folder = manifests.parent / "jobs" / "shop"
    assert result.lines[-1] == "2 files written to jobs."
    assert (folder / "report.cronjob.yaml").read_text() == MANIFEST.replace('* *"\n', '* *"\n  suspend: true\n')
    (schedule,) = load_folder(folder.parent).schedules
    assert (schedule.full_name, schedule.spec.payload, schedule.spec.max_attempts) == (
        "shop/report", {"cronJob": "report"}, 3,
    )  # fmt: skip


def test_a_repeat_writes_nothing_and_no_file_is_replaced_without_force(bare_cli: Cli, manifests: Path):
    bare_cli("import", "manifests", "--output", "jobs")
    assert bare_cli("import", "manifests", "--output", "jobs").lines[-1] == "jobs is up to date."
    file = manifests.parent / "jobs" / "shop" / "report.jobschedule.yaml"
    file.write_text("mine")
    (manifests.parent / "jobs" / "shop" / "report.cronjob.yaml").unlink()

    refused = bare_cli("import", "manifests", "--output", "jobs")

    assert refused.code == 1
    assert refused.err == (
        "wakeboard: jobs/shop/report.jobschedule.yaml exists with another content; --force replaces it."
        " Nothing was written.\n"
    )
    assert file.read_text() == "mine"
    assert not file.with_name("report.cronjob.yaml").exists()
    assert bare_cli("import", "manifests", "--output", "jobs", "--force").code == 0
    assert "jobType: job" in file.read_text()


@pytest.mark.parametrize("is_alone", [True, False])
def test_an_unreadable_file_makes_its_folder_incomplete(bare_cli: Cli, manifests: Path, is_alone: bool):
    (manifests / "torn.yaml").write_text("kind: CronJob\n  metadata: [\n")
    if is_alone:
        (manifests / "report.yaml").unlink()

    first, repeat = (bare_cli("import", "manifests", "--output", "jobs") for _ in range(2))

    assert (first.code, repeat.code) == (1, 1)
    assert first.err.startswith("wakeboard: manifests/torn.yaml:2: ")
    if is_alone:
        assert (first.lines[0], first.lines[-1]) == (
            "There is nothing to import in what could be read.",
            "Nothing was written.",
        )
    else:
        assert first.lines[-1] == "2 files written to jobs, without what could not be read or imported."
        assert repeat.lines[-1] == "jobs is up to date, without what could not be read or imported."


def test_a_link_is_replaced_and_its_target_stays(bare_cli: Cli, manifests: Path, tmp_path: Path):
    target = tmp_path / "target"
    target.write_text("mine")
    link = tmp_path / "jobs" / "shop" / "report.jobschedule.yaml"
    link.parent.mkdir(parents=True)
    link.symlink_to(target)
    assert bare_cli("import", "manifests", "--output", "jobs").code == 1
    assert bare_cli("import", "manifests", "--output", "jobs", "--force").code == 0
    assert target.read_text() == "mine"
    assert not link.is_symlink()


def test_nothing_is_written_through_a_linked_folder(bare_cli: Cli, manifests: Path, tmp_path: Path):
    elsewhere, link = tmp_path / "elsewhere", tmp_path / "jobs" / "shop"
    elsewhere.mkdir()
    link.parent.mkdir()
    link.symlink_to(elsewhere)
    result = bare_cli("import", "manifests", "--output", "jobs", "--force")
    assert result.code != 0
    assert "jobs/shop is a link; remove it" in result.err
    assert list(elsewhere.iterdir()) == []


def test_what_cannot_be_imported_is_listed_and_the_rest_is_written(bare_cli: Cli, manifests: Path):
    documents = [cron_job({"schedule": "@reboot"}, name="boot"), cron_job(name="report"), {"kind": "Service"}]
    (manifests / "zz.yaml").write_text(yaml.safe_dump_all(documents))

    result = bare_cli("import", "manifests", "--output", "jobs")

    assert result.code == 1
    assert "Cannot be imported:" in result.lines
    assert any(line.startswith("- shop/boot (manifests/zz.yaml:1): schedule") for line in result.lines)
    assert any("it is also declared in manifests/report.yaml:2" in line for line in result.lines)
    assert "1 other object passed by" in result.err
    assert len(list((manifests.parent / "jobs").rglob("*.yaml"))) == 2


def test_invalid_yaml_is_reported_with_file_and_line(bare_cli: Cli, manifests: Path):
    (manifests / "bad.yaml").write_text("kind: CronJob\n\tspec: x\n")
    result = bare_cli("import", "manifests")
    assert result.code == 1
    assert "manifests/bad.yaml:2: " in result.err
    assert "1 of 1 can be imported." in result.lines


def test_check_compares_ticks(bare_cli: Cli, manifests: Path):
    equal = bare_cli("import", "manifests", "--check", "--json")
    (row,) = equal.json
    assert (equal.code, row["differences"], len(row["ticks"])) == (0, [], 10)
    (manifests / "report.yaml").write_text(
        MANIFEST.replace("0 3 * * *", "0 5 * * SAT").replace("Asia/Tokyo", "Asia/Beirut")
    )
    differs = bare_cli("import", "manifests", "--check")
    assert differs.code == 1
    assert any(line.startswith("  differs: around the clock change of") for line in differs.lines)


def test_standard_input_may_be_the_json_of_kubectl(bare_cli: Cli, monkeypatch: pytest.MonkeyPatch):
    listed = {"apiVersion": "v1", "kind": "List", "items": [cron_job(name="a"), cron_job(name="b", namespace="ops")]}
    pipe(monkeypatch, json.dumps(listed))
    rows = bare_cli("import", "-", "--json").json
    assert [row["schedule"] for row in rows] == ["shop/a", "ops/b"]
    pipe(monkeypatch, json.dumps(listed))
    assert [row["schedule"] for row in bare_cli("import", "-", "--namespace", "ops", "--json").json] == ["ops/b"]


@pytest.mark.parametrize(
    ("options", "asked"),
    [
        ([], [""]),
        (["--all-namespaces"], [" --all-namespaces"]),
        (["-n", "shop", "-n", "ops"], [" --namespace shop", " --namespace ops"]),
    ],
)
def test_a_cluster_is_read_with_kubectl(bare_cli: Cli, kubectl: Path, options: list[str], asked: list[str]):
    result = bare_cli("import", *options, "--json")
    get = "get cronjobs.batch --output=json --request-timeout=60s"
    assert (kubectl / "asked").read_text().splitlines() == [get + scope for scope in asked]
    assert result.json[0]["where"] == "the cluster"


def test_what_kubectl_says_is_shown(bare_cli: Cli, kubectl: Path, monkeypatch: pytest.MonkeyPatch):
    log_line = 'E1122 14:44:42.997979    3306 memcache.go:265] "Unhandled Error" err="connection refused"\n'
    (kubectl / "fails").write_text(f"{log_line}error: You must be logged in\n")
    assert bare_cli("import").err == (
        "wakeboard: kubectl get cronjobs failed: error: You must be logged in. Check `kubectl config current-context`,"
        " or name a folder of manifests, or - for standard input.\n"
    )
    monkeypatch.setenv("PATH", "/nonexistent")
    assert bare_cli("import").err.startswith("wakeboard: kubectl is not installed; install it, or name a folder")


def test_a_crontab_becomes_commands_and_settings_of_the_workers(
    bare_cli: Cli, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
):
    pipe(monkeypatch, "PATH=/usr/bin:/bin\n*/5 * * * * /srv/backup.sh | awk '{print}'\n@reboot /srv/start\n")
    result = bare_cli("import", "-", "--crontab", "--namespace", "ops", "--output", "jobs")
    assert result.code == 1
    assert "- standard input:3: @reboot has no time" in result.out
    (schedule,) = load_folder(tmp_path / "jobs").schedules
    assert (schedule.full_name, schedule.spec.job_type, schedule.spec.payload) == (
        "ops/backup", "command", {"command": "backup"},
    )  # fmt: skip
    settings = read_env_file(tmp_path / "jobs").values  # as `wakeboard up` reads it
    assert {name: json.loads(value) for name, value in settings.items()} == {
        "WAKEBOARD_MAX_TIMEOUT_SECONDS": 86400,
        "WAKEBOARD_COMMANDS": {
            "backup": {
                "argv": ["/usr/bin/env", "PATH=/usr/bin:/bin", "/bin/sh", "-c", "/srv/backup.sh | awk '{print}'"],
                "literal": True,
            }
        },
    }


def test_a_folder_of_crontabs_is_read_as_cron_reads_it(bare_cli: Cli, tmp_path: Path):
    folder = tmp_path / "cron.d"
    folder.mkdir()
    (folder / "b").write_text("0 1 * * * root one\n")
    (folder / "a").write_text("0 1 * * * root one\n")
    (folder / "a.dpkg-old").write_text("0 1 * * * root one\n")
    rows: list[dict[str, Any]] = bare_cli("import", "cron.d", "--crontab", "--with-users", "--check", "--json").json
    assert [(row["where"], row["schedule"], row["differences"]) for row in rows] == [
        ("cron.d/a:1", "default/one", []),
        ("cron.d/b:1", "default/one-2", []),
    ]


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["gone"], "there is no file or folder gone"),
        (["--crontab"], "--crontab needs a file"),
        (["x", "--with-users"], "add --crontab"),
        (["x", "-A"], "--all-namespaces is for a cluster"),
        (["--default-zone", "Mars"], "is not a known time zone; write for example Europe/Lisbon"),
        (["-n", "--kubeconfig=x"], "is not a namespace"),
        (["-", "--crontab", "-n", "a", "-n", "b"], "takes one --namespace"),
    ],
)
def test_invalid_usage_is_one_sentence(bare_cli: Cli, arguments: list[str], says: str):
    result = bare_cli("import", *arguments)
    assert result.code in {1, 2}
    assert says in result.err
    assert result.err.count("\n") == 1
