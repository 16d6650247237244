"""What the measured workers run: nothing. They tell when the first run began, and how late each was if asked to."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import IO, TYPE_CHECKING

import wakeboard

if TYPE_CHECKING:
    from collections.abc import Callable

FIRST = "BENCH_FIRST"  # a path: the Unix time of the first handler call goes to PATH.<pid>
LATENESS = "BENCH_LATENESS"  # a path: ms between payload["due"] and the handler's start go to PATH.<pid>, one per line


def _told_first() -> Callable[[], None]:
    place = os.environ.get(FIRST)

    def tell() -> None:
        nonlocal place
        if place:
            Path(f"{place}.{os.getpid()}").write_text(str(time.time()), encoding="ascii")
            place = None

    return tell


def _open_lateness() -> IO[str] | None:
    place = os.environ.get(LATENESS)
    return Path(f"{place}.{os.getpid()}").open("a", buffering=1, encoding="ascii") if place else None


_tell_first = _told_first()
_lateness = _open_lateness()


@wakeboard.handler("noop")
async def noop(run: wakeboard.Run) -> None:
    """Nothing at all, but with its payload read."""
    began = time.time()
    due = run.payload.get("due")
    _tell_first()
    if _lateness and due is not None:
        _lateness.write(f"{(began - due) * 1000:.3f}\n")
