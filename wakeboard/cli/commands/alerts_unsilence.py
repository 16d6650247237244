"""The command `wakeboard alerts unsilence`: sends notifications of a rule again."""

from __future__ import annotations

from wakeboard.cli.commands.alerts_silence import RuleName
from wakeboard.cli.support.options import AsJson, Reason
from wakeboard.cli.support.output import print_answer
from wakeboard.cli.support.session import with_database

EXAMPLES = ("wakeboard alerts unsilence dead-runs",)


def command(rule: RuleName, reason: Reason = "", as_json: AsJson = False) -> None:
    """Send notifications about the alert of a rule again."""
    changed = with_database(lambda session: session.store.silence_alert(rule, None, reason))
    sentence = f"{rule} is no longer silenced." if changed else f"{rule} was not silenced."
    print_answer({"rule": rule, "changed": changed}, sentence, as_json=as_json)
