"""`kubectl wakeboard`: commands of the command line, through the board, with the user's kubeconfig and permissions.

kubectl runs the program `kubectl-wakeboard`. Commands, arguments and output are those of `wakeboard`. Only the session
differs: it asks the board's API through the API server, so it needs no database password, no `exec` and no forward
(docs/kubectl.md, docs/decisions/0035).
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

from wakeboard.cli.program import Program, exit_code, run_program

if TYPE_CHECKING:
    from collections.abc import Sequence

OPTIONS = ("--namespace", "-n", "--context", "--kubeconfig", "--board-namespace", "--board", "--zone")
FLAGS = ("--all-namespaces", "-A", "--version")


def _load() -> Any:
    from wakeboard.cli.kubectl.app import root_command

    return root_command


PLUGIN = Program("kubectl wakeboard", _load, OPTIONS, FLAGS)


def main(argv: Sequence[str] | None = None) -> int:
    """Runs one command and returns its exit code. Errors are one sentence on standard error."""
    arguments = as_typed_for_wakeboard(sys.argv[1:] if argv is None else argv)
    return exit_code(lambda: run_program(PLUGIN, arguments))


def as_typed_for_wakeboard(arguments: Sequence[str]) -> list[str]:
    """The arguments with `--json` for `-o json`, and `-n billing` for `-nbilling`."""
    words: list[str] = []
    for word in arguments:
        if word in {"-ojson", "-o=json", "--output=json"}:
            words.append("--json")
        elif word == "json" and words[-1:] in (["-o"], ["--output"]):
            words[-1] = "--json"
        elif word.startswith("-n") and len(word) > len("-n"):
            words += ["-n", word.removeprefix("-n").removeprefix("=")]
        else:
            words.append(word)
    return words


def complete(argv: Sequence[str] | None = None) -> int:
    """Prints how the last of the words after `kubectl wakeboard` may end, as kubectl reads it."""
    from wakeboard.cli.kubectl.completion import print_completions

    return exit_code(lambda: print_completions(PLUGIN, sys.argv[1:] if argv is None else argv))
