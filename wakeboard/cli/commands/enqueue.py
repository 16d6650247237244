"""The command `wakeboard enqueue`: enqueues one run, as an application would."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from wakeboard.cli.support.options import AsJson
from wakeboard.cli.support.output import print_json, print_message
from wakeboard.cli.support.payload_arg import read_payload
from wakeboard.cli.support.session import query_store
from wakeboard.cli.support.shell_completion import complete_queue
from wakeboard.cli.support.time_args import parse_duration, parse_time, time_after

if TYPE_CHECKING:
    from datetime import datetime

    from wakeboard.cli.support.session import Session
    from wakeboard.store.enqueue import Enqueued

EXAMPLES = (
    "wakeboard enqueue ping",
    """wakeboard enqueue send_mail '{"to": "ada@example.com"}' --queue mail --priority 5""",
    "wakeboard enqueue close_month --at 2026-12-31T23:30+01:00",
    "wakeboard enqueue charge '{\"order\": 7}' --key order-7      at most one run with this key",
    "generate | wakeboard enqueue import -                      payload from standard input",
)


def command(
    job_type: Annotated[
        str, typer.Argument(metavar="TYPE", help="The job type, which selects the handler that runs it.")
    ],
    payload: Annotated[
        str, typer.Argument(metavar="PAYLOAD", help="JSON, @FILE for a file, or - for standard input.")
    ] = "{}",
    queue: Annotated[
        str, typer.Option(metavar="NAME", help="The queue of the run.", autocompletion=complete_queue)
    ] = "default",
    priority: Annotated[
        int, typer.Option(metavar="N", min=1, max=5, help="Runs with a higher priority are claimed first.")
    ] = 3,
    at: Annotated[str | None, typer.Option("--at", metavar="TIME", help="Due at this ISO 8601 time.")] = None,
    after: Annotated[
        str | None, typer.Option("--in", metavar="DURATION", help="Due after this duration: 90s, 10m, 2h.")
    ] = None,
    key: Annotated[
        str | None, typer.Option(metavar="KEY", help="Idempotency key: if a run has this key, none is enqueued.")
    ] = None,
    limit_key: Annotated[
        str | None, typer.Option(metavar="KEY", help="The limit key of the run (see `wakeboard limit`).")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Enqueue a run.

    The payload is a JSON object or list of at most 64 KiB. Without --at or --in the run is due now.
    """
    if at is not None and after is not None:
        raise typer.BadParameter("use --at or --in, not both", param_hint="--in")
    time = parse_time(at) if at is not None else None
    delay = parse_duration(after) if after is not None else None
    value = read_payload(payload)

    async def send(session: Session) -> tuple[Enqueued, datetime | None]:
        from wakeboard.store.enqueue import enqueue as enqueue_run

        due = time_after(delay, session.now) if delay is not None else time
        enqueued = await enqueue_run(
            session.conn,
            job_type,
            value,
            queue=queue,
            priority=priority,
            run_at=due,
            idempotency_key=key,
            limit_key=limit_key,
        )
        return enqueued, due

    (enqueued, due), now = query_store(send)
    if as_json:
        print_json(enqueued)
    elif enqueued.created:
        from wakeboard.rules.humanize import relative

        print_message(f"run {enqueued.id} is queued: {job_type}, due {relative(due or now, now)}.")
    else:
        print_message(f"run {enqueued.id} already has this key; no run was enqueued.")
