"""Commands that make runs: enqueue, run-now."""

from __future__ import annotations

import json
import sys
from typing import TYPE_CHECKING, Annotated, Any

import typer

from wakeboard.cli.echo import AsJson, print_json, say
from wakeboard.cli.help_examples import examples
from wakeboard.cli.session import open_store
from wakeboard.cli.shell_completion import complete_queue, complete_schedule
from wakeboard.cli.time_args import moment_after, read_duration, read_moment
from wakeboard.errors import InvalidValue, WakeboardError
from wakeboard.rules.canonical_json import check_payload

if TYPE_CHECKING:
    from datetime import datetime

    from wakeboard.cli.session import Session
    from wakeboard.store.enqueue import Enqueued

commands = typer.Typer()


@commands.command(
    "enqueue",
    epilog=examples(
        "wakeboard enqueue ping",
        """wakeboard enqueue send_mail '{"to": "ada@example.com"}' --queue mail --priority 5""",
        "wakeboard enqueue close_month --at 2026-12-31T23:30+01:00",
        "wakeboard enqueue charge '{\"order\": 7}' --key order-7      twice is once",
        "generate | wakeboard enqueue import -                      payload from standard input",
    ),
)
def enqueue(
    job_type: Annotated[str, typer.Argument(metavar="TYPE", help="The job type: which handler runs it.")],
    payload: Annotated[str, typer.Argument(metavar="PAYLOAD", help="JSON; - reads standard input.")] = "{}",
    queue: Annotated[
        str, typer.Option(metavar="NAME", help="The queue it waits in.", autocompletion=complete_queue)
    ] = "default",
    priority: Annotated[int, typer.Option(metavar="N", min=1, max=5, help="1 to 5; 5 goes first.")] = 3,
    at: Annotated[str | None, typer.Option("--at", metavar="MOMENT", help="Due at this ISO 8601 moment.")] = None,
    after: Annotated[str | None, typer.Option("--in", metavar="TIME", help="Due after so long: 90s, 10m, 2h.")] = None,
    key: Annotated[
        str | None, typer.Option(metavar="KEY", help="Idempotency key: a second run with it is not made.")
    ] = None,
    limit_key: Annotated[
        str | None, typer.Option(metavar="KEY", help="Wait behind this limit key (see `wakeboard limit`).")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Make a run by hand, as an application would.

    The payload is a JSON object or list of at most 64 KiB. Without --at or --in it is due now.
    """
    if at is not None and after is not None:
        raise typer.BadParameter("say --at or --in, not both", param_hint="--in")
    moment = read_moment(at) if at is not None else None
    span = read_duration(after) if after is not None else None
    given = read_payload(sys.stdin.buffer.read() if payload == "-" else payload)

    async def ask(session: Session) -> tuple[Enqueued, datetime | None, datetime]:
        from wakeboard.store.enqueue import enqueue as enqueue_run

        due = moment_after(span, session.now) if span is not None else moment
        made = await enqueue_run(
            session.conn,
            job_type,
            given,
            queue=queue,
            priority=priority,
            run_at=due,
            idempotency_key=key,
            limit_key=limit_key,
        )
        return made, due, session.now

    made, due, now = open_store(ask)
    if as_json:
        print_json(made)
    elif made.created:
        from wakeboard.rules.humanize import relative

        say(f"run {made.id} is queued: {job_type}, due {relative(due or now, now)}.")
    else:
        say(f"run {made.id} has this key already; nothing new was made.")


def read_payload(text: str | bytes) -> Any:
    """The payload as JSON. Raises InvalidValue with a valid example."""
    example = """write for example '{"segment": "active"}'"""
    try:
        text = text.decode() if isinstance(text, bytes) else text
        found = json.loads(text)
    except UnicodeDecodeError:
        raise InvalidValue(f"the payload is not UTF-8; {example}.") from None
    except json.JSONDecodeError as exc:
        where = f"line {exc.lineno}, column {exc.colno}"
        raise InvalidValue(f"the payload is not JSON ({exc.msg.removesuffix(' at')} at {where}); {example}.") from None
    except RecursionError:
        raise InvalidValue(f"the payload is nested too deeply; {example}.") from None
    except ValueError:  # Python reads no integer of more than 4,300 digits
        raise InvalidValue(f"the payload holds a number with too many digits; write it in quotes; {example}.") from None
    check_payload(found)
    return found  # pyright: ignore[reportUnknownVariableType]


@commands.command(
    "run-now", epilog=examples("wakeboard run-now billing/weekly-report", "wakeboard run-now tidy --json")
)
def run_now(
    schedule: Annotated[str, typer.Argument(metavar="SCHEDULE", help="Its name.", autocompletion=complete_schedule)],
    as_json: AsJson = False,
) -> None:
    """Run a schedule now, beside its ticks.

    Also when it is suspended. Its concurrency policy counts: with Forbid it is refused while a run is unfinished.
    """

    async def ask(session: Session) -> tuple[str, int]:
        from wakeboard.cli.lookup import find_schedule

        known = await find_schedule(session.reports, schedule)
        run_id, answer = await session.store.run_now(known.id)
        if run_id is None:
            raise WakeboardError(f"{known.short}: {answer}.")
        return known.short, run_id

    name, run_id = open_store(ask)
    if as_json:
        print_json({"schedule": name, "id": run_id})
    else:
        say(f"run {run_id} of {name} is queued, due now.")
