"""The command `wakeboard release`: takes running runs from their workers."""

from __future__ import annotations

from typing import Annotated

import typer

from wakeboard.cli.support.bulk_action import DryRun, Mode, Runs, SelectionOptions, Yes, run_bulk_action
from wakeboard.cli.support.options import AsJson, JobType, OfQueue, OfSchedule, Reason, Since

EXAMPLES = (
    "wakeboard release 1042",
    "wakeboard release --all-running --type send_mail --dry-run",
)


def command(
    runs: Runs = None,
    all_running: Annotated[bool, typer.Option("--all-running", help="All running runs.", show_default=False)] = False,
    schedule: OfSchedule = None,
    job_type: JobType = None,
    queue: OfQueue = None,
    since: Since = None,
    reason: Reason = "",
    yes: Yes = False,
    dry_run: DryRun = False,
    as_json: AsJson = False,
) -> None:
    """Take running runs from their workers at once.

    For a worker that hangs and still sends heartbeats. The runs are queued again, due now, without a failed attempt.
    What the old worker reports about them is refused. Until it notices, two handlers may execute such a run.
    """
    selection = SelectionOptions(runs, {"running": all_running}, schedule, job_type, queue, since)
    run_bulk_action("release", selection, Mode(yes, dry_run, as_json, reason))
