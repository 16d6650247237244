"""The handlers of measured workers. They report, in files that the environment names, when and how late they ran."""

from __future__ import annotations

import asyncio
import os
import time
from pathlib import Path
from typing import IO, Final

import wakeboard

FIRST: Final = "BENCH_FIRST"  # a path: the Unix time of the first handler call goes to PATH.<pid>
LATENESS: Final = "BENCH_LATENESS"  # a path: ms between payload["due"] and the handler's start go to PATH.<pid>
WAITS_S: Final = 0.010  # of the handler that waits


def _open(variable: str) -> IO[str] | None:
    path = os.environ.get(variable)
    return Path(f"{path}.{os.getpid()}").open("a", buffering=1, encoding="ascii") if path else None


_unreported = [file for file in [_open(FIRST)] if file]
_lateness = _open(LATENESS)


def _report(run: wakeboard.Run) -> None:
    began = time.time()
    due = run.payload.get("due")
    if _unreported:
        with _unreported.pop() as file:
            file.write(str(began))
    if _lateness and due is not None:
        _lateness.write(f"{(began - due) * 1000:.3f}\n")


@wakeboard.handler("noop")
async def noop(run: wakeboard.Run) -> None:
    """Nothing at all, but with its payload read."""
    _report(run)


@wakeboard.handler("noop_in_a_thread")
def noop_in_a_thread(run: wakeboard.Run) -> None:
    """The same in a plain function."""
    _report(run)


@wakeboard.handler("wait")
async def wait(run: wakeboard.Run) -> None:
    """Waits, as for a reply."""
    _report(run)
    await asyncio.sleep(WAITS_S)
