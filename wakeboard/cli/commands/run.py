"""The command `wakeboard run`: shows one run in detail (formatted by support/run_details.py)."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Annotated

import typer

from wakeboard.cli.support.options import AsJson
from wakeboard.cli.support.output import print_json
from wakeboard.cli.support.session import query_store
from wakeboard.cli.support.tables import print_lines, terminal_width

if TYPE_CHECKING:
    from wakeboard.cli.support.session import CommandSession
    from wakeboard.views.rules.run_detail_rows import RunDetails

EXAMPLES = ("wakeboard run 1042", "wakeboard run 0b0e1c5a --json", "wakeboard run 1042 | less")


def command(
    text: Annotated[
        str, typer.Argument(metavar="RUN", help="Its id, its uuid, or the first 8 characters of its uuid.")
    ],
    as_json: AsJson = False,
) -> None:
    """Show one run in detail.

    The output has its payload, attempts, errors, steps, effects and timeline; for the job type `job` also pod, node,
    phases and the log command of each Kubernetes Job. An effect is in doubt if the attempt that started it ended and
    did not report it as done. Values whose key looks like that of a credential are masked; --json masks nothing.
    """
    from wakeboard.cli.support.lookup import find_runs, no_such_run, parse_run

    wanted = parse_run(text)

    async def query(session: CommandSession) -> RunDetails:
        (run_id,) = await find_runs(session.listings, [wanted])
        details = await session.listings.run_details(run_id)
        if details is None:
            raise no_such_run(text)
        return details

    from wakeboard.cli.support.run_details import log_link, run_details

    details, now = query_store(query)
    if as_json:
        from wakeboard.views.rules.run_detail_rows import with_values

        print_json(with_values(replace(details, log_link=log_link(details) or None)))
        return
    print_lines(run_details(details, now, terminal_width()))
