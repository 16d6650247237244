"""The command `wakeboard alerts silence`: holds back notifications of a rule."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from wakeboard.cli.support.options import AsJson, Reason
from wakeboard.cli.support.output import print_answer
from wakeboard.cli.support.session import with_database

if TYPE_CHECKING:
    from wakeboard.cli.support.session import DatabaseSession

EXAMPLES = (
    "wakeboard alerts silence dead-runs --for 1h --reason 'the bank is down'",
    "wakeboard alerts silence dead-runs --until-fixed",
)
RuleName = Annotated[str, typer.Argument(metavar="RULE", help="The name of an alert rule.")]


def command(
    rule: RuleName,
    duration: Annotated[
        str | None, typer.Option("--for", metavar="DURATION", help="For so long: 30m, 8h, 2d.", show_default=False)
    ] = None,
    until_fixed: Annotated[
        bool, typer.Option("--until-fixed", help="Until its open alert is resolved.", show_default=False)
    ] = False,
    reason: Reason = "",
    as_json: AsJson = False,
) -> None:
    """Send no notifications about the alert of a rule for a time, or until it is resolved.

    The alert stays listed. Its end is announced if its opening was.
    """
    from wakeboard.cli.support.time_args import parse_duration, time_after

    if (duration is None) == (not until_fixed):
        raise typer.BadParameter("write either --for, such as --for 1h, or --until-fixed", param_hint="--for")
    span = parse_duration(duration) if duration is not None else None

    async def silence(session: DatabaseSession) -> bool:
        until = time_after(span, await session.listings.now()) if span is not None else "infinity"
        return await session.store.silence_alert(rule, until, reason)

    changed = with_database(silence)
    until = f"for {duration}" if duration is not None else "until its alert is resolved"
    sentence = f"{rule} is silenced {until}." if changed else f"{rule} was already silenced {until}."
    print_answer({"rule": rule, "changed": changed}, sentence, as_json=as_json)
