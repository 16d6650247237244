"""The command `wakeboard confirm removal`: allows a pending removal of many schedules."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from wakeboard.cli.support.options import AsJson, Reason
from wakeboard.cli.support.output import print_answer
from wakeboard.cli.support.session import with_database
from wakeboard.cli.support.shell_completion import complete_source
from wakeboard.errors import WakeboardError
from wakeboard.text.humanize import counted

if TYPE_CHECKING:
    from wakeboard.cli.support.session import DatabaseSession

EXAMPLES = ("wakeboard check                       shows pending removals", "wakeboard confirm removal k8s:5f3c…")


def command(
    source: Annotated[
        str,
        typer.Argument(metavar="SOURCE", help="The source of the schedules.", autocompletion=complete_source),
    ],
    reason: Reason = "",
    as_json: AsJson = False,
) -> None:
    """Confirm the removal of many schedules.

    A sync does not remove more than ten schedules that are more than a fifth of their source until this is confirmed.
    The next sync that would remove exactly the same schedules removes them.
    """

    async def confirm_removal(session: DatabaseSession) -> int:
        count = await session.store.confirm_removal(source, reason)
        if not count:
            pending = [row.source for row in await session.listings.removals()]
            others = f"; removals are pending for {', '.join(pending)}" if pending else ""
            raise WakeboardError(f"no removal is pending for {source!r}{others}.")
        return count

    count = with_database(confirm_removal)
    sentence = f"the next sync of {source} removes {counted(count, 'schedule')}."
    print_answer({"source": source, "count": count}, sentence, as_json=as_json)
