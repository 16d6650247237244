"""What the handlers of measured workers report, in files that the environment names: when and how late they ran."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import IO, TYPE_CHECKING, Final

if TYPE_CHECKING:
    import wakeboard

FIRST: Final = "BENCH_FIRST"  # a path: the Unix time of the first handler call goes to PATH.<pid>
LATENESS: Final = "BENCH_LATENESS"  # a path: ms between payload["due"] and the handler's start go to PATH.<pid>


def _open(variable: str) -> IO[str] | None:
    path = os.environ.get(variable)
    return Path(f"{path}.{os.getpid()}").open("a", buffering=1, encoding="ascii") if path else None


_unreported = [file for file in [_open(FIRST)] if file]
_lateness = _open(LATENESS)


def report(run: wakeboard.Run) -> None:
    """Reports the process's first call, and how late this one is, where the environment asks for it."""
    began = time.time()
    due = run.payload.get("due")
    if _unreported:
        with _unreported.pop() as file:
            file.write(str(began))
    if _lateness and due is not None:
        _lateness.write(f"{(began - due) * 1000:.3f}\n")
