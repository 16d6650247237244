"""`wakeboard plan --cluster` compares a folder with the JobSchedules that a real API server has."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest
import yaml

from testbed.cluster.binaries import find_program
from testbed.cluster.job_schedules import job_schedule
from tests.cli.conftest import bare_cli
from tests.plan.conftest import FROM

if TYPE_CHECKING:
    from pathlib import Path

    from testbed.cluster.cluster import Cluster
    from tests.cli.conftest import Cli

__all__ = ["bare_cli"]

pytestmark = pytest.mark.usefixtures("crds")
FULL = {
    "schedule": "15 3 * * *",
    "timeZone": "Europe/Lisbon",
    "payload": {"a": 1.5, "b": [None, {"c": ""}]},
    "dst": {"gap": "Skip"},
    "startsAt": "2027-01-01T00:00:00Z",
    "limitKey": "api",
    "catchUp": {"policy": "All", "limit": 3},
}


@pytest.fixture
def folder(control_plane: Cluster, namespace: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder whose JobSchedules name no namespace, and are applied to that of the context."""
    path = tmp_path / "schedules"
    path.mkdir()
    documents = [
        job_schedule("full", **FULL),
        job_schedule("child", after=[{"schedule": "full", "outcome": "Ended"}]),
        job_schedule("hourly", every="1h"),
    ]
    for document in documents:
        (path / f"{document['metadata']['name']}.yaml").write_text(yaml.safe_dump(document))
    limits = {"apiVersion": "wakeboard.dev/v1alpha1", "kind": "Limits", "limits": {"api": {"rate": "5/minute"}}}
    (path / "limits.yaml").write_text(yaml.safe_dump(limits))
    control_plane.kubectl("apply", "--namespace", namespace, *(f"--filename={path}/{each}.yaml" for each in FILES))
    config = yaml.safe_load(control_plane.admin.read_text())
    config["contexts"][0]["context"]["namespace"] = namespace
    (tmp_path / "kubeconfig").write_text(yaml.safe_dump(config))
    monkeypatch.setenv("KUBECONFIG", str(tmp_path / "kubeconfig"))
    monkeypatch.setenv("PATH", f"{find_program('kubectl').parent}:{os.environ['PATH']}")
    return path


FILES = ("full", "child", "hourly")
PLAN = ("plan", "--cluster", "schedules", "--from", FROM)


def write(folder: Path, name: str, **spec: object) -> None:
    (folder / f"{name}.yaml").write_text(yaml.safe_dump(job_schedule(name, **spec)))


@pytest.mark.usefixtures("folder")
def test_what_was_applied_does_not_differ(bare_cli: Cli):
    result = bare_cli(*PLAN, "--detailed-exitcode", "--json")

    assert (result.code, result.err) == (0, "")
    assert (result.json["before"], result.json["unchanged"], result.json["schedules"]) == ("the cluster", 3, [])


def test_a_cluster_is_compared_like_a_folder(bare_cli: Cli, folder: Path, namespace: str):
    folder.rename(folder.parent / "before")
    folder.mkdir()
    for each in ("child", "limits"):
        (folder / f"{each}.yaml").write_text((folder.parent / "before" / f"{each}.yaml").read_text())
    write(folder, "hourly", every="2h")
    write(folder, "once", at="2027-03-02T08:00:30Z")

    result = bare_cli(*PLAN, "--json")

    folders = bare_cli("plan", "before", "schedules", "--from", FROM, "--json")
    as_of_folder = folders.out.replace("default/", f"{namespace}/").replace('"before": "before"', '"before": "…"')
    assert result.out.replace('"before": "the cluster"', '"before": "…"') == as_of_folder
    assert (result.code, folders.code) == (1, 1), "child runs after full, which goes"
    assert bare_cli(*PLAN).lines[-1].startswith("the cluster -> schedules, 2027-03-01 00:00 to ")


def test_other_namespaces_and_labels_are_left_out(bare_cli: Cli, folder: Path, namespace: str, control_plane: Cluster):
    other = job_schedule("theirs", every="6h")
    control_plane.apply({**other, "metadata": {"name": "theirs"}}, namespace=namespace)
    control_plane.kubectl("label", "jobschedules", "--namespace", namespace, *FILES, "team=ours")
    (folder / "hourly.yaml").unlink()

    def removed(*words: str) -> list[str]:
        found = bare_cli(*PLAN, *words, "--json").json["schedules"]
        return [each["schedule"] for each in found if each["change"] == "removed"]

    assert removed() == [f"{namespace}/hourly", f"{namespace}/theirs"]
    assert removed("--selector", "team=ours") == [f"{namespace}/hourly"]
    assert removed("-l", "team=ours", "-n", namespace, "-n", "default") == [f"{namespace}/hourly"]
    for file in folder.iterdir():
        file.unlink()
    assert len(removed("-l", "team=ours", "--allow-empty")) == len(FILES)


@pytest.mark.usefixtures("folder")
def test_what_kubectl_refuses_is_said(bare_cli: Cli):
    result = bare_cli(*PLAN, "--context", "elsewhere")
    assert (result.code, result.out) == (1, "")
    assert "elsewhere" in result.err
    assert "Traceback" not in result.err
