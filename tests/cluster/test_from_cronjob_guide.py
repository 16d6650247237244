"""Types every command of docs/from-cronjob.md, unchanged but for the namespace, against a real API server.

The CronJob controller runs, so that the test sees what it would start. No pods run.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from testbed.cluster.binaries import find_program
from testbed.cluster.cluster import Refused
from testbed.cluster.operators import Environment, Operator
from testbed.processes import wait_for
from tests.imports.import_examples import cron_job

if TYPE_CHECKING:
    from collections.abc import Iterator

    from testbed.cluster.cluster import Cluster

pytestmark = pytest.mark.usefixtures("crds")

GUIDE = Path(__file__).parents[2] / "docs" / "from-cronjob.md"
TIMEOUT_S = 90
NAMES = ("clean-up", "report", "sync")


def hour_ago() -> datetime:
    return datetime.now(UTC).replace(second=0, microsecond=0) - timedelta(hours=1)


def examples() -> list[dict[str, Any]]:
    """Three CronJobs that are not due within the test: each was due an hour before it, or was so a minute earlier."""
    due = hour_ago() + timedelta(minutes=30 if hour_ago().minute < 30 else -30)
    schedule = f"{due.minute} * * * *"
    return [
        cron_job({"schedule": schedule}, name="report"),
        cron_job(
            {"schedule": f"{due.minute} */1 ? * *", "timeZone": "Europe/Lisbon", "concurrencyPolicy": "Forbid"},
            {"backoffLimit": 2, "activeDeadlineSeconds": 600},
            {"restartPolicy": "OnFailure"},
            name="sync",
        ),
        cron_job({"schedule": "0 3 1 1 *", "timeZone": None, "startingDeadlineSeconds": 3600}, name="clean-up"),
    ]


class Reader:
    """Runs the commands of the guide in a folder of their own, in a namespace of the shared API server."""

    def __init__(self, cluster: Cluster, namespace: str, folder: Path) -> None:
        self.cluster, self.namespace, self.folder = cluster, namespace, folder
        programs = folder / "programs"
        programs.mkdir()
        (programs / "kubectl").symlink_to(find_program("kubectl"))
        self._path = f"{programs}:{Path(sys.executable).parent}:{os.environ['PATH']}"

    def types(self, heading: str, *numbers: int) -> str:
        """Types the `sh` blocks below a heading, or those of these numbers; what they print."""
        blocks = _blocks(heading)
        return "".join(self.run(blocks[number]) for number in numbers or range(len(blocks)))

    def run(self, script: str) -> str:
        text = re.sub(r"\bshop\b", self.namespace, script)
        environment = {
            **os.environ,
            "PATH": self._path,
            "KUBECONFIG": str(self.cluster.admin),
            "HOME": str(self.folder),
        }
        done = subprocess.run(
            ["bash", "-euo", "pipefail", "-c", text],
            env=environment, cwd=self.folder, capture_output=True, text=True, check=False, timeout=TIMEOUT_S,
        )  # fmt: skip
        assert done.returncode == 0, f"{text}\n{done.stdout}\n{done.stderr}"
        return done.stdout

    def cron_job(self, name: str) -> dict[str, Any]:
        return self.cluster.call("GET", f"{self._batch}/cronjobs/{name}")

    def jobs(self) -> list[str]:
        return [job["metadata"]["name"] for job in self.cluster.call("GET", f"{self._batch}/jobs")["items"]]

    def create(self, document: dict[str, Any]) -> None:
        document["metadata"]["namespace"] = self.namespace
        self.cluster.call("POST", f"{self._batch}/cronjobs", document)

    def was_due(self, name: str, at: datetime) -> None:
        """Writes the status of a CronJob whose last tick was then."""
        status = {"status": {"lastScheduleTime": f"{at:%Y-%m-%dT%H:%M:%SZ}"}}
        self.cluster.call("PATCH", f"{self._batch}/cronjobs/{name}/status", status, "application/merge-patch+json")

    @property
    def _batch(self) -> str:
        return f"/apis/batch/v1/namespaces/{self.namespace}"


def _blocks(heading: str) -> list[str]:
    section = GUIDE.read_text().split(f"\n## {heading}\n")[1].split("\n## ")[0]
    return re.findall(r"^```sh\n(.*?)^```", section, re.MULTILINE | re.DOTALL)


@pytest.fixture
def reader(control_plane: Cluster, namespace: str, tmp_path: Path) -> Reader:
    return Reader(control_plane, namespace, tmp_path)


@pytest.fixture
def environment(reader: Reader, database: str, tmp_path: Path) -> Iterator[Environment]:
    """An operator of the namespace."""
    where = {"namespaces": reader.namespace, "source": f"k8s:{reader.namespace}"}
    with Operator(database, reader.cluster.admin, tmp_path, status_min_interval_seconds=1, **where) as operator:
        operator.wait_until_leading()
        yield Environment(reader.cluster, reader.namespace, database)


def test_three_imported_cron_jobs_are_accepted_by_the_api_server(reader: Reader) -> None:
    for example in examples():
        reader.create(example)
    reader.types("Steps", 0, 1)
    folder = reader.folder / "jobs" / reader.namespace
    assert {file.name for file in folder.iterdir()} == {
        f"{name}.{kind}.yaml" for name in NAMES for kind in ("cronjob", "jobschedule")
    }
    strict = ("apply", "--server-side", "--force-conflicts", "--dry-run=server", "--validate=strict")
    answer = reader.cluster.kubectl(*strict, "--filename", str(folder))
    assert answer.count("serverside-applied (server dry run)") == 6
    (folder / "report.jobschedule.yaml").write_text((folder / "report.jobschedule.yaml").read_text() + "  unknown: 1\n")
    with pytest.raises(Refused, match="unknown"):
        reader.cluster.kubectl(*strict, "--filename", str(folder))


def test_the_steps_of_the_guide_leave_one_of_both_due(reader: Reader, environment: Environment) -> None:
    for example in examples():
        reader.create(example)

    assert "3 of 3 can be imported." in reader.types("Steps", 0)
    reader.types("Steps", 1, 2)
    for name in NAMES:
        assert environment.row(name, "suspended, next_run_at") == (True, None)
        assert not reader.cron_job(name)["spec"]["suspend"]

    reader.types("Steps", 3)
    for name in NAMES:
        assert reader.cron_job(name)["spec"]["suspend"]
        assert environment.row(name, "suspended") == (True,)

    reader.types("Steps", 4)
    for name in NAMES:
        wait_for(lambda: environment.row(name, "suspended") == (False,), why=lambda: name)  # noqa: B023
        assert environment.row(name, "next_run_at > now()") == (True,)
        assert reader.cron_job(name)["spec"]["suspend"]
    assert environment.sql("select count(*) from job_runs") == [(0,)]
    assert reader.jobs() == []


def test_a_rollback_starts_no_tick_again(reader: Reader, environment: Environment) -> None:
    """A CronJob that resumes without a deadline starts an old tick: the same CronJob in another namespace shows it."""
    for example in examples()[:2]:
        reader.create(example)
    reader.types("Steps")
    for name in ("report", "sync"):
        reader.was_due(name, hour_ago() - timedelta(hours=2))

    reader.types("Roll back")

    control = examples()[0]
    reader.create({**control, "metadata": {"name": "control"}, "spec": {**control["spec"], "suspend": True}})
    reader.was_due("control", hour_ago() - timedelta(hours=2))
    reader.cluster.kubectl(
        "patch",
        "cronjob",
        "control",
        "--namespace",
        reader.namespace,
        "--patch",
        json.dumps({"spec": {"suspend": False}}),
    )
    wait_for(lambda: reader.jobs() != [], why=lambda: json.dumps(reader.cron_job("control")))
    assert [name.rpartition("-")[0] for name in reader.jobs()] == ["control"]
    for name in ("report", "sync"):
        assert reader.cron_job(name)["spec"]["suspend"] is False
        wait_for(lambda: environment.row(name, "suspended") == (True,), why=lambda: name)  # noqa: B023


def test_the_commands_for_crontabs_work(reader: Reader, tmp_path: Path) -> None:
    (tmp_path / "programs" / "crontab").write_text("#!/bin/sh\necho '*/5 * * * * /srv/backup'\n")
    (tmp_path / "programs" / "crontab").chmod(0o755)
    first, _ = _blocks("From a crontab")[0].splitlines()
    reader.run(first)
    assert (tmp_path / "jobs" / "backup.jobschedule.yaml").exists()
    assert (tmp_path / "jobs" / "wakeboard.env").exists()
