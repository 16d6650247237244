"""Loads JobSchedules and limits from a folder of YAML files and reports every problem with file and line.

A problem in one schedule does not hide the others. Callers decide what problems mean. So that a caller does not remove
a schedule whose file is only unreadable, the result lists the names of invalid schedules and says whether every file
was read to its end.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, Final, TypeAlias, cast

import yaml

from wakeboard.alerts.rules.alert_rules import KIND as ALERT_RULES
from wakeboard.alerts.rules.alert_rules import AlertRules, load_alert_rules
from wakeboard.declared.bounded_file import MAX_FILE_BYTES, Unreadable, decode, read_text
from wakeboard.declared.single_document import load_document
from wakeboard.declared.yaml_documents import children, line_at, line_of, nodes_of, value_of
from wakeboard.errors import InvalidSchedule, WakeboardError
from wakeboard.limits.rules.declared_limits import KIND as LIMITS
from wakeboard.limits.rules.declared_limits import NO_LIMITS, Limits, load_limits
from wakeboard.schedules.rules.job_schedule import JobSchedule, load_job_schedule
from wakeboard.text.sanitize import one_line

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from wakeboard.declared.model import Declared
    from wakeboard.declared.validation_messages import Place

Key: TypeAlias = "tuple[str, str]"  # namespace, name

Parsed: TypeAlias = (
    "dict[str, list[tuple[JobSchedule, int]]]"  # by the text of a file its schedules, each with its line
)

# The kinds of documents, by the name of their JSON Schema.
DOCUMENTS: Final[dict[str, type[Declared]]] = {
    "job-schedule": JobSchedule,
    "alert-rules": AlertRules,
    "limits": Limits,
}
SUFFIXES: Final = (".yaml", ".yml")
_GROUP: Final = "wakeboard.dev/"


@dataclass(frozen=True, slots=True)
class Manifests:
    """The schedules that a folder declares.

    `problems` and `notes` are sentences that begin with `file:line`. `invalid` has the namespace and name of each
    schedule that is declared twice or cannot be used as written. `complete` is False if a part could not be read, so
    that it may declare more schedules. `limits`: the declared limits, None if there is no document with them;
    `limits_invalid`: there is one that cannot be used as written. `alert_rules`: how many documents of alert rules were
    checked.
    """

    schedules: tuple[JobSchedule, ...]
    problems: tuple[str, ...]
    notes: tuple[str, ...]
    invalid: frozenset[Key]
    complete: bool
    limits: Limits | None = None
    limits_invalid: bool = False
    alert_rules: int = 0


def load_folder(path: Path) -> Manifests:
    """Reads every *.yaml and *.yml file below `path`, or the single file `path`.

    Hidden files and folders are ignored. Links to folders are not followed. Raises WakeboardError if `path` does not
    exist.
    """
    return load_paths([path])


def load_paths(paths: Iterable[Path], *, with_alerts: bool = False, parsed: Parsed | None = None) -> Manifests:
    """As `load_folder`, of several folders and files. `with_alerts`: alert rules are checked, too.

    `parsed`: what was read before, and is read only once if several states have the same file.
    """
    loader = _Loader(with_alerts=with_alerts, parsed=parsed)
    for path in paths:
        if not path.exists():
            raise WakeboardError(f"there is no folder {path}")
        for file in files_below(path, loader.add_read_error) if path.is_dir() else [path]:
            loader.read(file)
    return loader.result()


def load_texts(texts: Iterable[tuple[Path, Callable[[], str]]], parsed: Parsed) -> Manifests:
    """As `load_paths`, of files from elsewhere. Each has its name, and a function that returns its text."""
    loader = _Loader(parsed=parsed)
    for file, text in texts:
        loader.read_text(text, file)
    return loader.result()


def declared_limits(manifests: Manifests, *, removes: bool) -> Limits | None:
    """The limits that the folder declares; None: those that it declared before stay as they are.

    A folder without a document of them declares none, if the caller removes what the folder no longer declares.
    """
    if manifests.limits_invalid:
        return None
    return manifests.limits or (NO_LIMITS if removes and manifests.complete else None)


def load_stream(stream: IO[bytes], name: str) -> Manifests:
    """Reads manifests from a stream, such as standard input. `name` replaces the file name in messages."""
    loader = _Loader()
    loader.read_text(lambda: decode(stream.read(MAX_FILE_BYTES + 1)), Path(name))
    return loader.result()


def files_below(
    path: Path, on_error: Callable[[OSError], None], suffixes: tuple[str, ...] = SUFFIXES
) -> Iterator[Path]:
    """The files below a folder with one of these endings, in order; neither hidden ones nor those in hidden folders."""
    for folder, folders, files in os.walk(path, onerror=on_error):
        folders[:] = sorted(name for name in folders if not name.startswith("."))
        yield from (
            Path(folder, name) for name in sorted(files) if name.endswith(suffixes) and not name.startswith(".")
        )


class _Loader:
    """Collects schedules and problems from several files."""

    def __init__(self, *, with_alerts: bool = False, parsed: Parsed | None = None) -> None:
        self._with_alerts = with_alerts
        self._parsed = parsed
        self._schedules: dict[Key, JobSchedule] = {}
        self._locations: dict[Key, str] = {}
        self._problems: list[str] = []
        self._notes: list[str] = []
        self._invalid: set[Key] = set()
        self._complete = True
        self._limits: Limits | None = None
        self._limits_at = ""
        self._read_now: list[tuple[JobSchedule, int]] = []
        self._limits_invalid = False
        self._alert_rules = 0

    def result(self) -> Manifests:
        valid = (schedule for key, schedule in self._schedules.items() if key not in self._invalid)
        return Manifests(
            tuple(valid),
            tuple(map(one_line, self._problems)),  # the name of a file may hold a line break
            tuple(map(one_line, self._notes)),
            frozenset(self._invalid),
            self._complete,
            self._limits,
            self._limits_invalid,
            self._alert_rules,
        )

    def add_read_error(self, error: OSError, file: Path | None = None) -> None:
        self._add_incomplete(f"{error.filename or file}: it cannot be read: {error.strerror}")  # read() names no file

    def read(self, file: Path) -> None:
        """Reads the documents of one file, up to the first YAML error."""
        self.read_text(lambda: read_text(file), file)

    def read_text(self, text: Callable[[], str], file: Path) -> None:
        """Reads the documents of a text; `file` is its name in messages."""
        try:
            self._read_once(text(), file)
        except OSError as error:
            self.add_read_error(error, file)
        except Unreadable as error:
            self._add_incomplete(f"{file}:{error.line}: {error}")

    def _read_once(self, text: str, file: Path) -> None:
        """Reads the documents. A text that has only valid schedules is parsed once."""
        known = None if self._parsed is None else self._parsed.get(text)
        for schedule, line in known or ():
            self._add(schedule, f"{file}:{line}")
        if known is not None:
            return
        self._read_now = []
        others = len(self._problems), len(self._notes), self._limits, self._limits_invalid
        for node in nodes_of(text):
            self._read_document(node, file)
        is_valid = others == (len(self._problems), len(self._notes), self._limits, self._limits_invalid)
        if self._parsed is not None and is_valid:
            self._parsed[text] = self._read_now

    def _add_incomplete(self, problem: str) -> None:
        self._problems.append(problem)
        self._complete = False

    def _read_document(self, node: yaml.Node, file: Path, *, in_list: bool = False) -> None:
        parts = children(node)
        kind, version = _text(parts.get("kind")), _text(parts.get("apiVersion"))
        if kind.endswith("List") and "items" in parts:
            self._read_list(parts["items"], file, in_list=in_list)
        elif kind == ALERT_RULES and self._with_alerts:
            self._alert_rules += 1
            self._problems += _problems_of(node, file, load_alert_rules)
        elif kind == ALERT_RULES:
            self._notes.append(f"{file}:{line_of(node)}: ignored: alert rules; WAKEBOARD_ALERTS_FILE names their file")
        elif kind == LIMITS and version.startswith(_GROUP):
            self._read_limits(node, file)
        elif version.startswith(_GROUP) and kind.lower() not in {"", "jobschedule"}:
            self._problems.append(f'{file}:{line_of(node)}: kind is "{kind}"; write JobSchedule or {LIMITS}')
            self._add_invalid(node)
        elif kind.lower() == "jobschedule" or version.startswith(_GROUP):
            self._read_schedule(node, file)
        elif not kind and "spec" in parts:
            self._notes.append(f"{file}:{line_of(node)}: ignored: it has a spec and no kind; write kind: JobSchedule")

    def _read_list(self, items: yaml.Node, file: Path, *, in_list: bool) -> None:
        where = f"{file}:{line_of(items)}"
        if in_list:
            self._add_incomplete(f"{where}: a List inside a List is not supported; move its items to the outer List")
        elif not isinstance(items, yaml.SequenceNode):
            self._add_incomplete(f"{where}: items must be a list; begin each of them with -")
        else:
            for item in cast("list[yaml.Node]", items.value):
                self._read_document(item, file, in_list=True)

    def _read_limits(self, node: yaml.Node, file: Path) -> None:
        where = f"{file}:{line_of(node)}"
        problems: Sequence[str] = ()
        try:
            limits = load_document(node, file, load_limits)
        except (InvalidSchedule, Unreadable) as error:
            problems = _sentences(error, file)
        else:
            if self._limits is not None:
                problems = [f"{where}: limits are also declared in {self._limits_at}; write them in one document"]
            self._limits, self._limits_at = limits, where
        self._problems += problems
        self._limits_invalid = self._limits_invalid or bool(problems)

    def _read_schedule(self, node: yaml.Node, file: Path) -> None:
        where = f"{file}:{line_of(node)}"
        try:
            value = value_of(node)
            schedule = load_job_schedule(value, lambda path: f"{file}:{line_at(node, path)}")
            self._add(schedule, where)
            self._read_now.append((schedule, line_of(node)))
        except (InvalidSchedule, Unreadable) as error:
            self._problems += _sentences(error, file)
            self._add_invalid(node)

    def _add(self, schedule: JobSchedule, where: str) -> None:
        key = schedule.metadata.namespace, schedule.metadata.name
        if key in self._locations:
            self._invalid.add(key)
            self._problems.append(
                f"{where}: {schedule.full_name} is also declared in {self._locations[key]}; both are ignored until one"
                " of them is renamed"
            )
        self._locations.setdefault(key, where)
        self._schedules.setdefault(key, schedule)

    def _add_invalid(self, node: yaml.Node) -> None:
        """Records the name of an invalid schedule, or that its name cannot be read."""
        metadata: dict[str, Any] = children(children(node).get("metadata", node))
        if name := _text(metadata.get("name")):
            self._invalid.add((_text(metadata.get("namespace")) or "default", name))
        else:
            self._complete = False


def _text(node: yaml.Node | None) -> str:
    return node.value if node is not None and isinstance(node.value, str) else ""


def _problems_of(
    node: yaml.Node, file: Path, load: Callable[[object, Callable[[Place], str]], object]
) -> Sequence[str]:
    """What is wrong with a document, whose value is not used."""
    try:
        load_document(node, file, load)
    except (InvalidSchedule, Unreadable) as error:
        return _sentences(error, file)
    return ()


def _sentences(error: InvalidSchedule | Unreadable, file: Path) -> Sequence[str]:
    return [f"{file}:{error.line}: {error}"] if isinstance(error, Unreadable) else error.problems
