"""The command `wakeboard board`: serves the web board."""

from __future__ import annotations

import asyncio
from typing import Annotated

import typer

from wakeboard.cli.support.session import database_dsn, with_session
from wakeboard.errors import WakeboardError
from wakeboard.output import write_line

EXAMPLES = (
    "wakeboard board                       for the database of --dsn, or of `wakeboard up`",
    "wakeboard board --port 9000",
)


def command(
    port: Annotated[
        int, typer.Option("--port", help="The port to listen on; 0: any free one.", min=0, max=65535)
    ] = 8686,
) -> None:
    """Serve the web board on 127.0.0.1 until Ctrl-C.

    The pages show schedules, runs and problems, and let you retry, cancel, replay and pause. Only this machine can
    reach them, and nobody logs in.
    """
    try:
        from wakeboard.board import BoardOptions
        from wakeboard.board.server import BoardServer, listening_socket
    except ModuleNotFoundError as exc:
        raise WakeboardError(
            f"the board needs more packages ({exc.name} is missing): pip install 'wakeboard[board]'"
        ) from exc

    dsn = database_dsn()

    async def check(_: object) -> None:
        """Connects once, so that a wrong DSN is an error here and not on a page."""

    with_session(check)
    server = BoardServer(BoardOptions(dsn=dsn), listening_socket("127.0.0.1", port))
    write_line(f"The board is at {server.address} (Ctrl-C stops it)")
    asyncio.run(server.run_until_stopped())
