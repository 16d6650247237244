"""Loads alert rules from a YAML file, and reads the file again when it has changed.

The last valid rules stay in force while the file is missing or invalid. Each problem has its file and line.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

from wakeboard.errors import InvalidSchedule
from wakeboard.manifests.bounded_file import Unreadable, read_text
from wakeboard.manifests.yaml_documents import children, line_at, line_of, nodes_of, value_of
from wakeboard.rules.alert_rules import API_VERSION, KIND, AlertRule, load_alert_rules

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

_Stamp: TypeAlias = "tuple[int, int, int]"


def load_alert_file(path: Path) -> tuple[AlertRule, ...]:
    """The rules of all documents in a file. Raises InvalidSchedule with a sentence for each problem."""
    problems: list[str] = []
    rules: dict[str, AlertRule] = {}
    try:
        for node in nodes_of(read_text(path)):
            where = f"{path}:{line_of(node)}"
            kind = children(node).get("kind")
            if kind is None or kind.value != KIND:
                problems.append(
                    f'{where}: these are not alert rules; write "apiVersion: {API_VERSION}", "kind: {KIND}"'
                )
                continue
            try:
                found = load_alert_rules(value_of(node), lambda place, node=node: f"{path}:{line_at(node, place)}")
            except InvalidSchedule as error:
                problems += error.problems
                continue
            for rule in found.spec.rules:
                if rules.setdefault(rule.name, rule) is not rule:
                    problems.append(f"{where}: a rule of another document is also named {rule.name}; rename one")
    except OSError as error:
        problems.append(f"{path}: it cannot be read: {error.strerror}")
    except Unreadable as error:
        problems.append(f"{path}:{error.line}: {error}")
    if problems:
        raise InvalidSchedule(*problems)
    return tuple(rules.values())


class AlertFile:
    """The rules of a file that may change while it is in use.

    `report` is called with the sentences about an invalid file once for each change of them, and with none when the
    file is valid again. `is_optional`: a missing file has no rules and is not a problem.
    """

    def __init__(self, path: Path, report: Callable[[Sequence[str]], object], *, is_optional: bool = False) -> None:
        self._path, self._report, self._is_optional = path, report, is_optional
        self._stamp: _Stamp | None = None
        self._rules: tuple[AlertRule, ...] = ()
        self._problems: tuple[str, ...] = ()

    def rules(self) -> Sequence[AlertRule]:
        """The rules that are in force now. Reads the file if it was replaced or written since the last call."""
        stamp = _stamp_of(self._path)
        if stamp is None and self._is_optional:
            self._stamp, self._rules = None, ()
            self._tell(())
        elif stamp is None or stamp != self._stamp:
            self._stamp = stamp
            try:
                self._rules = load_alert_file(self._path)
            except InvalidSchedule as error:
                self._tell(tuple(error.problems))
            else:
                self._tell(())
        return self._rules

    def _tell(self, problems: tuple[str, ...]) -> None:
        if problems != self._problems:
            self._problems = problems
            self._report(problems)


def _stamp_of(path: Path) -> _Stamp | None:
    """Changes when the file changes, also if a link on the way to it does, as in volumes of Kubernetes."""
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_ino, found.st_mtime_ns, found.st_size
