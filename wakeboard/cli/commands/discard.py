"""The command `wakeboard discard`: moves dead runs to history."""

from __future__ import annotations

from typing import Annotated

import typer

from wakeboard.cli.support.bulk_action import DryRun, Mode, Runs, SelectionOptions, Yes, run_bulk_action
from wakeboard.cli.support.options import AsJson, JobType, OfQueue, OfSchedule, Reason, Since

EXAMPLES = (
    "wakeboard discard 1042",
    "wakeboard discard --all-dead --dry-run",
    "wakeboard discard --all-dead --schedule weekly-report --yes",
)


def command(
    runs: Runs = None,
    all_dead: Annotated[bool, typer.Option("--all-dead", help="All dead runs.", show_default=False)] = False,
    schedule: OfSchedule = None,
    job_type: JobType = None,
    queue: OfQueue = None,
    since: Since = None,
    reason: Reason = "",
    yes: Yes = False,
    dry_run: DryRun = False,
    as_json: AsJson = False,
) -> None:
    """Move dead runs to history, without another attempt.

    `wakeboard replay` can still enqueue copies of them.
    """
    statuses = {"dead": all_dead}
    selection = SelectionOptions(runs, statuses, schedule, job_type, queue, since)
    run_bulk_action("discard", selection, Mode(yes, dry_run, as_json, reason))
