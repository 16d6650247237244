"""The command `wakeboard up`: runs a folder of schedules on this machine."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from wakeboard.cli.support.options import read_path
from wakeboard.cli.support.session import explicit_dsn

EXAMPLES = (
    "wakeboard up examples/shop/",
    "wakeboard up examples/shop/ --fresh          start with an empty database",
    "wakeboard up examples/shop/ | tee up.log",
)


def command(
    folder: Annotated[
        Path,
        typer.Argument(metavar="DIR", parser=read_path, help="A folder of JobSchedule YAML, and a handlers.py."),
    ],
    fresh: Annotated[bool, typer.Option("--fresh", help="Empty the database first.", show_default=False)] = False,
    board_port: Annotated[
        int,
        typer.Option(
            "--board-port",
            metavar="PORT",
            envvar="WAKEBOARD_BOARD_PORT",
            show_envvar=False,
            help="The port of the web board; 0: any free one. Another one is taken if it is in use.",
            min=0,
            max=65535,
        ),
    ] = 8686,
    no_board: Annotated[bool, typer.Option("--no-board", help="Serve no web board.", show_default=False)] = False,
) -> None:
    """Run a folder of schedules on this machine until Ctrl-C.

    The command starts a Postgres server in DIR/.wakeboard/ (or uses the database of --dsn), applies the folder and its
    changes, wakes a worker now and every minute, and shows what happens. It also serves the web board and prints its
    address. Other commands in DIR and in the current folder find the database; its connection string is in
    .wakeboard/up.json of both. Settings for the workers can be in DIR/wakeboard.env. Here a lease is 8 s, the grace
    period 5 s, and any timeout is allowed, unless they say otherwise.
    """
    from wakeboard.local.up import UpOptions, run_up

    options = UpOptions(
        folder=folder,
        dsn=explicit_dsn(),
        fresh=fresh,
        board_port=None if no_board else board_port,
    )
    raise typer.Exit(run_up(options))
