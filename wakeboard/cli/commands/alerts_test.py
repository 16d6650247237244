"""The command `wakeboard alerts test`: sends a test notification in the way in which alerts are sent."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from wakeboard.cli.support.options import AsJson
from wakeboard.cli.support.output import print_error, print_json, print_message
from wakeboard.cli.support.session import with_database

if TYPE_CHECKING:
    from collections.abc import Callable

    from wakeboard.cli.support.session import DatabaseSession
    from wakeboard.text.facts import Fact

EXAMPLES = ("wakeboard alerts test team",)
POLL_S = 0.2
ENDED = frozenset({"succeeded", "dead", "cancelled", "deleted"})


def command(
    receiver: Annotated[str, typer.Argument(metavar="RECEIVER", help="The name of a receiver in the alerts file.")],
    queue: Annotated[str, typer.Option(metavar="NAME", help="The `queue` of the alerts file.")] = "default",
    wait: Annotated[
        int, typer.Option(metavar="SECONDS", min=1, max=3600, help="How long to wait for the delivery.")
    ] = 90,
    as_json: AsJson = False,
) -> None:
    """Send a test notification to a receiver.

    It is a run of the job type wakeboard.alert, which a worker with the alerts file delivers, as it does for alerts;
    the leading operator, if no such worker has registered for four minutes. There is one attempt. If
    WAKEBOARD_ALERTS_FILE is set here, too, a name that is not in the file is refused at once.
    """
    if file := os.environ.get("WAKEBOARD_ALERTS_FILE"):
        from wakeboard.alerts.file import load_alert_file, receiver_named

        receiver_named(receiver, load_alert_file(Path(file)), file)

    def say(run_id: int, unserved: Fact | None) -> None:
        if unserved is not None:
            print_error(f"{unserved.text(str)} Without one, the leading operator delivers, if it has the alerts file.")
        if not as_json:
            print_message(f"Run {run_id} delivers it. Waiting for at most {wait} s.")

    result = with_database(lambda session: _send(session, receiver, queue, wait, say))
    if as_json:
        print_json(result)
    elif result["status"] == "succeeded":
        print_message(f"{receiver} accepted the notification (run {result['run']}).")
    else:
        print_error(_problem(result, receiver, wait))
    if result["status"] != "succeeded":
        raise typer.Exit(1)


def _problem(result: dict[str, Any], receiver: str, wait: int) -> str:
    if result["error"]:
        return f"{receiver} did not get the notification (run {result['run']}): {result['error']}"
    return (
        f"run {result['run']} is {result['status']} after {wait} s. Workers with WAKEBOARD_ALERTS_FILE deliver;"
        " does one serve this queue?"
    )


async def _send(
    session: DatabaseSession, receiver: str, queue: str, wait: int, say: Callable[[int, Fact | None], None]
) -> dict[str, Any]:
    """Enqueues a delivery and waits for its end. `say` is called before, with its run and why no worker would."""
    import asyncio
    import time

    from wakeboard.alerts.sender import JOB_TYPE
    from wakeboard.views.queries.job_types import read_unserved
    from wakeboard.views.queries.run_details import read_run_details

    run_id = await session.store.send_test_notification(receiver, queue)
    say(run_id, await read_unserved(session.conn, queue, JOB_TYPE))
    until = time.monotonic() + wait
    while True:
        run = await read_run_details(session.conn, run_id)
        status = run.status if run else "deleted"
        if status in ENDED or time.monotonic() > until:
            if status == "dead":  # a dead run would open an alert of a rule with `dead`, and stay
                await session.store.discard([run_id], "a test notification")
            return {"run": run_id, "status": status, "error": run.error if run else None}
        await asyncio.sleep(POLL_S)
