"""How the processes of the cast ended: killed, asked, done, or in a way that a worker should not."""

from __future__ import annotations

import re
import signal
from typing import TYPE_CHECKING, Final

from chaos.results import Violation

if TYPE_CHECKING:
    from collections.abc import Sequence

    from chaos.processes import Ended
    from chaos.results import Result

# Why a worker may end with 1 by itself, in its own words.
ANYONE_MAY_SAY: Final = re.compile(
    r"half of the places are lost|blocked the event loop|MemoryError|can't start new thread"
)
PYTHON_MAY_SAY: Final = "Cannot recover from MemoryErrors"  # and abort
OTHER_RELEASE: Final = "other"
A_WAKE_MAY_SAY: Final = re.compile(
    r"cannot connect to|the connection to the database was lost|the database cannot do this now"  # for ten seconds
)


def judge_endings(endings: Sequence[Ended], result: Result) -> list[Violation]:
    """The endings that should not be; counts all of them."""
    found: list[Violation] = []
    for ended in endings:
        word = _word(ended)
        result.counts[f"processes that {word}"] += 1
        if word == "ended as they should not":
            said = ended.said.strip()[-1500:]
            detail = f"{ended.actor} ({ended.mode}) ended with {ended.code}: {said}"
            found.append(Violation("other", "a process of the cast ends only as it should", detail))
        whole_lines = ended.said.partition("\n")[2]
        for line in re.findall(r"^(?:\w+\.)*\w*(?:Error|Exception|Interrupt)\b[^\n]{0,150}", whole_lines, re.MULTILINE):
            result.remarks[line] += 1
    return found


def _word(ended: Ended) -> str:
    if ended.actor.startswith(OTHER_RELEASE):
        return "were of another release"  # which may have had its own ways to end
    if ended.code == -signal.SIGKILL:
        return "were killed"
    if ended.asked and ended.code in {0, -signal.SIGTERM}:
        return "were asked to go"
    stays = "--forever" in ended.mode or "duties" in ended.mode
    if ended.code == 0 and not stays:
        return "were done"
    because = ANYONE_MAY_SAY.search(ended.said) or (not stays and A_WAKE_MAY_SAY.search(ended.said))
    if (ended.code == 1 and because) or (ended.code == -signal.SIGABRT and PYTHON_MAY_SAY in ended.said):
        return "said why and went"
    return "ended as they should not"
