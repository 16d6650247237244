"""The typer application of `kubectl wakeboard`: its commands, its global options, and the session that they choose."""

from __future__ import annotations

from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Annotated, Any

import typer

from wakeboard.cli.kubectl import COMMANDS, PROGRAM, board, check
from wakeboard.cli.kubectl.place import DEFAULT_NAMESPACE, Place
from wakeboard.cli.support.session import CommandSession, use_sessions
from wakeboard.cli.typer_application import add_commands, examples, new_application
from wakeboard.process.display_zone import in_zone, use_zone
from wakeboard.process.output import write_line

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Mapping

application = new_application(completes=False)  # kubectl completes
add_commands(application, COMMANDS, program=PROGRAM)
application.command("board", epilog=examples(*board.EXAMPLES))(board.command)
application.command("check", epilog=examples(*check.EXAMPLES))(check.command)


def use_place(place: Place) -> None:
    """Makes commands talk to this board."""
    use_sessions(lambda: _session(place))


def place_of(given: Mapping[str, Any]) -> Place:
    """What the global options choose, by the names of the parameters of `root`."""
    return Place(
        context=given["kube_context"],
        kubeconfig=given["kubeconfig"],
        board_namespace=given["board_namespace"],
        board=given["service"],
        namespace=given["namespace"],
        all_namespaces=given["all_namespaces"],
    )


@asynccontextmanager
async def _session(place: Place) -> AsyncGenerator[CommandSession]:
    from wakeboard.cli.kubectl.api_connection import ApiConnection
    from wakeboard.cli.kubectl.board_actions import BoardActions
    from wakeboard.cli.kubectl.board_api import BoardApi, find_board
    from wakeboard.cli.kubectl.board_reads import BoardReads
    from wakeboard.cli.kubectl.kubeconfig import read_login

    login = read_login(place)
    connection = ApiConnection(login, place.timeout_s)
    try:
        service = place.board or find_board(connection, place.board_namespace)
        api = BoardApi(connection, place.board_namespace, service)
        reads = BoardReads(api, None if place.all_namespaces else place.namespace or login.namespace)
        yield CommandSession(BoardActions(api), reads, in_zone(api.now))
    finally:
        connection.close()


def _print_version(context: typer.Context, requested: bool) -> None:
    if requested and not context.resilient_parsing:
        from wakeboard import __version__

        write_line(f"{PROGRAM} {__version__}")
        raise typer.Exit


@application.callback(
    epilog=examples(
        f"{PROGRAM} schedules            when the schedules of the context's namespace are due",
        f"{PROGRAM} runs -A status:dead  the dead runs of all namespaces that you may see",
        f"{PROGRAM} logs 1042 -f         what a run logs",
        f"{PROGRAM} COMMAND --help       the help of a command",
    )
)
def root(
    context: typer.Context,
    namespace: Annotated[  # noqa: ARG001 - `place_of` reads these
        str | None, typer.Option("--namespace", "-n", metavar="NAME", help="Only schedules and runs of this namespace.")
    ] = None,
    all_namespaces: Annotated[  # noqa: ARG001
        bool, typer.Option("--all-namespaces", "-A", help="All namespaces that you may see.", show_default=False)
    ] = False,
    kube_context: Annotated[  # noqa: ARG001
        str, typer.Option("--context", metavar="NAME", help="The context of the kubeconfig.", show_default=False)
    ] = "",
    kubeconfig: Annotated[  # noqa: ARG001
        str, typer.Option("--kubeconfig", metavar="FILE", help="The kubeconfig.", show_default=False)
    ] = "",
    board_namespace: Annotated[  # noqa: ARG001
        str,
        typer.Option(
            "--board-namespace",
            envvar="WAKEBOARD_BOARD_NAMESPACE",
            metavar="NAME",
            help="Where the board runs. Your token is sent to the board there.",
            show_envvar=True,
        ),
    ] = DEFAULT_NAMESPACE,
    service: Annotated[  # noqa: ARG001
        str,
        typer.Option(
            "--board", metavar="SERVICE", help="The board's Service, if there are several.", show_default=False
        ),
    ] = "",
    zone: Annotated[
        str,
        typer.Option(
            "--zone",
            envvar="WAKEBOARD_ZONE",
            metavar="ZONE",
            help="Time zone of times in the output, and of times without an offset in options: local or an IANA name.",
            show_envvar=True,
        ),
    ] = "UTC",
    version: Annotated[  # noqa: ARG001 - handled by its callback
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    """Schedules and runs of wakeboard, with your kubeconfig and your permissions.

    Commands ask the board through the API server. They show the namespace of the context, another one with -n, and all
    with -A; runs without a schedule belong to no namespace. `-o json` prints JSON, as --json does. The options below
    can be written anywhere in the command.
    """
    use_zone(zone)
    context.obj = place_of(context.params)
    use_place(context.obj)


def _without_n(command: Any) -> None:
    """Takes -n away from options of a command, because it is a namespace for users of kubectl."""
    for param in command.params:
        param.opts = [option for option in param.opts if option != "-n"]


root_command = typer.main.get_command(application)
for each in root_command.commands.values():  # type: ignore[attr-defined]
    _without_n(each)
