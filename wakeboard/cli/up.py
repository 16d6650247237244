"""The command that runs everything on one machine."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from wakeboard.cli.help_examples import examples
from wakeboard.cli.path_args import read_place
from wakeboard.cli.session import given_dsn

commands = typer.Typer()


@commands.command(
    "up",
    epilog=examples(
        "wakeboard up examples/",
        "wakeboard up examples/ --fresh          begin with an empty database",
        "wakeboard up examples/ --no-live | tee up.log",
    ),
)
def up(
    folder: Annotated[
        Path,
        typer.Argument(metavar="DIR", parser=read_place, help="A folder of JobSchedule YAML, and handlers beside it."),
    ],
    fresh: Annotated[bool, typer.Option("--fresh", help="Empty the database first.", show_default=False)] = False,
    no_live: Annotated[
        bool, typer.Option("--no-live", help="Plain lines also on a terminal.", show_default=False)
    ] = False,
) -> None:
    """Run a folder of schedules on this machine, until Ctrl-C.

    It starts a Postgres of its own in .wakeboard/ (or uses the database of --dsn), loads the folder and whatever
    changes in it, wakes a worker at once and then every minute, and shows what happens. Other commands typed in the
    same folder find its database by themselves. Settings for the workers may stand in DIR/wakeboard.env.
    """
    from wakeboard.local.up import UpOptions, run_up

    raise typer.Exit(run_up(UpOptions(folder=folder, dsn=given_dsn(), fresh=fresh, live=not no_live)))
