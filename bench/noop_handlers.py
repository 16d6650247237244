"""A handler that does nothing. It reports when the first run began and, with BENCH_LATENESS, how late each run was."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import IO

import wakeboard
from bench.handler_reports import LATENESS, report_first


def _open_lateness() -> IO[str] | None:
    path = os.environ.get(LATENESS)
    return Path(f"{path}.{os.getpid()}").open("a", buffering=1, encoding="ascii") if path else None


_lateness = _open_lateness()


@wakeboard.handler("noop")
async def noop(run: wakeboard.Run) -> None:
    """Nothing at all, but with its payload read."""
    began = time.time()
    due = run.payload.get("due")
    report_first()
    if _lateness and due is not None:
        _lateness.write(f"{(began - due) * 1000:.3f}\n")
