"""`wakeboard new` writes a project that passes its own checks, or says why it cannot, and leaves nothing."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import yaml

from testbed.processes import inherited_environment
from tests.chart.rendering import named, rendered
from wakeboard import __version__
from wakeboard.cli.support.new_project import LONGEST_NAME
from wakeboard.manifests import load_folder

if TYPE_CHECKING:
    from tests.cli.conftest import Cli

BIN = Path(sys.executable).parent
CHECKS = (  # of its README
    "pytest && ruff format --check . && ruff check . && pyright",
    "wakeboard migrate && wakeboard apply schedules/ --dry-run",
)


@pytest.fixture
def project(bare_cli: Cli, tmp_path: Path) -> Path:
    result = bare_cli("new", "shop-jobs")
    assert result.code == 0
    assert result.lines[-1] == "To run it: wakeboard up shop-jobs"
    return tmp_path / "shop-jobs"


@pytest.mark.parametrize("step", CHECKS)
def test_the_checks_of_a_new_projects_readme_pass(project: Path, step: str, empty_database: str):
    assert step in (project / "README.md").read_text("utf-8")
    environment = {
        **inherited_environment(),
        "PATH": f"{BIN}{os.pathsep}{os.environ['PATH']}",
        "PYRIGHT_PYTHON_IGNORE_WARNINGS": "1",
        "WAKEBOARD_DSN": empty_database,
    }
    found = subprocess.run(
        ["bash", "-ec", step], cwd=project, env=environment, check=False, capture_output=True, text=True
    )
    assert found.returncode == 0, found.stdout + found.stderr


def test_no_file_of_a_new_project_lets_pip_look_for_wakeboard(project: Path):
    """The name is not registered at any index, so any user may register it."""
    (project / "README.md").unlink()  # it installs wakeboard from its checkout
    texts = [path.read_text("utf-8") for path in project.rglob("*") if path.is_file()]
    assert [text for text in texts if re.search(r"wakeboard(\[\w+\])?==|pip install .*wakeboard", text)] == []


def test_each_schedule_of_a_new_project_has_a_handler(project: Path):
    assert load_folder(project).problems == ()  # as `wakeboard up` reads it: with values.yaml, which is no schedule
    manifests = load_folder(project / "schedules")
    assert (manifests.problems, manifests.notes) == ((), ())
    handlers = (project / "handlers.py").read_text("utf-8")
    assert len(manifests.schedules) == 2
    for schedule in manifests.schedules:
        assert f'@wakeboard.handler("{schedule.spec.job_type}")' in handlers
        assert (schedule.metadata.namespace, schedule.spec.queue) == ("shop-jobs", "shop-jobs")


def test_the_schedules_of_a_new_project_can_be_applied(cli: Cli):
    cli("new", "shop-jobs")
    assert cli("apply", "shop-jobs/schedules").lines[-1] == "file:schedules: 2 created."


def test_the_values_of_a_new_project_are_valid_for_the_chart(project: Path):
    values = yaml.safe_load((project / "values.yaml").read_text("utf-8"))
    pool = named(rendered(values), "CronJob", "wakeboard-wake-shop-jobs")
    (container,) = pool["spec"]["jobTemplate"]["spec"]["template"]["spec"]["containers"]
    assert container["image"] == "registry.example.com/shop-jobs-worker:0.1.0"


def test_the_image_of_a_new_project_is_built_from_this_release(project: Path):
    dockerfile = (project / "Dockerfile").read_text("utf-8")
    assert f"ARG WORKER=wakeboard/worker:{__version__}\nFROM ${{WORKER}}\n" in dockerfile


def test_a_folder_with_files_is_left_as_it_is(bare_cli: Cli, tmp_path: Path):
    (tmp_path / "jobs").mkdir()
    (tmp_path / "jobs" / "handlers.py").write_text("mine")
    result = bare_cli("new", "jobs")
    assert result.err == "wakeboard: jobs exists and is not empty; choose another name. Nothing was written.\n"
    assert result.code == 1
    assert [path.name for path in (tmp_path / "jobs").iterdir()] == ["handlers.py"]


def test_a_file_is_left_as_it_is(bare_cli: Cli, tmp_path: Path):
    (tmp_path / "jobs").write_text("mine")
    result = bare_cli("new", "jobs")
    assert result.err == "wakeboard: jobs exists and is not a folder; choose another name. Nothing was written.\n"
    assert (tmp_path / "jobs").read_text() == "mine"


@pytest.mark.parametrize("name", ["my jobs", "-jobs", "7jobs", "jobs-", "jöbs", "a" * (LONGEST_NAME + 1), "${x}"])
def test_a_name_that_no_package_can_have_is_refused(bare_cli: Cli, tmp_path: Path, name: str):
    result = bare_cli("new", "folder", f"--name={name}")
    assert result.err.startswith(f"wakeboard: {name!r} is not the name of a package: use letters, digits")
    assert result.err.count("\n") == 1
    assert result.code != 0
    assert not (tmp_path / "folder").exists()


@pytest.mark.parametrize("name", ["wakeboard", "Null", "yes", "on", "Off", "n"])
def test_a_name_that_breaks_the_files_is_refused(bare_cli: Cli, tmp_path: Path, name: str):
    result = bare_cli("new", name)
    assert (
        result.err == f"wakeboard: {name!r} means something else in a project's files: give another name by --name.\n"
    )
    assert result.code != 0
    assert not (tmp_path / name).exists()


@pytest.mark.parametrize("made", ["handlers.py", "schedules"])
def test_a_project_that_cannot_be_written_leaves_nothing(
    bare_cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, made: str
):
    """Root may write everywhere, so the refusal is made here."""
    for name in ("open", "mkdir"):
        original = getattr(Path, name)

        def refuse(path: Path, *words: object, original: Any = original, **named: object):
            if path.name == made:
                raise PermissionError(13, "Permission denied")
            return original(path, *words, **named)

        monkeypatch.setattr(Path, name, refuse)
    result = bare_cli("new", "deep/jobs")
    assert result.err == "wakeboard: deep/jobs cannot be written: Permission denied. Nothing was written.\n"
    assert list(tmp_path.iterdir()) == []
