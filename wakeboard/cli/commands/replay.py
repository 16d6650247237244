"""The command `wakeboard replay`: enqueues copies of finished runs."""

from __future__ import annotations

from typing import Annotated

import typer

from wakeboard.cli.support.bulk_action import DryRun, Mode, Runs, SelectionOptions, Yes, run_bulk_action
from wakeboard.cli.support.options import AsJson, JobType, OfQueue, OfSchedule, Payload, Reason, Since
from wakeboard.cli.support.payload_arg import read_payload

EXAMPLES = (
    "wakeboard replay 1042",
    """wakeboard replay 1042 --payload '{"to": "ada@example.com"}'""",
    "wakeboard replay --all-succeeded --schedule export --since 1d",
)


def command(
    runs: Runs = None,
    all_succeeded: Annotated[
        bool, typer.Option("--all-succeeded", help="All succeeded runs.", show_default=False)
    ] = False,
    all_cancelled: Annotated[
        bool, typer.Option("--all-cancelled", help="All cancelled runs.", show_default=False)
    ] = False,
    all_discarded: Annotated[
        bool, typer.Option("--all-discarded", help="All discarded runs.", show_default=False)
    ] = False,
    schedule: OfSchedule = None,
    job_type: JobType = None,
    queue: OfQueue = None,
    since: Since = None,
    payload: Payload = None,
    reason: Reason = "",
    yes: Yes = False,
    dry_run: DryRun = False,
    as_json: AsJson = False,
) -> None:
    """Enqueue copies of finished runs.

    Each copy has a new uuid, so its effects happen again. With --payload all copies have that payload. Use retry for
    dead runs.
    """
    statuses = {"succeeded": all_succeeded, "cancelled": all_cancelled, "discarded": all_discarded}
    selection = SelectionOptions(runs, statuses, schedule, job_type, queue, since)
    value = read_payload(payload) if payload is not None else None
    run_bulk_action("replay", selection, Mode(yes, dry_run, as_json, reason), value)
