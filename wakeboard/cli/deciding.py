"""Commands that decide about runs that exist: retry, cancel, replay, discard."""

from __future__ import annotations

from typing import Annotated

import typer

from wakeboard.cli.bulk_action import BulkAction, How, Selection, do
from wakeboard.cli.echo import AsJson
from wakeboard.cli.help_examples import examples
from wakeboard.cli.shell_completion import complete_queue, complete_schedule

commands = typer.Typer()

Runs = Annotated[
    list[str] | None, typer.Argument(metavar="RUN", help="Ids, uuids or their first 8 characters.", show_default=False)
]
OfSchedule = Annotated[
    str | None, typer.Option("--schedule", metavar="NAME", help="… of this schedule.", autocompletion=complete_schedule)
]
OfType = Annotated[str | None, typer.Option("--type", metavar="TYPE", help="… of this job type.")]
OfQueue = Annotated[
    str | None, typer.Option("--queue", metavar="NAME", help="… of this queue.", autocompletion=complete_queue)
]
SinceThen = Annotated[
    str | None,
    typer.Option("--since", metavar="TIME", help="… to which something happened since: 2h, 3d, or a moment."),
]
Yes = Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.", show_default=False)]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Change nothing; show which runs.", show_default=False)]


@commands.command(
    "retry",
    epilog=examples(
        "wakeboard retry 1042 1043",
        "wakeboard retry --all-dead --schedule weekly-report",
        "wakeboard retry --all-dead --since 1d --dry-run        which runs these are",
        "wakeboard retry --all-failed --type send_mail --yes    do not wait for their backoff",
    ),
)
def retry(
    runs: Runs = None,
    all_dead: Annotated[bool, typer.Option("--all-dead", help="All dead runs …", show_default=False)] = False,
    all_failed: Annotated[bool, typer.Option("--all-failed", help="All failed runs …", show_default=False)] = False,
    schedule: OfSchedule = None,
    job_type: OfType = None,
    queue: OfQueue = None,
    since: SinceThen = None,
    yes: Yes = False,
    dry_run: DryRun = False,
    as_json: AsJson = False,
) -> None:
    """Try dead or failed runs again, now.

    The same run with all its attempts before it: steps and effects that are done stay done.
    """
    statuses = _said(dead=all_dead, failed=all_failed)
    selection = Selection(runs or (), statuses, schedule, job_type, queue, since)
    action = BulkAction(
        "retry", ("dead", "failed"), lambda store, ids: store.retry(ids), {"queued": "is queued again, due now"}
    )
    do(action, selection, "--all-dead or --all-failed", How(yes, dry_run, as_json))


@commands.command(
    "cancel",
    epilog=examples("wakeboard cancel 1042", "wakeboard cancel --all-queued --type send_mail --since 1h"),
)
def cancel(
    runs: Runs = None,
    all_queued: Annotated[bool, typer.Option("--all-queued", help="All queued runs …", show_default=False)] = False,
    all_failed: Annotated[bool, typer.Option("--all-failed", help="All failed runs …", show_default=False)] = False,
    all_running: Annotated[bool, typer.Option("--all-running", help="All running runs …", show_default=False)] = False,
    schedule: OfSchedule = None,
    job_type: OfType = None,
    queue: OfQueue = None,
    since: SinceThen = None,
    yes: Yes = False,
    dry_run: DryRun = False,
    as_json: AsJson = False,
) -> None:
    """Cancel runs that are not finished.

    One that runs is asked to stop: its worker hears it at its next heartbeat, and a success that comes first counts.
    """
    statuses = _said(queued=all_queued, failed=all_failed, running=all_running)
    selection = Selection(runs or (), statuses, schedule, job_type, queue, since)
    said = {"cancelled": "is cancelled", "requested": "is asked to stop"}
    action = BulkAction("cancel", ("queued", "failed", "running"), lambda store, ids: store.cancel(ids), said)
    do(action, selection, "--all-queued, --all-failed or --all-running", How(yes, dry_run, as_json))


@commands.command(
    "replay",
    epilog=examples("wakeboard replay 1042", "wakeboard replay --all-succeeded --schedule export --since 1d"),
)
def replay(
    runs: Runs = None,
    all_succeeded: Annotated[
        bool, typer.Option("--all-succeeded", help="All that succeeded …", show_default=False)
    ] = False,
    all_cancelled: Annotated[
        bool, typer.Option("--all-cancelled", help="All that were cancelled …", show_default=False)
    ] = False,
    all_discarded: Annotated[
        bool, typer.Option("--all-discarded", help="All that were discarded …", show_default=False)
    ] = False,
    schedule: OfSchedule = None,
    job_type: OfType = None,
    queue: OfQueue = None,
    since: SinceThen = None,
    yes: Yes = False,
    dry_run: DryRun = False,
    as_json: AsJson = False,
) -> None:
    """Make new runs from finished ones.

    With a uuid of its own each: its effects happen again. To try a dead run again, use retry.
    """
    statuses = _said(succeeded=all_succeeded, cancelled=all_cancelled, discarded=all_discarded)
    selection = Selection(runs or (), statuses, schedule, job_type, queue, since)
    action = BulkAction(
        "replay",
        ("succeeded", "cancelled", "discarded"),
        lambda store, ids: store.replay(ids),
        {"queued": "is replayed"},
    )
    do(action, selection, "--all-succeeded, --all-cancelled or --all-discarded", How(yes, dry_run, as_json))


@commands.command(
    "discard",
    epilog=examples(
        "wakeboard discard 1042",
        "wakeboard discard --all-dead --dry-run",
        "wakeboard discard --all-dead --schedule weekly-report --yes",
    ),
)
def discard(
    runs: Runs = None,
    all_dead: Annotated[bool, typer.Option("--all-dead", help="All dead runs …", show_default=False)] = False,
    schedule: OfSchedule = None,
    job_type: OfType = None,
    queue: OfQueue = None,
    since: SinceThen = None,
    yes: Yes = False,
    dry_run: DryRun = False,
    as_json: AsJson = False,
) -> None:
    """Give dead runs up for good.

    They go to history, and from there `wakeboard replay` can still make new runs of them.
    """
    selection = Selection(runs or (), _said(dead=all_dead), schedule, job_type, queue, since)
    action = BulkAction("discard", ("dead",), lambda store, ids: store.discard(ids), {"discarded": "is discarded"})
    do(action, selection, "--all-dead", How(yes, dry_run, as_json))


def _said(**flags: bool) -> list[str]:
    return [status for status, said in flags.items() if said]
