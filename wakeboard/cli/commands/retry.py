"""The command `wakeboard retry`: retries dead or failed runs now."""

from __future__ import annotations

from typing import Annotated

import typer

from wakeboard.cli.support.bulk_action import DryRun, Mode, Runs, SelectionOptions, Yes, run_bulk_action
from wakeboard.cli.support.options import AsJson, JobType, OfQueue, OfSchedule, Reason, Since

EXAMPLES = (
    "wakeboard retry 1042 1043",
    "wakeboard retry --all-dead --schedule weekly-report",
    "wakeboard retry --all-dead --since 1d --dry-run        show which runs",
    "wakeboard retry --all-failed --type send_mail --yes    do not wait for their backoff",
)


def command(
    runs: Runs = None,
    all_dead: Annotated[bool, typer.Option("--all-dead", help="All dead runs.", show_default=False)] = False,
    all_failed: Annotated[bool, typer.Option("--all-failed", help="All failed runs.", show_default=False)] = False,
    schedule: OfSchedule = None,
    job_type: JobType = None,
    queue: OfQueue = None,
    since: Since = None,
    reason: Reason = "",
    yes: Yes = False,
    dry_run: DryRun = False,
    as_json: AsJson = False,
) -> None:
    """Retry dead or failed runs now.

    The runs keep their ids, completed steps and completed effects. They have all their attempts again.
    """
    statuses = {"dead": all_dead, "failed": all_failed}
    selection = SelectionOptions(runs, statuses, schedule, job_type, queue, since)
    run_bulk_action("retry", selection, Mode(yes, dry_run, as_json, reason))
