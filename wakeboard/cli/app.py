"""The typer application: the order of the commands, the help of `wakeboard`, and its global options."""

from __future__ import annotations

from typing import Annotated

import typer
from typer.core import TyperArgument

from wakeboard.cli.commands import (
    apply,
    cancel,
    check,
    confirm,
    discard,
    effects,
    enqueue,
    failures,
    limit,
    migrate,
    next,  # noqa: A004 - the name of the command
    pause,
    replay,
    resume,
    retry,
    run,
    run_now,
    runs,
    schedules,
    up,
    version,
    worker,
)
from wakeboard.cli.support.options import examples
from wakeboard.cli.support.session import set_dsn
from wakeboard.display_zone import use_zone
from wakeboard.output import write_line

application = typer.Typer(
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    no_args_is_help=True,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)
# Without this, typer shows the Python type of an argument after its name.
TyperArgument.display_type_rich = lambda self, ctx: None  # noqa: ARG005
for module in (up, apply, schedules, next, runs, run, failures, enqueue, run_now, retry, cancel, replay, discard):
    application.add_typer(module.commands)
for module in (pause, resume, limit):
    application.add_typer(module.commands)
application.add_typer(confirm.commands, name="confirm")
for module in (check, worker, migrate, version):
    application.add_typer(module.commands)
application.add_typer(effects.commands, name="effects")


def _print_version(requested: bool) -> None:
    if requested:
        from wakeboard import __version__

        write_line(f"wakeboard {__version__}")
        raise typer.Exit


@application.callback(
    epilog=examples(
        "wakeboard up examples/       run a folder of schedules on this machine, with its own database",
        "wakeboard schedules          when schedules are due",
        "wakeboard runs               the newest runs",
        "wakeboard run 1042           one run in detail",
        "wakeboard COMMAND --help     the help of a command",
    )
)
def root(
    dsn: Annotated[
        str,
        typer.Option(
            "--dsn",
            envvar="WAKEBOARD_DSN",
            metavar="DSN",
            help="The database: a Postgres URL or connection string.",
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
    """Run scheduled and background jobs. Cron wakes, the board decides.

    Schedules are YAML, and schedules and runs are stored in Postgres. Without a DSN, commands use the database of a
    `wakeboard up` that runs in the current folder, or else the one that libpq's PG* variables name. The options below
    can be written anywhere in the command.
    """
    set_dsn(dsn)
    use_zone(zone)
