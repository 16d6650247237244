"""The command `wakeboard pause`: pauses everything, a queue or a schedule, and lists pauses."""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING, Annotated

import typer

from wakeboard.cli.support.options import AsJson
from wakeboard.cli.support.output import JsonList, print_answer, print_error, print_message
from wakeboard.cli.support.session import query_database, with_database
from wakeboard.cli.support.shell_completion import complete_pause_name
from wakeboard.cli.support.tables import Column, print_table
from wakeboard.cli.support.time_args import parse_duration, time_after
from wakeboard.text.humanize import relative
from wakeboard.text.sanitize import one_line

if TYPE_CHECKING:
    from wakeboard.cli.support.session import DatabaseSession
    from wakeboard.text.facts import Pause


class Kind(StrEnum):
    """What can be paused."""

    ALL = "all"
    QUEUE = "queue"
    SCHEDULE = "schedule"


PauseKind = Annotated[Kind | None, typer.Argument(metavar="all|queue|schedule", show_default=False)]
PauseName = Annotated[
    str | None,
    typer.Argument(metavar="NAME", help="The name of the queue or schedule.", autocompletion=complete_pause_name),
]

EXAMPLES = (
    "wakeboard pause                                  list what is paused",
    "wakeboard pause all --reason 'database upgrade'",
    "wakeboard pause queue mail --for 2h",
    "wakeboard pause schedule billing/weekly-report",
)


def command(
    kind: PauseKind = None,
    name: PauseName = None,
    reason: Annotated[str, typer.Option(metavar="TEXT", help="Why, for the list of pauses and the audit log.")] = "",
    duration: Annotated[
        str | None, typer.Option("--for", metavar="DURATION", help="For so long: 30m, 8h, 2d.", show_default=False)
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Pause everything, a queue or a schedule.

    Without arguments, list what is paused. Until `wakeboard resume`, or for the time of --for, workers claim no runs of
    it and its ticks are not run. Running runs continue. After the pause, the catchUp policy of each schedule applies to
    the missed ticks.
    """
    if kind is None:
        if duration is not None:
            raise typer.BadParameter("write what is paused: all, queue NAME or schedule NAME", param_hint="--for")
        print_pauses(as_json)
        return
    require_name(kind, name)
    span = parse_duration(duration) if duration is not None else None

    async def add(session: DatabaseSession) -> tuple[str, str, bool]:
        scope, label = await pause_scope(session, kind, name)
        if kind is Kind.QUEUE and name not in await session.listings.queues():
            print_error(f"note: no schedule, run or worker uses a queue {name!r} yet.")
        until = time_after(span, await session.listings.now()) if span is not None else None
        return scope, label, await session.store.pause(scope, reason, until)

    scope, label, changed = with_database(add)
    paused = f"paused for {duration}" if duration is not None else "paused"
    sentence = f"{label} is {paused}." if changed else f"{label} was already paused."
    print_answer({"scope": scope, "changed": changed}, sentence, as_json=as_json)


def require_name(kind: Kind, name: str | None) -> None:
    """Raises BadParameter unless there is a name exactly for a queue and a schedule."""
    if (name is None) != (kind is Kind.ALL):
        problem = "all takes no name" if kind is Kind.ALL else f"give the name of the {kind}"
        raise typer.BadParameter(problem, param_hint="NAME")


async def pause_scope(
    session: DatabaseSession, kind: Kind, name: str | None, *, include_removed: bool = False
) -> tuple[str, str]:
    """The scope for the SQL functions, and its label for users. `include_removed`: also of a removed schedule."""
    if name is None:
        return "all", "everything"
    if kind is Kind.QUEUE:
        return f"queue:{name}", f"queue {name}"
    from wakeboard.cli.support.lookup import find_schedule

    known = await find_schedule(session.listings, name, include_removed=include_removed)
    return f"schedule:{known.id}", f"schedule {known.short}"


def print_pauses(as_json: bool) -> None:
    """Lists what is paused."""
    query_database(_print_json if as_json else _print_tables)


async def _print_json(session: DatabaseSession) -> None:
    printed = JsonList()
    async for pauses in session.listings.pause_pages():
        printed.add(pauses)
    printed.end()


async def _print_tables(session: DatabaseSession) -> None:
    columns = (Column("PAUSED"), Column("SINCE"), Column("ENDS"), Column("BY"), Column("REASON", shrinks=True))

    def cells(row: Pause) -> list[str]:
        times = relative(row.paused_at, session.now), relative(row.until, session.now)
        return [row.label, *times, one_line(row.actor or "-"), one_line(row.reason)]

    shown = 0
    async for pauses in session.listings.pause_pages():
        if shown:
            print_message("… and more schedules: --json lists all.")
            return
        print_table(columns, [cells(each) for each in pauses])
        shown += len(pauses)
    if not shown:
        print_message("nothing is paused.")
