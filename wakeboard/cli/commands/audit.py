"""The command `wakeboard audit`: lists what administrators did."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from wakeboard.cli.support.options import AsJson
from wakeboard.cli.support.session import query_database
from wakeboard.cli.support.shell_completion import complete_schedule
from wakeboard.cli.support.tables import print_rows
from wakeboard.cli.support.time_args import parse_since, time_since

if TYPE_CHECKING:
    from datetime import datetime, timedelta

    from wakeboard.cli.support.session import DatabaseSession
    from wakeboard.views.rules.audit_rows import AuditRow

EXAMPLES = (
    "wakeboard audit                               the newest actions",
    "wakeboard audit 1042                          the actions on a run",
    "wakeboard audit billing/weekly-report --since 7d",
    "wakeboard audit --actor ada@laptop --action pause --json",
)


def command(
    of: Annotated[
        str | None,
        typer.Argument(
            metavar="RUN|SCHEDULE",
            help="Only actions on this run (id or uuid), or on this schedule and its runs.",
            show_default=False,
            autocompletion=complete_schedule,
        ),
    ] = None,
    since: Annotated[
        str | None, typer.Option(metavar="TIME", help="Only actions since then: 90s, 2h, 3d, or an ISO 8601 time.")
    ] = None,
    actor: Annotated[str | None, typer.Option(metavar="WHO", help="Only actions of this user.")] = None,
    action: Annotated[
        str | None, typer.Option(metavar="ACTION", help="Only this action: retry, run-now, pause, set-limit, …")
    ] = None,
    limit: Annotated[
        int, typer.Option("--limit", "-n", metavar="N", min=1, max=100_000, help="Maximum number of rows.")
    ] = 20,
    as_json: AsJson = False,
) -> None:
    """List the actions of administrators, newest first.

    Each row says who acted, when, why, and through which program (FROM): the command line, the board, an annotation
    (kubectl) or plain SQL. The rows of the single runs of a bulk action are listed only for a run or a schedule.
    """
    start = parse_since(since) if since is not None else None
    rows, _ = query_database(lambda session: _read(session, of, start, actor, action, limit))
    from wakeboard.cli.support.audit_table import audit_cells, audit_columns

    otherwise = "no action matches." if of or since or actor or action else "there are no actions yet."
    print_rows(rows, audit_columns(), audit_cells, otherwise, as_json=as_json)


async def _read(  # one parameter for each option
    session: DatabaseSession,
    of: str | None,
    start: timedelta | datetime | None,
    actor: str | None,
    action: str | None,
    count: int,
) -> list[AuditRow]:
    from wakeboard.views.queries.audit import AuditFilter, audit_rows

    run_id, definition_id = await _run_or_schedule(session, of) if of is not None else (None, None)
    wanted = AuditFilter(
        run_id=run_id,
        definition_id=definition_id,
        actor=actor,
        action=action.replace("-", "_") if action is not None else None,
        since=time_since(start, session.now) if start is not None else None,
        outline=of is None,
    )
    return await audit_rows(session.conn, wanted, count)


async def _run_or_schedule(session: DatabaseSession, text: str) -> tuple[int | None, int | None]:
    """The id of the run, or that of the schedule. A run that was deleted from history is known by its id only."""
    from wakeboard.cli.support.lookup import find_runs, find_schedule, parse_run
    from wakeboard.errors import InvalidValue

    try:
        run = parse_run(text)
    except InvalidValue:
        return None, (await find_schedule(session.listings, text, include_removed=True)).id
    return (await find_runs(session.listings, [run]))[0], None
