"""The command `wakeboard worker`: replaces this process with a worker (wakeboard_worker)."""

from __future__ import annotations

import os
import sys
from typing import Annotated

import typer

from wakeboard.cli.support.session import database_dsn
from wakeboard.cli.support.shell_completion import complete_queue

EXAMPLES = (
    "wakeboard worker                                run what is due, then exit (as the CronJob does)",
    "wakeboard worker --linger 55",
    "wakeboard worker --forever --handlers myapp.jobs --queue mail --queue reports",
)


def command(
    forever: Annotated[bool, typer.Option("--forever", help="Run until SIGTERM.", show_default=False)] = False,
    linger: Annotated[
        float,
        typer.Option(metavar="SECONDS", min=0, max=604_800, help="Run for at least this long.", show_default=False),
    ] = 0.0,
    handlers: Annotated[
        list[str] | None, typer.Option(metavar="MODULE", help="Python module with handlers. May be repeated.")
    ] = None,
    queue: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME", help="Queue to serve. May be repeated.", autocompletion=complete_queue),
    ] = None,
    pool: Annotated[str | None, typer.Option(metavar="NAME", help="Name of the worker's pool.")] = None,
    concurrency: Annotated[
        int | None, typer.Option(metavar="N", min=1, max=10_000, help="Maximum number of runs at once.")
    ] = None,
) -> None:
    """Run a worker in the foreground.

    The worker claims due runs, runs them, records their outcomes, and exits when nothing is due. Options override the
    WAKEBOARD_* settings. The exit code is 0 even if runs failed, and not 0 if the worker itself could not work. With
    WAKEBOARD_LOG_FORMAT=json the log is JSON; with --forever, it then has a line for each run, at most 50 a second.
    """
    if forever and linger:
        raise typer.BadParameter("use --forever or --linger, not both", param_hint="--linger")
    settings = {
        "WAKEBOARD_DSN": database_dsn(),
        "WAKEBOARD_HANDLERS": ",".join(handlers or ()),
        "WAKEBOARD_QUEUES": ",".join(queue or ()),
        "WAKEBOARD_POOL": pool or "",
        "WAKEBOARD_CONCURRENCY": str(concurrency or ""),
    }
    mode = ["--forever"] if forever else ["--linger", f"{linger:g}"] if linger else []
    _exec([sys.executable, "-m", "wakeboard_worker", *mode], {name: value for name, value in settings.items() if value})


def _exec(command: list[str], environment: dict[str, str]) -> None:
    """Replaces this process, so that signals and the exit code are the worker's own."""
    sys.stdout.flush()
    sys.stderr.flush()
    os.execve(command[0], command, {**os.environ, **environment})  # noqa: S606 - no shell is wanted
