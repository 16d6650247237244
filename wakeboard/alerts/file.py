"""Loads alert rules from a YAML file, and reads the file again when it has changed.

The last valid rules stay in force while the file is missing or invalid. Each problem has its file and line.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from wakeboard.alerts.rules.alert_rules import API_VERSION, KIND, NO_RULES, load_alert_rules
from wakeboard.declared.reloaded_file import ReloadedFile
from wakeboard.declared.single_document import load_single_document
from wakeboard.errors import InvalidValue

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from wakeboard.alerts.rules.alert_rules import AlertSpec
    from wakeboard.alerts.rules.receivers import HeartbeatSpec, Receiver


def load_alert_file(path: Path) -> AlertSpec:
    """The rules and receivers of a file with one document. Raises InvalidSchedule with a sentence for each problem."""
    return load_single_document(path, load_alert_rules, api_version=API_VERSION, kind=KIND, content="alert rules").spec


def receiver_named(name: str, alerts: AlertSpec, path: str) -> Receiver | HeartbeatSpec:
    """The receiver or heartbeat of the file `path` that has this name. Raises InvalidValue with the names it has."""
    receivers = [*alerts.receivers, *alerts.heartbeats]
    for receiver in receivers:
        if receiver.name == name:
            return receiver
    known = ", ".join(receiver.name for receiver in receivers) or "none"
    raise InvalidValue(f"{path} has no receiver {name!r}; its receivers: {known}")


class AlertFile(ReloadedFile["AlertSpec"]):
    """The rules of a file that may change while it is in use. See ReloadedFile.

    `is_optional`: a missing file has no rules and is not a problem.
    """

    def __init__(self, path: Path, report: Callable[[Sequence[str]], object], *, is_optional: bool = False) -> None:
        super().__init__(path, load_alert_file, report, missing=NO_RULES if is_optional else None)

    def alerts(self) -> AlertSpec | None:
        """The rules that are in force now; None: the file has not been valid yet."""
        return self.content()
