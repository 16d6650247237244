"""The command `wakeboard runs`: lists runs, newest first."""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING, Annotated

import typer

from wakeboard.cli.support.options import AsJson, JobType, OfQueue, OfSchedule, Since
from wakeboard.cli.support.output import print_json, print_message
from wakeboard.cli.support.run_table import RUN_COLUMNS, run_cells
from wakeboard.cli.support.session import query_store
from wakeboard.cli.support.tables import print_table
from wakeboard.cli.support.time_args import parse_since

if TYPE_CHECKING:
    from wakeboard.cli.support.session import Session
    from wakeboard.store.queries.listings import RunRow


class Status(StrEnum):
    """The values of --status. typer does not support a list of a Literal."""

    QUEUED = "queued"
    RUNNING = "running"
    FAILED = "failed"
    DEAD = "dead"
    SUCCEEDED = "succeeded"
    CANCELLED = "cancelled"
    SKIPPED = "skipped"
    DISCARDED = "discarded"


EXAMPLES = (
    "wakeboard runs                                the newest runs",
    "wakeboard runs --status dead --status failed",
    "wakeboard runs --schedule weekly-report --since 2d",
    "wakeboard runs --type send_mail --json | jq '.[].error'",
)


def command(
    status: Annotated[
        list[Status] | None,
        typer.Option(metavar="STATUS", help=f"Only runs with this status: {', '.join(Status)}. May be repeated."),
    ] = None,
    schedule: OfSchedule = None,
    job_type: JobType = None,
    queue: OfQueue = None,
    since: Since = None,
    limit: Annotated[
        int, typer.Option("--limit", "-n", metavar="N", min=1, max=100_000, help="Maximum number of runs.")
    ] = 20,
    as_json: AsJson = False,
) -> None:
    """List live and finished runs, newest first.

    A failed run will be retried. A dead run will not be: retry or discard it. A skipped run represents one or more
    ticks that were not run, and has the reason.
    """
    start = parse_since(since) if since is not None else None

    async def query(session: Session) -> list[RunRow]:
        from wakeboard.cli.support.lookup import run_filter
        from wakeboard.store.queries.listings import STATUSES

        matching = await run_filter(session, status or STATUSES, schedule, job_type, queue, start)
        return await session.listings.runs(matching, limit)

    rows, now = query_store(query)
    if as_json:
        print_json(rows)
    elif rows:
        print_table(RUN_COLUMNS, [run_cells(row, now) for row in rows])
    elif any(value is not None for value in (status, schedule, job_type, queue, since)):
        print_message("no run matches.")
    else:
        print_message("there are no runs yet. `wakeboard enqueue ping` enqueues one.")
