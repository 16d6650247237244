"""The command `wakeboard next`: the next ticks of a schedule or a cron expression, with notes on clock changes."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from wakeboard.cli.commands.schedules import UTC_NAMES, cron_and_zone
from wakeboard.cli.support.options import AsJson
from wakeboard.cli.support.output import print_json, print_message
from wakeboard.cli.support.session import query_store
from wakeboard.cli.support.shell_completion import complete_schedule
from wakeboard.cli.support.tables import Column, print_table
from wakeboard.errors import InvalidSchedule, InvalidValue
from wakeboard.process.display_zone import in_zone, zone_label
from wakeboard.text.humanize import relative
from wakeboard.text.sanitize import one_line

if TYPE_CHECKING:
    from collections.abc import Sequence

    from wakeboard.cli.support.session import CommandSession
    from wakeboard.views.rules.schedule_rows import NextTicks, Tick

Gap = Literal["RunAfter", "Skip"]
Overlap = Literal["First", "Both"]


EXAMPLES = (
    "wakeboard next billing/weekly-report             the next ticks of a schedule",
    "wakeboard next '0 2 * * *' --zone Europe/Lisbon -n 400",
    "                                                 of a cron expression, with notes on clock changes",
    "wakeboard next 'H H * * *' --name billing/clean-up   the value of H for this schedule",
)


def command(
    text: Annotated[
        str,
        typer.Argument(
            metavar="SCHEDULE|CRON",
            help="The name of a schedule, or a cron expression.",
            autocompletion=complete_schedule,
        ),
    ],
    count: Annotated[int, typer.Option("--count", "-n", metavar="N", min=1, max=10_000, help="Number of ticks.")] = 10,
    zone: Annotated[str, typer.Option(metavar="ZONE", help="Time zone of the cron expression.")] = "Etc/UTC",
    name: Annotated[
        str, typer.Option(metavar="NAMESPACE/NAME", help="The schedule for which `H` is computed.")
    ] = "default/example",
    gap: Annotated[
        Gap,
        typer.Option(metavar="RunAfter|Skip", help="For a cron expression: what to do if a local time does not exist."),
    ] = "RunAfter",
    overlap: Annotated[
        Overlap,
        typer.Option(metavar="First|Both", help="For a cron expression: what to do if a local time occurs twice."),
    ] = "First",
    as_json: AsJson = False,
) -> None:
    """Show the next ticks of a schedule or a cron expression.

    Notes say which ticks are affected by clock changes. An argument that contains a space or begins with @ is a cron
    expression; the command then needs no database. The time zone and the rules of a schedule come from the database.
    """
    if " " in text.strip() or text.startswith("@"):
        found, now = _of_cron(text, count, name, zone, gap, overlap)
    else:
        found, now = query_store(lambda session: _of_schedule(session, text, count))
    if as_json:
        print_json(found)
    else:
        _print(found, now)


def _of_cron(cron: str, count: int, name: str, zone: str, gap: Gap, overlap: Overlap) -> tuple[NextTicks, datetime]:
    from wakeboard.ticks.compiled_ticks import compile_ticks, ticks_for
    from wakeboard.views.rules.next_ticks import next_ticks
    from wakeboard.views.rules.schedule_rows import NextTicks

    now = datetime.now(UTC)  # there may be no database
    try:
        ticks, skipped = next_ticks(ticks_for(compile_ticks(cron, name=name), zone, gap, overlap), now, count)
    except InvalidSchedule as error:
        raise InvalidValue(str(error)) from None
    return NextTicks(schedule=None, cron=cron, time_zone=zone, state="active", ticks=ticks, skipped=skipped), now


async def _of_schedule(session: CommandSession, name: str, count: int) -> NextTicks:
    from wakeboard.cli.support.lookup import find_schedule, no_longer_there

    known = await find_schedule(session.listings, name, include_removed=True)
    found = await session.listings.next_ticks(known.id, count)
    if found is None:
        raise no_longer_there(known)
    return found


def _print(found: NextTicks, now: datetime) -> None:
    why = f": {one_line(found.schedule_error)}" if found.schedule_error else "."
    state = "" if found.state in {"active", "on demand", "ended"} else f" It is {found.state}{why}"
    if found.cron is None:
        print_message(
            f"{found.schedule} has no ticks of its own: `wakeboard run-now {found.schedule}` enqueues a run.{state}"
        )
    elif found.schedule:
        print_message(f"{found.schedule}: {cron_and_zone(found.cron, found.time_zone)}.{state}")
    if found.ticks:
        print_ticks(found.ticks, found.time_zone, now)
    elif found.cron is not None and not found.schedule_error:
        print_message("there are no further ticks.")
    for sentence in found.skipped:
        print_message(f"Note: {sentence}.")


def print_ticks(ticks: Sequence[Tick], time_zone: str, now: datetime) -> None:
    """Prints ticks in a table, in the time zone of their schedule and in the display zone."""
    local = time_zone not in UTC_NAMES or zone_label() != "UTC"
    headings = ["LOCAL", zone_label().upper()] if local else ["UTC"]
    columns = [*(Column(heading) for heading in headings), Column("IN"), Column("NOTE", shrinks=True)]
    print_table(columns, [_cells(tick, now, local=local) for tick in ticks])


def _cells(tick: Tick, now: datetime, *, local: bool) -> list[str]:
    """One tick. `local`: show the local time and the time in the display zone, else only the time in UTC."""
    from wakeboard.ticks.upcoming_ticks import tick_text

    at = datetime.fromisoformat(tick.local)
    times = [f"{tick_text(at)} {tick.local[-6:]}", tick_text(in_zone(tick.at)).partition(" ")[2]]
    return [*(times if local else [tick_text(at)]), relative(tick.at, now), tick.note or ""]
