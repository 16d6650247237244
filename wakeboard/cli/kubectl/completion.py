"""The program `kubectl_complete-wakeboard`: completes what users type after `kubectl wakeboard`.

kubectl calls it with these words, of which the last may be unfinished or empty. It expects a completion a line, and
then a colon with what the shell shall not do.
"""

from __future__ import annotations

import os
import shlex
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from typer._completion_classes import completion_init
from typer.exceptions import TyperException

from wakeboard.cli.kubectl import as_typed_for_wakeboard
from wakeboard.cli.kubectl.app import place_of, use_place
from wakeboard.cli.program import global_options_first
from wakeboard.errors import InvalidValue
from wakeboard.process.output import write_line

if TYPE_CHECKING:
    from collections.abc import Sequence

    from wakeboard.cli.program import Program

TIMEOUT_S: Final = 2.0  # of an answer, for which a shell waits
NO_FILES: Final = ":4"  # ShellCompDirectiveNoFileComp of cobra: the shell offers no names of files
VARIABLE: Final = "_KUBECTL_WAKEBOARD_COMPLETE"


def print_completions(program: Program, words: Sequence[str]) -> int:
    """Prints the completions of the last word."""
    *before, last = words or [""]
    try:
        typed = global_options_first(program, as_typed_for_wakeboard(before))
        root_command = program.load()
        context = root_command.make_context(program.name, [*typed], resilient_parsing=True)
    except (InvalidValue, TyperException):  # the last word is the value of an option, or no command takes these words
        write_line(NO_FILES)
        return 0
    use_place(replace(place_of(context.params), timeout_s=TIMEOUT_S, may_ask=False))
    os.environ |= {
        VARIABLE: "complete_bash",
        "COMP_WORDS": shlex.join(["wakeboard", *typed, last]),
        "COMP_CWORD": str(len(typed) + 1),
    }
    completion_init()
    try:
        root_command.main(args=[], prog_name=program.name, complete_var=VARIABLE)
    except SystemExit:
        write_line(NO_FILES)
    return 0
