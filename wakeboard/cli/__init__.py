"""The command line. Start-up counts: nothing heavy is imported before a command needs it."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING

from wakeboard.errors import WakeboardError
from wakeboard.first_process import stand_in_front

if TYPE_CHECKING:
    from collections.abc import Sequence

FAILED = 1
USAGE = 2
INTERRUPTED = 130


def main(argv: Sequence[str] | None = None) -> int:
    """Runs one command and returns its exit code: 0, 1 with a sentence on standard error, 2 for wrong usage."""
    stand_in_front()  # `wakeboard migrate` may be a container's command
    arguments = dsn_first(list(sys.argv[1:] if argv is None else argv))
    try:
        try:
            return _run(arguments)
        finally:
            sys.stdout.flush()
    except BrokenPipeError:
        # The reader has seen enough. Whatever is still buffered must not fail again when Python exits.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return FAILED
    except KeyboardInterrupt:
        return INTERRUPTED


def _run(arguments: list[str]) -> int:
    from wakeboard.cli.application import application

    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="replace")  # pyright: ignore[reportAttributeAccessIssue, reportUnknownMemberType]
    try:
        application(args=arguments, prog_name="wakeboard")
    except SystemExit as exc:
        return exc.code if isinstance(exc.code, int) else FAILED if exc.code else 0
    except WakeboardError as exc:
        if os.environ.get("WAKEBOARD_DEBUG"):
            raise
        sys.stderr.write(f"wakeboard: {exc}\n")
        return FAILED
    return 0


def dsn_first(arguments: list[str]) -> list[str]:
    """`--dsn` may stand anywhere on the line; the parser wants it before the command."""
    for at, argument in enumerate(arguments):
        if argument == "--":
            break
        if argument == "--dsn" and at + 1 < len(arguments):
            return [*arguments[at : at + 2], *arguments[:at], *arguments[at + 2 :]]
        if argument.startswith("--dsn="):
            return [argument, *arguments[:at], *arguments[at + 1 :]]
    return arguments
