"""The command line: the entry point `main`. Each command is a module in `commands/`.

Modules that are slow to import (psycopg, pydantic, rich) are imported when a command needs them.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

from wakeboard.cli.program import FAILED, Program, exit_code, run_program
from wakeboard.errors import WakeboardError
from wakeboard.process.output import write_error
from wakeboard.process.pid1 import fork_if_pid1

if TYPE_CHECKING:
    from collections.abc import Sequence

BOARD_PROBE = ["board", "--probe"]


def _load() -> Any:
    from wakeboard.cli.app import root_command

    return root_command


WAKEBOARD = Program("wakeboard", _load, ("--dsn", "--zone"))


def main(argv: Sequence[str] | None = None) -> int:
    """Runs one command and returns its exit code. Errors are one sentence on standard error."""
    fork_if_pid1()  # `wakeboard migrate` may be a container's command
    arguments = sys.argv[1:] if argv is None else argv
    return exit_code(lambda: _probe() if list(arguments) == BOARD_PROBE else run_program(WAKEBOARD, arguments))


def _probe() -> int:
    """The health check of a pod, without the imports of the other commands."""
    from wakeboard.cli.support.board_probe import configured_port, probe

    try:
        probe(configured_port())
    except WakeboardError as exc:
        write_error("wakeboard", str(exc))
        return FAILED
    return 0
