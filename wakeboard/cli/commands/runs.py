"""The command `wakeboard runs`: lists the runs that fit a search, newest first."""

from __future__ import annotations

import asyncio
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated, Final, Literal

import typer

from wakeboard.cli.support.options import AsJson, JobType, OfQueue, OfSchedule, Since
from wakeboard.cli.support.output import print_error, print_json, print_message
from wakeboard.cli.support.run_table import RUN_COLUMNS, WIDE_COLUMNS, run_cells, wide_run_cells
from wakeboard.cli.support.session import query_store, with_session
from wakeboard.cli.support.tables import print_lines, table, terminal_width
from wakeboard.cli.support.time_args import parse_since
from wakeboard.errors import InvalidValue

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rich.text import Text

    from wakeboard.cli.support.session import CommandSession
    from wakeboard.views.rules.run_rows import RunRow

WATCH_S: Final = 1.0  # between two looks at the list


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
    "wakeboard runs 'status:dead queue:billing -type:send_* payload.customer:42'",
    "wakeboard runs --status dead --status failed",
    "wakeboard runs --schedule weekly-report --since 2d -o wide",
    "wakeboard runs --watch priority:1             each run again when its status changes",
    "wakeboard runs --type send_mail --json | jq '.[].error'",
)


def command(
    search: Annotated[
        list[str] | None,
        typer.Argument(metavar="SEARCH", help="As on the board (docs/board.md).", show_default=False),
    ] = None,
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
    output: Annotated[
        Literal["wide"] | None, typer.Option("--output", "-o", help="Also times as they are, and payloads.")
    ] = None,
    watch: Annotated[bool, typer.Option("--watch", "-w", help="Go on with the changes, until Ctrl-C.")] = False,
    as_json: AsJson = False,
) -> None:
    """List live and finished runs, newest first.

    A failed run will be retried. A dead run will not be: retry or discard it. A skipped run represents one or more
    ticks that were not run, and has the reason.
    """
    from wakeboard.views.rules.run_search import RunSearch, parse_run_search

    if watch and as_json:
        raise typer.BadParameter("--watch prints a table: leave out --json", param_hint="--watch")
    typed = parse_run_search(" ".join(search or ()))
    if typed.problem:
        raise InvalidValue(typed.problem)
    if typed.hint:
        print_error(f"note: {typed.hint}")
    start = parse_since(since) if since is not None else None

    async def use(session: CommandSession) -> None:
        from wakeboard.cli.support.lookup import run_search
        from wakeboard.views.rules.json_types import row_as
        from wakeboard.views.rules.run_rows import RunRow

        given = await run_search(session, status, schedule, job_type, queue, start)
        matching = RunSearch(terms=typed.terms + given.terms)
        rows = await session.listings.newest_runs(matching, limit)
        if as_json:
            print_json([row_as(RunRow, row) for row in rows])
        elif rows or watch:
            print_lines(await _table(session, rows, wide=output == "wide"))
        elif matching.terms:
            print_message("no run matches.")
        else:
            print_message("there are no runs yet. `wakeboard enqueue ping` enqueues one.")
        while watch:
            await asyncio.sleep(WATCH_S)
            before = {(row.id, row.status, row.attempts) for row in rows}
            rows = await session.listings.newest_runs(matching, limit)
            lines = await _table(session, rows, wide=output == "wide")
            changed = [at for at, row in enumerate(rows, start=1) if (row.id, row.status, row.attempts) not in before]
            print_lines([lines[at] for at in reversed(changed)])

    if watch:
        with_session(use)
    else:
        query_store(use)


async def _table(session: CommandSession, rows: Sequence[RunRow], *, wide: bool) -> list[Text]:
    now = await session.listings.now()
    if not wide:
        return table(RUN_COLUMNS, [run_cells(row, now) for row in rows], terminal_width())
    payloads = await session.listings.payloads([row.id for row in rows])
    cells = [wide_run_cells(row, payloads.get(row.id, "null"), now) for row in rows]
    return table(WIDE_COLUMNS, cells, terminal_width())
