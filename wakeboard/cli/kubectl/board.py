"""The command `kubectl wakeboard board`: opens the board in a browser, through a forward that ends with it."""

from __future__ import annotations

import re
import subprocess
import webbrowser
from contextlib import suppress
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from wakeboard.cli.support.kubectl import kubectl_options
from wakeboard.cli.support.output import print_error, print_message
from wakeboard.cli.support.program_output import ProgramFailed, program_output
from wakeboard.errors import WakeboardError
from wakeboard.text.sanitize import one_line

if TYPE_CHECKING:
    from collections.abc import Sequence

    from wakeboard.cli.kubectl.place import Place

TIMEOUT_S: Final = 60
STOP_S: Final = 5
CONTAINER_PORT: Final = 8686
HOST: Final = "wakeboard.localhost"  # this machine; cookies for it go to no other program
_FORWARDING: Final = re.compile(r"Forwarding from 127\.0\.0\.1:(\d+) ")
_SHOWN: Final = 300  # characters of kubectl's error

EXAMPLES = ("kubectl wakeboard board", "kubectl wakeboard board --no-open --port 8686")


def command(
    context: typer.Context,
    port: Annotated[
        int, typer.Option("--port", metavar="PORT", min=0, max=65535, help="The port here; 0: any free one.")
    ] = 0,
    opens: Annotated[bool, typer.Option("--open/--no-open", help="Open a browser.")] = True,
) -> None:
    """Open the web board in a browser, until Ctrl-C.

    It runs `kubectl port-forward`, which needs `create pods/portforward` and `list deployments` in the board's
    namespace. The board asks for a login if it has one.
    """
    place: Place = context.obj
    kubectl = ["kubectl", *_options(place)]
    words = [*kubectl, "port-forward", _deployment(kubectl, place), f"{port or ''}:{CONTAINER_PORT}"]
    with subprocess.Popen(
        words, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as forward:
        try:
            address = f"http://{HOST}:{_local_port(forward)}/"
            print_message(f"the board is at {address} until Ctrl-C.")
            if opens and not webbrowser.open(address):
                print_error("there is no browser here: open the address yourself.")
            code = forward.wait()
        finally:
            _stop(forward)
    raise WakeboardError(f"the forward to the board ended (exit code {code}): its pod may be gone. Start it again.")


def _options(place: Place) -> list[str]:
    return [
        *kubectl_options(context=place.context, kubeconfig=place.kubeconfig),
        f"--namespace={place.board_namespace}",
    ]


def _deployment(kubectl: Sequence[str], place: Place) -> str:
    """The Deployment of the board, or the Service that --board names."""
    if place.board:
        return f"service/{place.board.partition(':')[0]}"
    from wakeboard.cli.kubectl.board_api import LABELS

    words = [
        *kubectl,
        "get",
        "deployments.apps",
        f"--selector={LABELS}",
        "--output=name",
        f"--request-timeout={TIMEOUT_S}s",
    ]
    try:
        names = program_output(words, "kubectl", timeout_s=2 * TIMEOUT_S).decode(errors="replace").split()
    except ProgramFailed as failed:
        raise WakeboardError(f"the board was not found: {failed.said}") from None
    if len(names) != 1:
        found = f"there are {len(names)} boards" if names else "there is no board"
        raise WakeboardError(
            f"{found} in the namespace {place.board_namespace}: choose with --board-namespace or --board."
        )
    return names[0]


def _local_port(forward: subprocess.Popen[str]) -> int:
    """The port that kubectl listens on. Raises WakeboardError with what it says if it does not."""
    for line in forward.stdout or ():
        if found := _FORWARDING.match(line):
            return int(found[1])
    said: Any = forward.stderr.read() if forward.stderr else ""
    raise WakeboardError(f"kubectl port-forward failed: {one_line(said)[:_SHOWN]}")


def _stop(forward: subprocess.Popen[str]) -> None:
    if forward.poll() is None:
        forward.terminate()
        with suppress(subprocess.TimeoutExpired):
            forward.wait(STOP_S)
    if forward.poll() is None:
        forward.kill()
