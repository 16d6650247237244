"""The files of a new project: templates in wakeboard/cli/project with the project's name and wakeboard's version."""

from __future__ import annotations

import json
import re
from importlib.resources import files
from string import Template
from typing import TYPE_CHECKING, Final

from wakeboard import __version__
from wakeboard.errors import InvalidValue, Refused, WakeboardError

if TYPE_CHECKING:
    from pathlib import Path

LONGEST_NAME: Final = 40  # it becomes part of the names of pods
# A project of this name would hide this package, and YAML reads the others as values that are no text.
_TAKEN: Final = frozenset({"wakeboard", "null", "true", "false", "yes", "no", "on", "off", "y", "n"})
# Where each template goes in the project.
FILES: Final = {
    "README.md": "README.md",
    "handlers.py": "handlers.py",
    "report.yaml": "schedules/report.yaml",
    "clean-up.yaml": "schedules/clean-up.yaml",
    "alerts.yaml": "alerts.yaml",
    "test_handlers.py": "tests/test_handlers.py",
    "pyproject.toml": "pyproject.toml",
    "Dockerfile": "Dockerfile",
    "dockerignore": ".dockerignore",
    "gitignore": ".gitignore",
    "values.yaml": "values.yaml",
}
SCHEMAS: Final = ".schemas"  # the first line of each YAML file names one, for editors
_NAME: Final = re.compile(r"[A-Za-z]([A-Za-z0-9._-]*[A-Za-z0-9])?")


def project_name(text: str) -> str:
    """The name of a Python package in the form that namespaces and queues allow, too. Raises InvalidValue."""
    if len(text) > LONGEST_NAME or not _NAME.fullmatch(text):
        rule = f"letters, digits and inner hyphens, at most {LONGEST_NAME}, beginning with a letter"
        raise InvalidValue(f"{text[:80]!r} is not the name of a package: use {rule}, or give the name by --name.")
    name = re.sub(r"[-_.]+", "-", text).lower()
    if name in _TAKEN:
        raise InvalidValue(f"{text!r} means something else in a project's files: give another name by --name.")
    return name


def project_files(name: str) -> dict[str, str]:
    """The text of each file, by its path in the project."""
    templates = files("wakeboard.cli") / "project"
    values = {"name": name, "version": __version__}
    texts = {
        path: Template((templates / f"{template}.template").read_text(encoding="utf-8")).substitute(values)
        for template, path in FILES.items()
    }
    return texts | {f"{SCHEMAS}/{kind}.json": _schema(kind) for kind in ("job-schedule", "alert-rules")}


def _schema(kind: str) -> str:
    from wakeboard.declared.json_schema import json_schema
    from wakeboard.manifests import DOCUMENTS

    return json.dumps(json_schema(DOCUMENTS[kind], f"wakeboard-{kind}"), indent=2, ensure_ascii=False) + "\n"


def write_project(folder: Path, texts: dict[str, str]) -> None:
    """Writes the files into a folder that does not exist or is empty. All or none.

    Raises Refused if something is there, and WakeboardError if the folder cannot be written.
    """
    written: list[Path] = []
    try:
        if folder.is_symlink() or (folder.exists() and not folder.is_dir()):
            raise Refused(f"{folder} exists and is not a folder; choose another name. Nothing was written.")
        if folder.exists() and any(folder.iterdir()):
            raise Refused(f"{folder} exists and is not empty; choose another name. Nothing was written.")
        for path, text in texts.items():
            file = folder / path
            for parent in reversed(file.parents):
                if not parent.exists():
                    parent.mkdir()
                    written.append(parent)
            with file.open("x", encoding="utf-8") as new:
                written.append(file)
                new.write(text)
    except OSError as error:
        _remove(written)
        raise WakeboardError(f"{folder} cannot be written: {error.strerror}. Nothing was written.") from error


def _remove(paths: list[Path]) -> None:
    for path in reversed(paths):
        if path.is_dir():
            path.rmdir()
        else:
            path.unlink(missing_ok=True)
