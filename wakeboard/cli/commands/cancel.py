"""The command `wakeboard cancel`: cancels queued, failed and running runs."""

from __future__ import annotations

from typing import Annotated

import typer

from wakeboard.cli.support.bulk_action import DryRun, Mode, Runs, SelectionOptions, Yes, run_bulk_action
from wakeboard.cli.support.options import AsJson, JobType, OfQueue, OfSchedule, Reason, Since

EXAMPLES = ("wakeboard cancel 1042", "wakeboard cancel --all-queued --type send_mail --since 1h")


def command(
    runs: Runs = None,
    all_queued: Annotated[bool, typer.Option("--all-queued", help="All queued runs.", show_default=False)] = False,
    all_failed: Annotated[bool, typer.Option("--all-failed", help="All failed runs.", show_default=False)] = False,
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
    """Cancel queued, failed and running runs.

    A running run is cancelled at the next heartbeat of its worker, unless it succeeds before.
    """
    statuses = {"queued": all_queued, "failed": all_failed, "running": all_running}
    selection = SelectionOptions(runs, statuses, schedule, job_type, queue, since)
    run_bulk_action("cancel", selection, Mode(yes, dry_run, as_json, reason))
