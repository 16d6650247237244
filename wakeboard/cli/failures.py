"""The command `failures`: failure rates and errors by job type."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from wakeboard.cli.echo import AsJson, print_json, say
from wakeboard.cli.help_examples import examples
from wakeboard.cli.session import open_store
from wakeboard.cli.time_args import moment_since, read_since

if TYPE_CHECKING:
    from datetime import datetime

    from rich.text import Text

    from wakeboard.cli.session import Session
    from wakeboard.store.queries.failures import FailureRow

commands = typer.Typer()

SHOWN_ERRORS = 3  # types of errors in a line; --json has all


@commands.command(
    "failures",
    epilog=examples(
        "wakeboard failures                       of the last day",
        "wakeboard failures --since 1h --type send_mail",
        "wakeboard failures --json | jq '.[] | select(.failure_rate > 0.1)'",
    ),
)
def failures(
    since: Annotated[
        str, typer.Option(metavar="TIME", help="What ended since: 90s, 2h, 3d or an ISO 8601 moment.")
    ] = "1d",
    job_type: Annotated[str | None, typer.Option("--type", metavar="TYPE", help="Only of this job type.")] = None,
    as_json: AsJson = False,
) -> None:
    """Show how often the runs of each job type fail, and with what.

    RATE is the share of attempts that failed, timed out or crashed among these and those that succeeded. A run that is
    tried three times and succeeds then has two failed attempts and one that succeeded. An attempt that was snoozed or
    given back counts as neither.
    """
    given = read_since(since)

    async def ask(session: Session) -> tuple[list[FailureRow], datetime]:
        from wakeboard.store.queries.failures import failures_since

        return await failures_since(session.conn, moment_since(given, session.now), job_type), session.now

    rows, now = open_store(ask)
    if as_json:
        print_json(rows)
    elif rows:
        _print(rows, now)
    else:
        say("no attempt ended in this period.")


def _print(rows: list[FailureRow], now: datetime) -> None:
    from wakeboard.cli.tables import Column, print_table

    columns = [
        Column("JOB TYPE", narrows=True),
        *(Column(name, right=True) for name in ("RATE", "SUCCEEDED", "FAILED", "TIMED OUT", "CRASHED", "DEAD")),
        Column("LAST"),
        Column("ERRORS", narrows=True),
    ]
    print_table(columns, [_cells(row, now) for row in rows])


def _cells(row: FailureRow, now: datetime) -> list[str | Text]:
    from wakeboard.rules.humanize import relative

    most = sorted(row.errors.items(), key=lambda each: (-each[1], each[0]))
    errors = ", ".join(f"{count} {error}" for error, count in most[:SHOWN_ERRORS])
    counts = (row.succeeded, row.failed, row.timed_out, row.crashed, row.dead)
    return [
        row.job_type,
        "-" if row.failure_rate is None else f"{row.failure_rate:.1%}",
        *(f"{count:,}" for count in counts),
        relative(row.last_failed_at, now),
        errors + (", …" if len(most) > SHOWN_ERRORS else ""),
    ]
