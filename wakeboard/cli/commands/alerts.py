"""The command `wakeboard alerts`: lists open alerts."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from wakeboard.cli.support.options import AsJson
from wakeboard.cli.support.session import query_database
from wakeboard.cli.support.tables import Column, print_rows

if TYPE_CHECKING:
    from datetime import datetime

    from wakeboard.alerts.queries.alerts import AlertRow

EXAMPLES = (
    "wakeboard alerts                     the open alerts",
    "wakeboard alerts --all               resolved ones too",
    "wakeboard alerts check alerts.yaml   check a file with alert rules",
    "wakeboard alerts test team           send a test message to a receiver",
    "wakeboard alerts silence dead-runs --for 1h",
)
COLUMNS = (Column("RULE"), Column("SEVERITY"), Column("OPENED"), Column("RESOLVED"), Column("SUMMARY", shrinks=True))


def command(
    context: typer.Context,
    include_resolved: Annotated[
        bool, typer.Option("--all", help="Also list resolved alerts.", show_default=False)
    ] = False,
    limit: Annotated[
        int, typer.Option("--limit", "-n", metavar="N", min=1, max=100_000, help="Maximum number of alerts.")
    ] = 20,
    as_json: AsJson = False,
) -> None:
    """List the open alerts, the worst first.

    An alert is open while its rule finds something wrong, and is resolved when that has been over for a minute. The
    rules are those of the files that operators, workers and `wakeboard up` read (WAKEBOARD_ALERTS_FILE).
    """
    if context.invoked_subcommand is not None:
        return
    from wakeboard.alerts.queries.alerts import read_alerts

    rows, now = query_database(lambda session: read_alerts(session.conn, resolved=include_resolved, limit=limit))
    otherwise = "there are no alerts yet." if include_resolved else "no alert is open."
    print_rows(rows, COLUMNS, lambda row: _cells(row, now), otherwise, as_json=as_json)


def _cells(row: AlertRow, now: datetime) -> list[str]:
    from wakeboard.alerts.rules.evaluation import is_evaluated, silence_in_words
    from wakeboard.text.humanize import relative

    notes = list[str]()
    if row.resolved_at is None and (silence := silence_in_words(row.silenced_until, now)):
        notes.append(f"silenced {silence}")
    if row.resolved_at is None and not is_evaluated(row.evaluated_at, now):
        notes.append("no process evaluates its rule any more")
    examples = f": {'; '.join(row.examples)}" if row.examples else ""
    return [
        row.rule,
        row.severity,
        relative(row.opened_at, now),
        relative(row.resolved_at, now),
        "".join(f"[{note}] " for note in notes) + f"{row.summary}{examples}",
    ]
