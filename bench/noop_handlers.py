"""What the measured workers run: nothing. They tell when the first run began, and how late each was if asked to."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import IO

import wakeboard
from bench.progress import LATENESS, tell_first


def _open_lateness() -> IO[str] | None:
    place = os.environ.get(LATENESS)
    return Path(f"{place}.{os.getpid()}").open("a", buffering=1, encoding="ascii") if place else None


_lateness = _open_lateness()


@wakeboard.handler("noop")
async def noop(run: wakeboard.Run) -> None:
    """Nothing at all, but with its payload read."""
    began = time.time()
    due = run.payload.get("due")
    tell_first()
    if _lateness and due is not None:
        _lateness.write(f"{(began - due) * 1000:.3f}\n")
