"""The command `wakeboard alerts check`: checks a file with alert rules. It needs no database."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from wakeboard.cli.support.options import AsJson, read_path
from wakeboard.cli.support.output import print_json, print_message

if TYPE_CHECKING:
    from wakeboard.alerts.rules.alert_rules import AlertRule

EXAMPLES = ("wakeboard alerts check alerts.yaml",)


def command(
    file: Annotated[Path, typer.Argument(metavar="FILE", parser=read_path, help="A YAML file with alert rules.")],
    as_json: AsJson = False,
) -> None:
    """Check a file with alert rules, and list its rules.

    Each mistake is one sentence with the line and what to write instead.
    """
    from wakeboard.alerts.file import load_alert_file
    from wakeboard.alerts.rules.receivers import secret_names
    from wakeboard.text.humanize import counted

    alerts = load_alert_file(file)
    rules = alerts.rules
    if as_json:
        print_json([_row(rule) for rule in rules])
        return
    for rule in rules:
        print_message(f"{rule.name}: {_in_words(rule)}")
    if secrets := secret_names([*alerts.receivers, *alerts.heartbeats]):
        print_message(f"Secrets of the process that delivers: {', '.join(secrets)}.")
    others = [(alerts.receivers, "receiver"), (alerts.heartbeats, "heartbeat")]
    more = "".join(f", {counted(len(declared), noun)}" for declared, noun in others if declared)
    print_message(f"{file}: {counted(len(rules), 'rule')}{more}, no problems.")


def _row(rule: AlertRule) -> dict[str, Any]:
    from wakeboard.alerts.rules.alert_rules import definition_of

    return {
        "name": rule.name,
        "severity": rule.severity,
        "condition": rule.condition.name,
        "definition": definition_of(rule),
    }


def _in_words(rule: AlertRule) -> str:
    from wakeboard.alerts.rules.alert_rules import definition_of

    definition = definition_of(rule)
    parts = [f"{name} {_value(value)}" for name, value in definition.items() if name not in {"where", "receivers"}]
    where = [f"{name} {_value(value)}" for name, value in definition.get("where", {}).items()]
    to = [f"to {_value(definition['receivers'])}"] if definition.get("receivers") else []
    return ", ".join([rule.severity, *parts, *where, *to])


def _value(value: Any) -> str:
    from wakeboard.text.sanitize import json_text

    match value:
        case str():
            return value
        case [*names] if all(isinstance(name, str) for name in names):
            return " and ".join(names)
        case _:
            return json_text(value)
