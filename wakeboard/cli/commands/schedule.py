"""The command `wakeboard schedule`: one schedule with what is wrong, its runs and its next ticks."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Annotated

import typer

from wakeboard.cli.commands.explain import moment_in_words
from wakeboard.cli.commands.next import print_ticks
from wakeboard.cli.commands.schedules import cron_and_zone
from wakeboard.cli.support.advice import advice
from wakeboard.cli.support.options import AsJson
from wakeboard.cli.support.output import print_json, print_message
from wakeboard.cli.support.run_table import RUN_COLUMNS, run_cells
from wakeboard.cli.support.session import query_store
from wakeboard.cli.support.shell_completion import complete_schedule
from wakeboard.cli.support.tables import print_lines, print_table, styled
from wakeboard.text.humanize import runs_after_words
from wakeboard.text.mask_json import mask_json
from wakeboard.text.sanitize import one_line

if TYPE_CHECKING:
    from wakeboard.cli.support.session import CommandSession
    from wakeboard.views.rules.schedule_rows import ScheduleDetails

EXAMPLES = ("wakeboard schedule weekly-report", "wakeboard schedule billing/weekly-report --json")


def command(
    name: Annotated[
        str, typer.Argument(metavar="SCHEDULE", help="NAME or NAMESPACE/NAME.", autocompletion=complete_schedule)
    ],
    as_json: AsJson = False,
) -> None:
    """Show one schedule in detail: its state, runs and next ticks.

    Unfinished runs come first, then those that ended last. `wakeboard runs --schedule NAME` lists all.
    """
    found, now = query_store(lambda session: _read(session, name))
    if as_json:
        print_json(found)
        return
    when = runs_after_words(found.runs_after) if found.runs_after else cron_and_zone(found.schedule, found.time_zone)
    about = f": {when}; type {found.job_type}, queue {found.queue}, priority {found.priority}, source {found.source}"
    print_lines([styled(found.state, f"  {one_line(found.name + about)}")])
    print_lines([f"  {one_line(advice(fact.text(lambda at: moment_in_words(at, now))))}" for fact in found.facts])
    if found.payload:
        print_lines([f"  payload {mask_json(json.dumps(found.payload)).text}"])
    if found.runs:
        print_message("")
        print_table(RUN_COLUMNS, [run_cells(run, now) for run in found.runs])
    if found.ticks:
        print_message("")
        if found.state == "circuit open":
            print_lines(["While its circuit is open, only probes run."])
        elif found.state != "active":
            print_lines([f"While it is {found.state}, none of these ticks becomes a run."])
        print_ticks(found.ticks, found.time_zone, now)


async def _read(session: CommandSession, name: str) -> ScheduleDetails:
    from wakeboard.cli.support.lookup import find_schedule, no_longer_there

    known = await find_schedule(session.listings, name, include_removed=True)
    found = await session.listings.schedule_details(known.id)
    if found is None:
        raise no_longer_there(known)
    return found
