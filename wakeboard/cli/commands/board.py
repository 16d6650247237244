"""The command `wakeboard board`: serves the web board."""

from __future__ import annotations

import asyncio
from typing import Annotated

import typer

from wakeboard.cli.support import board_probe
from wakeboard.cli.support.board_probe import configured_port
from wakeboard.cli.support.session import database_dsn, with_database
from wakeboard.errors import InvalidValue, WakeboardError
from wakeboard.process.logging_setup import configure_logging
from wakeboard.process.output import write_line

EXAMPLES = (
    "wakeboard board                       for the database of --dsn, or of `wakeboard up`",
    "wakeboard board --port 9000",
    "wakeboard board --new-token anna --role operator",
    "wakeboard board --probe               whether it answers, for a health check of a container",
)
QUIET = ("aiohttp", "asyncio", "psycopg")  # libraries of which only warnings and errors are logged


def command(
    port: Annotated[
        int | None,
        typer.Option(
            "--port",
            metavar="PORT",
            envvar="WAKEBOARD_BOARD_PORT",
            show_envvar=False,
            help="The port to listen on (8686); 0: any free one.",
            min=0,
            max=65535,
        ),
    ] = None,
    bind: Annotated[
        str | None,
        typer.Option("--bind", metavar="ADDRESS", help="The address to listen on (127.0.0.1). Others need a login."),
    ] = None,
    new_token: Annotated[
        str | None,
        typer.Option(
            "--new-token", metavar="NAME", help="Print a new token and its line for the token file, and exit."
        ),
    ] = None,
    role: Annotated[
        str, typer.Option("--role", metavar="ROLE", help="The role of a new token: viewer or operator.")
    ] = "viewer",
    skip_check: Annotated[
        bool,
        typer.Option(
            "--skip-check", help="Start even if the database does not answer. Pages then say what is wrong with it."
        ),
    ] = False,
    probe: Annotated[
        bool,
        typer.Option("--probe", help="Exit with 0 if a board on this machine answers at the port, otherwise with 1."),
    ] = False,
) -> None:
    """Serve the web board until Ctrl-C.

    The pages show schedules, runs and problems, and let you retry, cancel, replay and pause. The printed address
    contains a token, which allows everything; its browser keeps it. docs/board.md describes other logins;
    docs/settings.md lists all settings.
    """
    if probe:
        board_probe.probe(configured_port() if port is None else port)
        return
    try:
        from wakeboard.board.server import BoardServer, listening_socket
        from wakeboard.board.settings import board_options, read_board_settings
    except ModuleNotFoundError as exc:
        raise WakeboardError(
            f"the board needs more packages ({exc.name} is missing): pip install 'wakeboard[board]'"
        ) from exc

    if new_token is not None:
        _print_token(new_token, role)
        return
    settings = read_board_settings(board_port=port, board_bind=bind)
    configure_logging(settings, quiet=QUIET)
    options = board_options(settings, database_dsn())

    async def check(_: object) -> None:
        """Connects once, so that a wrong DSN is an error here and not on a page."""

    if not skip_check:
        with_database(check)
    server = BoardServer(options, listening_socket(settings.board_bind, settings.board_port))
    write_line(f"The board is at {server.login_address} (Ctrl-C stops it)")
    asyncio.run(server.run_until_stopped())


def _print_token(name: str, role: str) -> None:
    from wakeboard.board.access.tokens import check_token_name, digest_of, new_token

    if role not in {"viewer", "operator"}:
        raise typer.BadParameter("write viewer or operator", param_hint="--role")
    try:
        check_token_name(name)
    except InvalidValue as exc:
        raise typer.BadParameter(str(exc), param_hint="--new-token") from exc
    token = new_token()
    write_line(f"Token (give it to {name}; it is not stored anywhere): {token}")
    write_line(f"Line for the file of WAKEBOARD_BOARD_TOKENS_FILE:      {name} {role} {digest_of(token)}")
