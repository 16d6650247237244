"""The command `wakeboard failures`: failure rates and errors by job type."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from wakeboard.cli.support.options import AsJson, JobType
from wakeboard.cli.support.session import query_database
from wakeboard.cli.support.tables import Column, print_rows
from wakeboard.cli.support.time_args import parse_since, time_since
from wakeboard.text.humanize import relative

if TYPE_CHECKING:
    from datetime import datetime

    from wakeboard.cli.support.session import DatabaseSession
    from wakeboard.views.queries.failures import FailureRow

MAX_ERRORS = 3  # error types in a cell; --json has all
COLUMNS = (
    Column("JOB TYPE", shrinks=True),
    *(
        Column(heading, right=True)
        for heading in ("RATE", "SUCCEEDED", "FAILED", "TIMED OUT", "CRASHED", "CANCELLED", "DEAD")
    ),
    Column("LAST FAILURE"),
    Column("ERRORS", shrinks=True),
)

EXAMPLES = (
    "wakeboard failures                       the last day",
    "wakeboard failures --since 1h --type send_mail",
    "wakeboard failures --json | jq '.[] | select(.failure_rate > 0.1)'",
)


def command(
    since: Annotated[
        str, typer.Option(metavar="TIME", help="Only attempts that ended since then: 90s, 2h, 3d, or an ISO 8601 time.")
    ] = "1d",
    job_type: JobType = None,
    as_json: AsJson = False,
) -> None:
    """Show the failure rate and the errors of each job type.

    RATE is the number of attempts that failed, timed out or crashed, divided by the same number plus the attempts that
    succeeded. Cancelled, snoozed and released attempts do not count. A run that succeeds at its third attempt counts as
    two failed attempts and one that succeeded.
    """
    start = parse_since(since)

    async def query(session: DatabaseSession) -> list[FailureRow]:
        from wakeboard.views.queries.failures import failures_since

        return await failures_since(session.conn, time_since(start, session.now), job_type)

    rows, now = query_database(query)
    print_rows(rows, COLUMNS, lambda row: _cells(row, now), "no attempt ended in this period.", as_json=as_json)


def _cells(row: FailureRow, now: datetime) -> list[str]:
    by_count = sorted(row.errors.items(), key=lambda each: (-each[1], each[0]))
    errors = ", ".join(f"{count} {error}" for error, count in by_count[:MAX_ERRORS])
    counts = (row.succeeded, row.failed, row.timed_out, row.crashed, row.cancelled, row.dead)
    return [
        row.job_type,
        "-" if row.failure_rate is None else f"{row.failure_rate:.1%}",
        *(f"{count:,}" for count in counts),
        relative(row.last_failed_at, now),
        errors + (", …" if len(by_count) > MAX_ERRORS else ""),
    ]
