"""The command that becomes a worker."""

from __future__ import annotations

import os
import sys
from typing import Annotated

import typer

from wakeboard.cli.help_examples import examples
from wakeboard.cli.session import database_dsn
from wakeboard.cli.shell_completion import complete_queue

commands = typer.Typer()


@commands.command(
    "worker",
    epilog=examples(
        "wakeboard worker                                what is due, then exit (as the CronJob does)",
        "wakeboard worker --linger 55",
        "wakeboard worker --forever --handlers myapp.jobs --queue mail --queue reports",
    ),
)
def worker(
    forever: Annotated[bool, typer.Option("--forever", help="Stay until SIGTERM.", show_default=False)] = False,
    linger: Annotated[
        float,
        typer.Option(metavar="SECONDS", min=0, max=604_800, help="Stay for at least so long.", show_default=False),
    ] = 0.0,
    handlers: Annotated[
        list[str] | None, typer.Option(metavar="MODULE", help="Python module with handlers; may be repeated.")
    ] = None,
    queue: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME", help="Queue to serve; may be repeated.", autocompletion=complete_queue),
    ] = None,
    pool: Annotated[str | None, typer.Option(metavar="NAME", help="Name of the worker's pool.")] = None,
    concurrency: Annotated[int | None, typer.Option(metavar="N", min=1, max=10_000, help="Runs at once.")] = None,
) -> None:
    """Wake a worker in the foreground.

    It claims what is due, runs it, records the outcomes and exits when nothing is due. What is not said here comes from
    the WAKEBOARD_* settings. Exit code 0 also when runs failed; another one when the wake itself could not work. It
    prints no tables: with WAKEBOARD_LOG_FORMAT=json its log is for programs.
    """
    if forever and linger:
        raise typer.BadParameter("say --forever or --linger, not both", param_hint="--linger")
    said = {
        "WAKEBOARD_DSN": database_dsn(),
        "WAKEBOARD_HANDLERS": ",".join(handlers or ()),
        "WAKEBOARD_QUEUES": ",".join(queue or ()),
        "WAKEBOARD_POOL": pool or "",
        "WAKEBOARD_CONCURRENCY": str(concurrency or ""),
    }
    mode = ["--forever"] if forever else ["--linger", f"{linger:g}"] if linger else []
    _become([sys.executable, "-m", "wakeboard_worker", *mode], {name: value for name, value in said.items() if value})


def _become(command: list[str], environment: dict[str, str]) -> None:
    """This process becomes the worker: its signals and its exit code are the worker's own."""
    sys.stdout.flush()
    sys.stderr.flush()
    os.execve(command[0], command, {**os.environ, **environment})  # noqa: S606 - no shell is wanted
