"""The command `wakeboard effects install`: creates the effects table in the database of an application."""

from __future__ import annotations

import asyncio
from typing import Annotated

import typer

from wakeboard.cli.support.options import AsJson
from wakeboard.cli.support.output import print_answer

EXAMPLES = (
    "wakeboard effects install postgresql://owner@shop-db/shop",
    "wakeboard effects install postgresql://owner@shop-db/shop --role shop_app",
)


def command(
    target: Annotated[
        str,
        typer.Argument(
            metavar="DSN",
            envvar="WAKEBOARD_EFFECTS_DSN",
            help="The application's database. If the DSN has a password, use the environment variable: other users of"
            " this machine can read command lines.",
            show_envvar=True,
            show_default=False,
        ),
    ],
    role: Annotated[
        str | None, typer.Option(metavar="ROLE", help="The application's role in that database, if not the owner.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Create the effects table in an application's database.

    `run.once(conn, key)` needs it if the application uses another database than wakeboard. It records one effect per
    run and key, in the application's transaction. The command can be repeated.
    """
    from wakeboard.engine.effects import install_effects_table
    from wakeboard.store.connection import describe_dsn

    asyncio.run(install_effects_table(target, role))
    where = describe_dsn(target)
    print_answer({"installed": where}, f"the effects table is installed in {where}.", as_json=as_json)
