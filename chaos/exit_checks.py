"""Checks how each process of a campaign ended: killed, terminated, finished, or in a way in which none should end."""

from __future__ import annotations

import re
import signal
from typing import TYPE_CHECKING, Final

from chaos.results import Violation

if TYPE_CHECKING:
    from collections.abc import Sequence

    from chaos.processes import Exit
    from chaos.results import Result

# The messages with which a worker may end by itself, with code 1.
ALLOWED_MESSAGES: Final = re.compile(
    r"occupy half of the slots|blocked the event loop|MemoryError|can't start new thread"
)
ALLOWED_OF_A_WAKE: Final = re.compile(  # which retries for ten seconds only
    r"cannot connect to|the connection to the database was lost|the database cannot do this now"
)
PYTHON_ABORTS: Final = "Cannot recover from MemoryErrors"
OTHER_RELEASE: Final = "other"
WRONG: Final = "ended as none should"


def check_exits(exits: Sequence[Exit], result: Result) -> list[Violation]:
    """The exits that are not allowed. Counts all of them, and the exceptions in their output."""
    found: list[Violation] = []
    for one in exits:
        kind = _classify(one)
        result.counts[f"processes that {kind}"] += 1
        if kind == WRONG:
            detail = f"{one.name} ({one.command}) ended with {one.code}: {one.output.strip()[-1500:]}"
            found.append(Violation("other", "a process ends only as it should", detail))
        whole_lines = one.output.partition("\n")[2]
        for line in re.findall(r"^(?:\w+\.)*\w*(?:Error|Exception|Interrupt)\b[^\n]{0,150}", whole_lines, re.MULTILINE):
            result.log_lines[line] += 1
    return found


def _classify(one: Exit) -> str:
    if one.name.startswith(OTHER_RELEASE):
        return "were of another release"  # which may have had other reasons to end
    if one.code == -signal.SIGKILL:
        return "were killed"
    if one.signalled and one.code in {0, -signal.SIGTERM}:
        return "were terminated"
    runs_forever = "--forever" in one.command or "maintenance" in one.command
    if one.code == 0 and not runs_forever:
        return "finished"
    allowed = ALLOWED_MESSAGES.search(one.output) or (not runs_forever and ALLOWED_OF_A_WAKE.search(one.output))
    if (one.code == 1 and allowed) or (one.code == -signal.SIGABRT and PYTHON_ABORTS in one.output):
        return "gave a reason and ended"
    return WRONG
