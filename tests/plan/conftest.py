"""A folder of schedules in a Git repository, and the commands that read it."""

from __future__ import annotations

import subprocess
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pytest
import yaml

from tests.cli.conftest import bare_cli, cli, sample

if TYPE_CHECKING:
    from pathlib import Path

    from tests.cli.conftest import Cli

__all__ = ["bare_cli", "cli", "sample"]

FROM = "2027-03-01T00:00:00Z"


@dataclass
class Repository:
    """A Git repository in the current folder, and its folder `schedules`."""

    folder: Path

    def write(self, name: str, *specs: dict[str, Any], **spec: Any) -> None:
        """Writes schedules of the namespace shop into one file; of several, each has its name in `name`."""
        path = self.folder / "schedules" / f"{name}.yaml"
        path.parent.mkdir(exist_ok=True)
        documents = [
            {
                "apiVersion": "wakeboard.dev/v1alpha1",
                "kind": "JobSchedule",
                "metadata": {"name": each.pop("name", name), "namespace": "shop"},
                "spec": {"jobType": "x", **each},
            }
            for each in (dict(one) for one in (specs or (spec,)))
        ]
        path.write_text(yaml.safe_dump_all(documents))

    def limits(self, **limits: dict[str, Any]) -> None:
        """Writes a file with limits."""
        document = {"apiVersion": "wakeboard.dev/v1alpha1", "kind": "Limits", "limits": limits}
        (self.folder / "schedules" / "limits.yaml").write_text(yaml.safe_dump(document))

    def remove(self, name: str) -> None:
        """Deletes a file."""
        (self.folder / "schedules" / f"{name}.yaml").unlink()

    def commit(self) -> None:
        """Commits everything on the branch main."""
        git(self.folder, "add", "--all")
        git(self.folder, "commit", "--quiet", "--message", "schedules")


def git(folder: Path, *words: str) -> None:
    names = ("-c", "user.name=ann", "-c", "user.email=ann@example.com", "-c", "commit.gpgsign=false")
    subprocess.run(["git", *names, *words], cwd=folder, check=True, capture_output=True)


@pytest.fixture
def repository(bare_cli: Cli, tmp_path: Path) -> Repository:
    git(tmp_path, "init", "--quiet", "--initial-branch=main")
    return Repository(tmp_path)
