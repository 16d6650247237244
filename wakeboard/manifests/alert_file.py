"""Loads alert rules from a YAML file, and reads the file again when it has changed.

The last valid rules stay in force while the file is missing or invalid. Each problem has its file and line.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from wakeboard.errors import InvalidSchedule
from wakeboard.manifests.bounded_file import Unreadable, read_text
from wakeboard.manifests.reloaded_file import ReloadedFile
from wakeboard.manifests.yaml_documents import children, line_at, line_of, nodes_of, value_of
from wakeboard.rules.alert_rules import API_VERSION, KIND, load_alert_rules

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from wakeboard.rules.alert_rules import AlertSpec


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


class AlertFile(ReloadedFile["AlertSpec"]):
    """The rules of a file that may change while it is in use. See ReloadedFile."""

    def __init__(self, path: Path, report: Callable[[Sequence[str]], object], *, is_optional: bool = False) -> None:
        super().__init__(path, load_alert_file, report, is_optional=is_optional)

    def alerts(self) -> AlertSpec | None:
        """The rules that are in force now; None: there are none."""
        return self.content()
