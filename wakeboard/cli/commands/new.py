"""The command `wakeboard new`: a project with handlers, schedules, tests, an image and values of the chart."""

from __future__ import annotations

import shlex
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer

from wakeboard.cli.support.options import AsJson, read_path
from wakeboard.cli.support.output import print_json, print_message
from wakeboard.errors import Refused
from wakeboard.process.program_name import program_name


@dataclass(frozen=True, slots=True, kw_only=True)
class Created:
    """The new project. `files`: their paths in the folder."""

    name: str
    folder: str
    files: list[str]


EXAMPLES = (
    "wakeboard new shop-jobs                 a project in the folder shop-jobs",
    "wakeboard new . --name shop-jobs        in the current folder, which must be empty",
)


def command(
    folder: Annotated[Path, typer.Argument(metavar="FOLDER", parser=read_path, help="A new folder, or an empty one.")],
    name: Annotated[
        str | None,
        typer.Option(
            "--name",
            metavar="NAME",
            help="The name of the package, the namespace, the queue and the image. The default is the folder's name.",
            show_default=False,
        ),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Write a new project.

    It has two handlers and their tests, two schedules, settings for ruff and pyright, a Dockerfile for the workers,
    and values for the chart. All of its checks pass. Nothing is overwritten.
    """
    from wakeboard.cli.support.new_project import project_files, project_name, write_project

    try:
        name = folder.resolve().name if name is None else name
    except (OSError, RuntimeError) as exc:  # RuntimeError: links in a circle
        raise Refused(f"{folder} cannot be read: {exc}. Nothing was written.") from exc
    project = project_name(name)
    texts = project_files(project)
    write_project(folder, texts)
    if as_json:
        print_json(Created(name=project, folder=str(folder), files=list(texts)))
        return
    for path in texts:
        print_message(f"created: {folder / path}")
    print_message(f"To run it: {program_name()} up {shlex.quote(str(folder))}")
