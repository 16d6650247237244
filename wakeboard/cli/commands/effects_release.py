"""The command `wakeboard effects release`: lets an effect that happens once for ever happen again."""

from __future__ import annotations

from typing import Annotated

import typer

from wakeboard.cli.support.options import AsJson, Reason
from wakeboard.cli.support.output import print_error, print_json, print_message
from wakeboard.cli.support.session import with_database
from wakeboard.cli.support.usage_errors import quoted
from wakeboard.text.sanitize import one_line

EXAMPLES = ('wakeboard effects release invoice:812 --reason "the bank has returned the payment"',)


def command(
    key: Annotated[str, typer.Argument(metavar="KEY", help="The key of the effect.", show_default=False)],
    reason: Reason,
    as_json: AsJson = False,
) -> None:
    """Let an effect that happens once for ever happen again.

    The next run for the key has the effect, under another key for the provider. Refused while a run is executing it.
    """
    answer = with_database(lambda session: session.store.release_effect(key, reason))
    if as_json:
        print_json({"key": key, "answer": answer})
    elif answer == "released":
        print_message(f"the effect {one_line(key)} is released: the next run for this key has it again.")
    else:
        print_error(f"the effect {quoted(key)} is not released: {answer.removeprefix('refused: ')}.")
    if answer != "released":
        raise typer.Exit(1)
