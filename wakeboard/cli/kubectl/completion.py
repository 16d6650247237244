"""The program `kubectl_complete-wakeboard`: completes what users type after `kubectl wakeboard`.

kubectl calls it with these words, of which the last may be unfinished or empty. It expects a completion a line, and
then a colon with what the shell shall not do.
"""

from __future__ import annotations

import os
import shlex
from itertools import pairwise
from typing import TYPE_CHECKING, Final

from typer._completion_classes import completion_init

from wakeboard.cli.kubectl.app import use_place
from wakeboard.cli.kubectl.place import DEFAULT_NAMESPACE, Place
from wakeboard.process.output import write_line

if TYPE_CHECKING:
    from collections.abc import Sequence

    from wakeboard.cli.program import Program

TIMEOUT_S: Final = 2.0  # of an answer, for which a shell waits
NO_FILES: Final = ":4"  # ShellCompDirectiveNoFileComp of cobra: the shell offers no names of files
VARIABLE: Final = "_KUBECTL_WAKEBOARD_COMPLETE"


def print_completions(program: Program, words: Sequence[str]) -> int:
    """Prints the completions of the last word."""
    split = [part for word in words for part in (word.split("=", 1) if word.startswith("--") else [word])]
    given = dict(pairwise(split))
    attached = [word[2:] for word in words if word.startswith("-n") and word != "-n"]
    use_place(
        Place(
            context=given.get("--context", ""),
            kubeconfig=given.get("--kubeconfig", ""),
            board_namespace=given.get(
                "--board-namespace", os.environ.get("WAKEBOARD_BOARD_NAMESPACE") or DEFAULT_NAMESPACE
            ),
            board=given.get("--board", ""),
            namespace=attached[-1] if attached else given.get("-n", given.get("--namespace")),
            timeout_s=TIMEOUT_S,
            all_namespaces=bool({"-A", "--all-namespaces"} & {*words}),
        )
    )
    os.environ |= {
        VARIABLE: "complete_bash",
        "COMP_WORDS": shlex.join(["wakeboard", *words]),
        "COMP_CWORD": str(max(len(words), 1)),
    }
    completion_init()
    try:
        program.load().main(args=[], prog_name=program.name, complete_var=VARIABLE)
    except SystemExit:
        write_line(NO_FILES)
    return 0
