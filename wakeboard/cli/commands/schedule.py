"""The command `wakeboard schedule`: one schedule with what is wrong, its runs and its next ticks."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from wakeboard.cli.commands.explain import json_fact, moment_in_words
from wakeboard.cli.commands.next import Tick, print_ticks, stored_ticks
from wakeboard.cli.commands.schedules import cron_and_zone
from wakeboard.cli.support.options import AsJson
from wakeboard.cli.support.output import print_json, print_message, to_json_types
from wakeboard.cli.support.run_table import RUN_COLUMNS, run_cells
from wakeboard.cli.support.session import query_store
from wakeboard.cli.support.shell_completion import complete_schedule
from wakeboard.cli.support.tables import print_lines, print_table, styled
from wakeboard.text.humanize import runs_after_words
from wakeboard.text.mask_json import mask_json
from wakeboard.text.sanitize import one_line

if TYPE_CHECKING:
    from wakeboard.cli.support.session import CommandSession
    from wakeboard.text.facts import Fact
    from wakeboard.views.rules.run_rows import RunRow

TICKS_SHOWN: Final = 5
RUNS_SHOWN: Final = 10

_COLUMNS: Final = ("id", "source", "schedule", "time_zone", "job_type", "queue", "priority", "payload")

EXAMPLES = ("wakeboard schedule weekly-report", "wakeboard schedule billing/weekly-report --json")


@dataclass(frozen=True, slots=True, kw_only=True)
class ScheduleDetails:
    """A schedule. `facts`: as `explain` prints them. `runs`: first unfinished ones, then those that ended last."""

    id: int
    name: str
    source: str
    state: str
    schedule: str | None
    time_zone: str
    runs_after: list[str]
    job_type: str
    queue: str
    priority: int
    payload: Any
    facts: list[Fact]
    runs: list[RunRow]
    ticks: list[Tick]


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
        print_json({**to_json_types(found), "facts": [json_fact(fact) for fact in found.facts]})
        return
    when = runs_after_words(found.runs_after) if found.runs_after else cron_and_zone(found.schedule, found.time_zone)
    about = f": {when}; type {found.job_type}, queue {found.queue}, priority {found.priority}, source {found.source}"
    print_lines([styled(found.state, f"  {one_line(found.name + about)}")])
    print_lines([f"  {one_line(fact.text(lambda at: moment_in_words(at, now)))}" for fact in found.facts])
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
    from wakeboard.cli.support.lookup import find_schedule, read_schedule
    from wakeboard.views.queries.schedule_page import live_runs, past_runs
    from wakeboard.views.rules.schedule_explanation import explain_schedule

    known = await find_schedule(session.listings, name, include_removed=True)
    row, situation = await read_schedule(session, known)
    runs = await live_runs(session.conn, known.id, RUNS_SHOWN)
    runs += await past_runs(session.conn, known.id, RUNS_SHOWN)
    return ScheduleDetails(
        name=known.short,
        state=situation.state,
        runs_after=[parent.name for parent in situation.parents],
        facts=explain_schedule(situation),
        runs=runs[:RUNS_SHOWN],
        ticks=stored_ticks(row, session.now, TICKS_SHOWN)[0],
        **{name: row[name] for name in _COLUMNS},
    )
