"""The command `wakeboard run-now`: enqueues a run of a schedule that is due now."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from wakeboard.cli.support.options import AsJson, Payload, Reason
from wakeboard.cli.support.output import print_answer
from wakeboard.cli.support.payload_arg import read_payload
from wakeboard.cli.support.session import with_session
from wakeboard.cli.support.shell_completion import complete_schedule
from wakeboard.errors import WakeboardError

if TYPE_CHECKING:
    from wakeboard.cli.support.session import CommandSession

EXAMPLES = (
    "wakeboard run-now billing/weekly-report",
    """wakeboard run-now clean-up --payload '{"days": 7}' --reason 'disk is full'""",
)


def command(
    schedule: Annotated[
        str,
        typer.Argument(metavar="SCHEDULE", help="The name of the schedule.", autocompletion=complete_schedule),
    ],
    payload: Payload = None,
    reason: Reason = "",
    as_json: AsJson = False,
) -> None:
    """Run a schedule now, in addition to its ticks.

    This works for a suspended schedule too. The concurrency policy applies: Forbid refuses the run while another run of
    the schedule is unfinished.
    """
    value = read_payload(payload) if payload is not None else None

    async def enqueue_run(session: CommandSession) -> tuple[str, int]:
        from wakeboard.cli.support.lookup import find_schedule

        known = await find_schedule(session.listings, schedule)
        run_id, answer = await session.store.run_now(known.id, value, reason)
        if run_id is None:
            raise WakeboardError(f"{known.short}: {answer}.")
        return known.short, run_id

    name, run_id = with_session(enqueue_run)
    print_answer({"schedule": name, "id": run_id}, f"run {run_id} of {name} is queued, due now.", as_json=as_json)
