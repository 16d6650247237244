"""The typer application: what is true of all commands, and in which order they are listed."""

from __future__ import annotations

from typing import Annotated

import typer
from typer.core import TyperArgument

from wakeboard.cli import (
    apply,
    check,
    deciding,
    failures,
    looking,
    making,
    migrate,
    steering,
    up,
    worker,
)
from wakeboard.cli.help_examples import examples
from wakeboard.cli.session import use_dsn
from wakeboard.display_zone import use_zone
from wakeboard.output import write_line

application = typer.Typer(
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    no_args_is_help=True,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)
# Hides the Python type that typer writes beside an argument: the name of the argument is enough.
TyperArgument.display_type_rich = lambda self, ctx: None  # noqa: ARG005
for group in (up, apply, looking, failures, making, deciding, steering):
    application.add_typer(group.commands)
application.add_typer(steering.confirm_commands, name="confirm")
for group in (check, worker, migrate):
    application.add_typer(group.commands)
application.add_typer(migrate.effects_commands, name="effects")


def _show_version(asked: bool) -> None:
    if asked:
        from wakeboard import __version__

        write_line(f"wakeboard {__version__}")
        raise typer.Exit


@application.callback(
    epilog=examples(
        "wakeboard up examples/       run a folder of schedules on this machine, with a database of its own",
        "wakeboard schedules          when everything is due",
        "wakeboard runs               what happened",
        "wakeboard run 1042           why",
        "wakeboard COMMAND --help     more about one command",
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
            help="Show times in this zone, and read those without an offset: local or an IANA name. JSON stays in UTC."
            " After `next` it is the zone of a cron line.",
            show_envvar=True,
        ),
    ] = "UTC",
    version: Annotated[  # noqa: ARG001 - its callback answers
        bool, typer.Option("--version", callback=_show_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    """Cron wakes, the board decides: scheduled jobs from YAML, kept in Postgres, run by workers.

    Without a DSN the commands visit the database of a `wakeboard up` that runs in the current folder, or else what
    libpq's own PG* variables say. These options may stand anywhere on the line.
    """
    use_dsn(dsn)
    use_zone(zone)
