"""The typer application: the order of the commands, the help of `wakeboard`, and its global options."""

from __future__ import annotations

import os
from typing import Annotated

import typer

from wakeboard.cli.support.session import set_dsn
from wakeboard.cli.typer_application import add_commands, examples, new_application
from wakeboard.process.display_zone import use_zone
from wakeboard.process.output import write_error, write_line

# Each is a module of wakeboard.cli.commands with a function `command` and EXAMPLES, or an action of run_actions.py.
# `--help` has the same order.
COMMANDS = (
    *(
        "new",
        "up",
        "plan",
        "apply",
        "import",
        "schedules",
        "schedule",
        "next",
        "runs",
        "run",
        "compare",
        "explain",
        "graph",
        "logs",
        "workers",
        "queues",
        "failures",
        "alerts",
        "alerts check",
        "alerts test",
        "alerts silence",
        "alerts unsilence",
        "audit",
        "enqueue",
        "run-now",
        "backfill",
    ),
    *("retry", "cancel", "replay", "discard", "release", "pause", "resume", "limit"),
    *("board", "check", "worker", "conformance", "migrate", "version", "confirm removal"),
    *("effects list", "effects release", "effects install"),
)
# A group without a text is a command too, which runs without a further word.
GROUPS = {
    "alerts": None,
    "confirm": "Confirm an operation that needs confirmation.",
    "effects": "Effects once for ever, and effects in other databases.",
}

CLI_SETTINGS = frozenset({"WAKEBOARD_BOARD_NAMESPACE", "WAKEBOARD_DSN", "WAKEBOARD_ZONE", "WAKEBOARD_DEBUG"})
WARNS_ITSELF = "worker"  # it becomes another program, which reports unknown settings in its log

application = new_application()
add_commands(application, COMMANDS, GROUPS)


def _print_version(requested: bool) -> None:
    if requested:
        from wakeboard import __version__

        write_line(f"wakeboard {__version__}")
        raise typer.Exit


def _warn_of_unknown_settings() -> None:
    """Warns of WAKEBOARD_ variables that are not settings. The settings module is imported only if there may be one."""
    names = [name for name in os.environ if name.startswith("WAKEBOARD_") and name not in CLI_SETTINGS]
    if names:
        from wakeboard.settings import unknown_settings

        for sentence in unknown_settings(names):
            write_error("wakeboard", f"note: {sentence}")


@application.callback(
    epilog=examples(
        "wakeboard up examples/shop/  run a folder of schedules on this machine, with its own database",
        "wakeboard schedules          when schedules are due",
        "wakeboard runs               the newest runs",
        "wakeboard run 1042           one run in detail",
        "wakeboard explain 1042       why it does not run now",
        "wakeboard COMMAND --help     the help of a command",
    )
)
def root(
    context: typer.Context,
    dsn: Annotated[
        str,
        typer.Option(
            "--dsn",
            envvar="WAKEBOARD_DSN",
            metavar="DSN",
            help="The database: a Postgres URL or connection string. A standby (WAKEBOARD_READ_DSN) is that of"
            " WAKEBOARD_DSN, so it is not read with another --dsn.",
            show_envvar=True,
            show_default=False,
        ),
    ] = "",
    zone: Annotated[
        str,
        typer.Option(
            "--zone",
            envvar="WAKEBOARD_ZONE",
            metavar="ZONE",
            help="Time zone of times in the output, and of times without an offset in options: local or an IANA name."
            " JSON is always in UTC. After `next` it is the time zone of the cron expression.",
            show_envvar=True,
        ),
    ] = "UTC",
    version: Annotated[  # noqa: ARG001 - handled by its callback
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    """Run scheduled and background jobs. Cron wakes, Postgres decides.

    Schedules are YAML, and schedules and runs are stored in Postgres. Without a DSN, commands use the database of a
    `wakeboard up` of the current folder, or started in it, or else the one that libpq's PG* variables name. The
    options below can be written anywhere in the command.
    """
    if context.invoked_subcommand != WARNS_ITSELF:
        _warn_of_unknown_settings()
    set_dsn(dsn)
    source = context.get_parameter_source("zone")
    use_zone(zone, given_as="WAKEBOARD_ZONE=" if source and source.name == "ENVIRONMENT" else "--zone ")


root_command = typer.main.get_command(application)  # built once: that takes longer than many a command
