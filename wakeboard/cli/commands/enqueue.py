"""The command `wakeboard enqueue`: enqueues one run, as an application would."""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING, Annotated

import typer

from wakeboard.cli.support.options import AsJson
from wakeboard.cli.support.output import print_error, print_json, print_message
from wakeboard.cli.support.payload_arg import read_payload
from wakeboard.cli.support.session import with_database
from wakeboard.cli.support.shell_completion import complete_queue
from wakeboard.cli.support.time_args import parse_duration, parse_time, time_after
from wakeboard.errors import InvalidValue

if TYPE_CHECKING:
    from datetime import datetime

    from wakeboard.cli.support.session import DatabaseSession
    from wakeboard.engine.enqueue import Enqueued
    from wakeboard.text.facts import Fact

LONGEST_S = 31 * 86_400

EXAMPLES = (
    "wakeboard enqueue ping",
    """wakeboard enqueue send_mail '{"to": "ada@example.com"}' --queue mail --priority 5""",
    "wakeboard enqueue close_month --at 2026-12-31T23:30+01:00",
    "wakeboard enqueue charge '{\"order\": 7}' --key order-7      at most one run with this key",
    "wakeboard enqueue sync '{\"customer\": 7}' --unique-for 1h --unique-by customer",
    "wakeboard enqueue report --after 41 --after 42 --max-attempts 3 --timeout 30m",
    "generate | wakeboard enqueue import -                      payload from standard input",
)


class IfExists(StrEnum):
    """What happens to an equal run that still waits."""

    KEEP = "keep"
    REPLACE = "replace"


class BackoffWord(StrEnum):
    """How the pauses between attempts grow."""

    EXPONENTIAL = "exponential"
    FIXED = "fixed"


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
    delay_text: Annotated[
        str | None, typer.Option("--in", metavar="DURATION", help="Due after this duration: 90s, 10m, 2h.")
    ] = None,
    key: Annotated[
        str | None, typer.Option(metavar="KEY", help="Idempotency key: if a run has this key, none is enqueued.")
    ] = None,
    limit_key: Annotated[
        str | None, typer.Option(metavar="KEY", help="The limit key of the run (see `wakeboard limit`).")
    ] = None,
    unique_for: Annotated[
        str | None,
        typer.Option(metavar="DURATION", help="If an equal run was enqueued within this time, none is enqueued."),
    ] = None,
    unique_by: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME", help="Runs with equal values of this key of the payload are equal. Repeat it for more keys."
        ),
    ] = None,
    if_exists: Annotated[
        IfExists, typer.Option(metavar="keep|replace", help="What to do with an equal run that still waits.")
    ] = IfExists.KEEP,
    after: Annotated[
        list[int] | None,
        typer.Option(metavar="RUN", min=1, help="Start after this run has succeeded. Repeat it for more runs."),
    ] = None,
    max_attempts: Annotated[int, typer.Option(metavar="N", min=1, max=1000, help="Attempts before it is dead.")] = 5,
    timeout: Annotated[str, typer.Option(metavar="DURATION", help="How long an attempt may take.")] = "10m",
    backoff: Annotated[
        BackoffWord, typer.Option(metavar="exponential|fixed", help="How the pauses between attempts grow.")
    ] = BackoffWord.EXPONENTIAL,
    as_json: AsJson = False,
) -> None:
    """Enqueue a run.

    The payload is a JSON object or list of at most 64 KiB. Without --at or --in the run is due now.
    Without --unique-by, runs with equal payloads are equal. `replace` gives a waiting run the new payload and time.
    """
    if at is not None and delay_text is not None:
        raise typer.BadParameter("use --at or --in, not both", param_hint="--in")
    if unique_for is None and (unique_by or if_exists is IfExists.REPLACE):
        hint = "--unique-by" if unique_by else "--if-exists"
        raise typer.BadParameter("write --unique-for, too, for example --unique-for 1h", param_hint=hint)
    time = parse_time(at) if at is not None else None
    delay = parse_duration(delay_text) if delay_text is not None else None
    unique_for_s = _whole_seconds(unique_for, "--unique-for") if unique_for is not None else None
    timeout_s = _whole_seconds(timeout, "--timeout")
    value = read_payload(payload)

    async def send(session: DatabaseSession) -> tuple[Enqueued, datetime | None, bool, Fact | None, datetime]:
        from wakeboard.engine.enqueue import enqueue as enqueue_run
        from wakeboard.engine.enqueue import was_replaced
        from wakeboard.views.queries.job_types import read_unserved

        due = time_after(delay, session.now) if delay is not None else time
        async with session.conn.transaction():
            enqueued = await enqueue_run(
                session.conn,
                job_type,
                value,
                queue=queue,
                priority=priority,
                run_at=due,
                idempotency_key=key,
                limit_key=limit_key,
                unique_for=unique_for_s,
                unique_by=unique_by or None,
                if_exists=if_exists.value,
                after=after or None,
                max_attempts=max_attempts,
                timeout_s=timeout_s,
                backoff=backoff.value,
            )
            replaced = (
                if_exists is IfExists.REPLACE and not enqueued.created and await was_replaced(session.conn, enqueued)
            )
        unserved = await read_unserved(session.conn, queue, job_type) if enqueued.created else None
        return enqueued, due, replaced, unserved, session.now

    enqueued, due, replaced, unserved, now = with_database(send)
    if as_json:
        print_json(enqueued)
        return
    from wakeboard.text.humanize import relative

    when = f"due {relative(due or now, now)}{_condition(after or [])}"
    if enqueued.created:
        print_message(f"run {enqueued.id} is queued: {job_type}, {when}.")
    elif replaced:
        print_message(f"run {enqueued.id} was waiting; it has this payload now, {when}.")
    elif enqueued.status == "dead":
        print_message(f"a dead run, {enqueued.id}, absorbed it; no run was enqueued: `wakeboard retry {enqueued.id}`.")
    elif unique_for_s is None:
        print_message(f"run {enqueued.id} already has this key; no run was enqueued.")
    else:
        print_message(f"run {enqueued.id} was enqueued within {unique_for}; no run was enqueued.")
    if unserved is not None:
        print_error(unserved.text(str))


def _condition(after: list[int]) -> str:
    from wakeboard.text.humanize import counted

    return f", once {counted(len(after), 'other run')} succeeded" if after else ""


def _whole_seconds(text: str, option: str) -> int:
    seconds = parse_duration(text).total_seconds()
    if not 1 <= seconds <= LONGEST_S or seconds % 1:
        raise InvalidValue(f"{option} is {text}; write whole seconds from 1s to 31d.")
    return int(seconds)
