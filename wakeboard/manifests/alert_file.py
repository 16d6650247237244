"""Loads alert rules from a YAML file, and reads the file again when it has changed.

The last valid rules stay in force while the file is missing or invalid. Each problem has its file and line.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

from wakeboard.errors import InvalidSchedule
from wakeboard.manifests.bounded_file import Unreadable, read_text
from wakeboard.manifests.yaml_documents import children, line_at, line_of, nodes_of, value_of
from wakeboard.rules.alert_rules import API_VERSION, KIND, load_alert_rules

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from wakeboard.rules.alert_rules import AlertSpec

_Stamp: TypeAlias = "tuple[int, int, int]"


def load_alert_file(path: Path) -> AlertSpec:
    """The rules and receivers of a file with one document. Raises InvalidSchedule with a sentence for each problem."""
    try:
        nodes = list(nodes_of(read_text(path)))
        kind = children(nodes[0]).get("kind") if nodes else None
        if kind is None or kind.value != KIND:
            line = line_of(nodes[0]) if nodes else 1
            raise InvalidSchedule(
                f'{path}:{line}: these are not alert rules; write "apiVersion: {API_VERSION}" and "kind: {KIND}"'
            )
        if len(nodes) > 1:
            raise InvalidSchedule(
                f"{path}:{line_of(nodes[1])}: this is a second document; put all rules into the first"
            )
        return load_alert_rules(value_of(nodes[0]), lambda place: f"{path}:{line_at(nodes[0], place)}").spec
    except OSError as error:
        raise InvalidSchedule(f"{path}: it cannot be read: {error.strerror}") from None
    except Unreadable as error:
        raise InvalidSchedule(f"{path}:{error.line}: {error}") from None


class AlertFile:
    """The rules of a file that may change while it is in use.

    `report` is called with the sentences about an invalid file once for each change of them, and with none when the
    file is valid again. `is_optional`: a missing file has no rules and is not a problem.
    """

    def __init__(self, path: Path, report: Callable[[Sequence[str]], object], *, is_optional: bool = False) -> None:
        self._path, self._report, self._is_optional = path, report, is_optional
        self._stamp: _Stamp | None = None
        self._alerts: AlertSpec | None = None
        self._problems: tuple[str, ...] = ()

    def alerts(self) -> AlertSpec | None:
        """The rules that are in force now; None: there are none.

        Reads the file if it was replaced or written since the last call.
        """
        stamp = _stamp_of(self._path)
        if stamp is None and self._is_optional:
            self._stamp, self._alerts = None, None
            self._tell(())
        elif stamp is None or stamp != self._stamp:
            self._stamp = stamp
            try:
                self._alerts = load_alert_file(self._path)
            except InvalidSchedule as error:
                self._tell(tuple(error.problems))
            else:
                self._tell(())
        return self._alerts

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
