"""`kubectl wakeboard`: commands of the command line, through the board, with the user's kubeconfig and permissions.

kubectl runs the program `kubectl-wakeboard`. Commands, arguments and output are those of `wakeboard`. Only the session
differs: it asks the board's API through the API server, so it needs no database password, no `exec` and no forward
(docs/kubectl.md, docs/decisions/0035).
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any, Final

from wakeboard.cli.program import USAGE, Program, exit_code, run_program
from wakeboard.errors import InvalidValue
from wakeboard.process.output import write_error

if TYPE_CHECKING:
    from collections.abc import Sequence

PROGRAM: Final = "kubectl wakeboard"
COMMANDS: Final = (
    *("schedules", "schedule", "next", "runs", "run", "explain", "logs"),
    *("run-now", "retry", "cancel", "replay", "discard", "release", "backfill"),
)
OPTIONS = ("--namespace", "-n", "--context", "--kubeconfig", "--board-namespace", "--board", "--zone")
FLAGS = ("--all-namespaces", "-A", "--version")


def _load() -> Any:
    from wakeboard.cli.kubectl.app import root_command

    return root_command


PLUGIN = Program(PROGRAM, _load, OPTIONS, FLAGS, COMMANDS)


def main(argv: Sequence[str] | None = None) -> int:
    """Runs one command and returns its exit code. Errors are one sentence on standard error."""
    arguments = sys.argv[1:] if argv is None else argv
    try:
        words = as_typed_for_wakeboard(arguments)
    except InvalidValue as error:
        write_error("wakeboard", str(error))
        return USAGE
    return exit_code(lambda: run_program(PLUGIN, words))


def as_typed_for_wakeboard(arguments: Sequence[str]) -> list[str]:
    """The arguments with `--json` for `-o json`, and `-n billing` for `-nbilling`.

    Raises InvalidValue for another format of kubectl, which would need other libraries than this program has.
    """
    words: list[str] = []
    output: list[str] = []  # an option of commands, which kubectl takes anywhere
    rest = iter(arguments)
    for word in rest:
        name, _, value = word.partition("=")
        if word == "--":
            return [*words, *output, word, *rest]
        if word in {"-o", "--output"}:
            output += _output(next(rest, None))
        elif name in {"-o", "--output"} or (word.startswith("-o") and not word.startswith("--")):
            output += _output(value or word.removeprefix("-o"))
        elif word.startswith("-n") and len(word) > len("-n"):
            words += ["-n", word.removeprefix("-n").removeprefix("=")]
        else:
            words.append(word)
    return [*words, *output]


def _output(given: str | None) -> list[str]:
    if given is None or given == "wide":
        return ["--output", *([] if given is None else [given])]
    if given != "json":
        raise InvalidValue(f"-o {given[:40]} is no format here: write -o json, or -o wide of `{PROGRAM} runs`.")
    return ["--json"]


def complete(argv: Sequence[str] | None = None) -> int:
    """Prints how the last of the words after `kubectl wakeboard` may end, as kubectl reads it."""
    from wakeboard.cli.kubectl.completion import print_completions

    return exit_code(lambda: print_completions(PLUGIN, sys.argv[1:] if argv is None else argv))
