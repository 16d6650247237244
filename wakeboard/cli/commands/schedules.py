"""The command `wakeboard schedules`: lists schedules with their next tick, last run and numbers of live runs."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Annotated

import typer

from wakeboard.cli.support.options import AsJson
from wakeboard.cli.support.output import JsonList, print_message
from wakeboard.cli.support.session import query_store
from wakeboard.cli.support.tables import Column, print_lines, print_table, styled
from wakeboard.text.humanize import relative, runs_after_words
from wakeboard.text.sanitize import one_line

if TYPE_CHECKING:
    from datetime import datetime

    from rich.text import Text

    from wakeboard.cli.support.session import CommandSession
    from wakeboard.views.rules.schedule_rows import ScheduleRow

SHOWN = 1000
UTC_NAMES = {"UTC", "Etc/UTC"}
COLUMNS = (
    Column("SCHEDULE", shrinks=True),
    Column("WHEN", shrinks=True),
    Column("NEXT"),
    Column("LAST"),
    Column("RUNS", shrinks=True),
)

EXAMPLES = ("wakeboard schedules", "wakeboard schedules --namespace billing", "wakeboard schedules --json")


def command(
    namespace: Annotated[str | None, typer.Option(metavar="NAME", help="Only schedules in this namespace.")] = None,
    limit: Annotated[
        int | None,
        typer.Option(
            "--limit", "-n", metavar="N", min=1, help=f"Maximum number of schedules; a table has {SHOWN:,} by default."
        ),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """List schedules with their next tick and last run.

    RUNS counts the queued, running, failed and dead runs. NEXT is a state instead of a time if no tick is planned:
    suspended (by its YAML or its application), paused (by `wakeboard pause`), circuit open (its runs died one after
    another, see suspendAfterDead), stalled (its ticks cannot be computed, or an application has its name), blocked
    (it waits for a dead run, a missing schedule or itself), on demand (it has no ticks of its own and no `after`;
    use `wakeboard run-now`), or ended (it has no further tick).
    """
    if as_json:
        query_store(lambda session: _print_json(session, namespace, limit or sys.maxsize))
    else:
        query_store(lambda session: _print_tables(session, namespace, limit or SHOWN))


async def _print_json(session: CommandSession, namespace: str | None, limit: int) -> None:
    printed = JsonList()
    async for rows, _ in session.listings.schedule_pages(namespace, limit):
        printed.add(rows)
    printed.end()


async def _print_tables(session: CommandSession, namespace: str | None, limit: int) -> None:
    shown, has_more = 0, False
    async for rows, more in session.listings.schedule_pages(namespace, limit):
        print_table(COLUMNS, [_cells(row, session.now) for row in rows])
        print_lines(_errors(rows))
        shown, has_more = shown + len(rows), more
    if has_more:
        print_message(f"… and more: --limit shows more than {shown:,}, --namespace only some.")
    elif namespace and not shown:
        print_message(f"there are no schedules in namespace {namespace!r}.")
    elif not shown:
        print_message("there are no schedules yet. `wakeboard apply DIR` creates them from a folder of YAML.")


def _cells(row: ScheduleRow, now: datetime) -> list[str | Text]:
    last = styled(row.last_status, f" {relative(row.last_finished_at, now)}") if row.last_status else "-"
    return [
        f"{row.namespace}/{row.name}",
        one_line(runs_after_words(row.runs_after)) if row.runs_after else cron_and_zone(row.schedule, row.time_zone),
        _next(row, now),
        last,
        _counts(row),
    ]


def cron_and_zone(cron: str | None, time_zone: str) -> str:
    """A cron expression and its time zone unless that is UTC; "-" for None."""
    if cron is None:
        return "-"
    return cron if time_zone in UTC_NAMES else f"{cron} {time_zone}"


def _counts(row: ScheduleRow) -> Text:
    from rich.text import Text

    counts = {"dead": row.dead, "failed": row.failed, "running": row.running, "queued": row.queued}
    return Text(", ").join(Text(f"{count} ") + styled(status) for status, count in counts.items() if count)


def _next(row: ScheduleRow, now: datetime) -> str | Text:
    state = "blocked" if row.blocked else row.state
    return relative(row.next_run_at, now) if state == "active" else styled(state)


def _errors(rows: list[ScheduleRow]) -> list[str]:
    stalled = [
        f"{row.namespace}/{row.name} is stalled: {one_line(row.schedule_error)}"
        for row in rows
        if row.state == "stalled" and row.schedule_error
    ]
    return stalled + [f"{row.namespace}/{row.name} is blocked. {row.blocked}" for row in rows if row.blocked]
