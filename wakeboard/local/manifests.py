"""Manifests: the JobSchedules that stand in a folder of YAML files, and what is wrong with the others.

What is wrong with one schedule hides no other. Callers decide what to do about problems; to help them not to remove
what merely cannot be read, the names that are in doubt come along, and whether there may be more of them.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, Final, TypeAlias, cast

import yaml

from wakeboard.errors import InvalidSchedule, WakeboardError
from wakeboard.local.bounded_file import MOST_BYTES, Unreadable, decoded, read_text
from wakeboard.local.yamldocuments import children, line_at, line_of, nodes_of, value_of
from wakeboard.rules.job_schedule import load_job_schedule

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from wakeboard.rules.job_schedule import JobSchedule

Key: TypeAlias = "tuple[str, str]"  # namespace, name

SUFFIXES: Final = (".yaml", ".yml")
_GROUP: Final = "wakeboard.dev/"


@dataclass(frozen=True, slots=True)
class Manifests:
    """What a folder declares.

    `problems` and `notes` are sentences that begin with `file:line`. `in_doubt` are the namespaces and names of
    schedules that are declared but cannot be honoured as written, or are declared twice. `complete` is False when some
    part could not be read at all, so that nobody knows what else stands there.
    """

    schedules: tuple[JobSchedule, ...]
    problems: tuple[str, ...]
    notes: tuple[str, ...]
    in_doubt: frozenset[Key]
    complete: bool


def load_folder(path: Path) -> Manifests:
    """Reads every *.yaml and *.yml file below `path`, or the one file that `path` is.

    Hidden files and folders are passed over, links to folders are not followed. Raises WakeboardError when there is
    nothing at `path`.
    """
    if not path.exists():
        raise WakeboardError(f"there is no folder {path}")
    reading = _Reading()
    for file in _files_below(path, reading) if path.is_dir() else [path]:
        reading.read(file)
    return reading.result()


def load_stream(stream: IO[bytes], name: str) -> Manifests:
    """The same for what a program sends; `name` stands for the file in sentences."""
    reading = _Reading()
    reading.read_text(lambda: decoded(stream.read(MOST_BYTES + 1)), Path(name))
    return reading.result()


def _files_below(path: Path, reading: _Reading) -> Iterator[Path]:
    for folder, folders, files in os.walk(path, onerror=reading.cannot_read):
        folders[:] = sorted(name for name in folders if not name.startswith("."))
        yield from (
            Path(folder, name) for name in sorted(files) if name.endswith(SUFFIXES) and not name.startswith(".")
        )


class _Reading:
    """What has been read so far."""

    def __init__(self) -> None:
        self._schedules: dict[Key, JobSchedule] = {}
        self._places: dict[Key, str] = {}
        self._problems: list[str] = []
        self._notes: list[str] = []
        self._in_doubt: set[Key] = set()
        self._complete = True

    def result(self) -> Manifests:
        good = (schedule for key, schedule in self._schedules.items() if key not in self._in_doubt)
        return Manifests(
            tuple(good), tuple(self._problems), tuple(self._notes), frozenset(self._in_doubt), self._complete
        )

    def cannot_read(self, error: OSError, file: Path | None = None) -> None:
        self._lose(f"{error.filename or file}: it cannot be read: {error.strerror}")  # reading names no file

    def read(self, file: Path) -> None:
        """Everything that one file declares, up to where it stops being YAML."""
        self.read_text(lambda: read_text(file), file)

    def read_text(self, text: Callable[[], str], file: Path) -> None:
        """The same for text that comes from elsewhere."""
        try:
            for node in nodes_of(text()):
                self._read_document(node, file)
        except OSError as error:
            self.cannot_read(error, file)
        except Unreadable as error:
            self._lose(f"{file}:{error.line}: {error}")

    def _lose(self, problem: str) -> None:
        self._problems.append(problem)
        self._complete = False

    def _read_document(self, node: yaml.Node, file: Path, *, listed: bool = False) -> None:
        parts = children(node)
        kind, version = _word(parts.get("kind")), _word(parts.get("apiVersion"))
        if kind.endswith("List") and "items" in parts:
            self._read_list(parts["items"], file, listed=listed)
        elif kind.lower() == "jobschedule" or version.startswith(_GROUP):
            self._read_schedule(node, file)
        else:
            self._notes.append(f"{file}:{line_of(node)}: ignored, as it is {f'a {kind}' if kind else 'no JobSchedule'}")

    def _read_list(self, items: yaml.Node, file: Path, *, listed: bool) -> None:
        where = f"{file}:{line_of(items)}"
        if listed:
            self._lose(f"{where}: this List stands in a List; write its items into the outer one")
        elif not isinstance(items, yaml.SequenceNode):
            self._lose(f"{where}: items must be a list; begin each of them with -")
        else:
            for item in cast("list[yaml.Node]", items.value):
                self._read_document(item, file, listed=True)

    def _read_schedule(self, node: yaml.Node, file: Path) -> None:
        where = f"{file}:{line_of(node)}"
        try:
            value = value_of(node)
            self._add(load_job_schedule(value, lambda place: f"{file}:{line_at(node, place)}"), where)
        except InvalidSchedule as error:
            self._problems += error.problems
        except Unreadable as error:
            self._problems.append(f"{file}:{error.line}: {error}")
        else:
            return
        self._doubt(node)

    def _add(self, schedule: JobSchedule, where: str) -> None:
        key = schedule.metadata.namespace, schedule.metadata.name
        if key in self._places:
            self._in_doubt.add(key)
            self._problems.append(
                f"{where}: {schedule.full_name} is declared in {self._places[key]}, too; neither counts until one of"
                " them has another name"
            )
        self._places.setdefault(key, where)
        self._schedules.setdefault(key, schedule)

    def _doubt(self, node: yaml.Node) -> None:
        """Remembers the name of a schedule that cannot be honoured, if it has one that can be read."""
        metadata: dict[str, Any] = children(children(node).get("metadata", node))
        if name := _word(metadata.get("name")):
            self._in_doubt.add((_word(metadata.get("namespace")) or "default", name))
        else:
            self._complete = False


def _word(node: yaml.Node | None) -> str:
    return node.value if node is not None and isinstance(node.value, str) else ""
