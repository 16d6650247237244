"""The coroutines that measured workers run."""

from __future__ import annotations

import asyncio
from typing import Final

import wakeboard
from bench.handler_reports import report

WAITS_S: Final = 0.010  # of the handler that waits


@wakeboard.handler("noop")
async def noop(run: wakeboard.Run) -> None:
    """Nothing at all, but with its payload read."""
    report(run)


@wakeboard.handler("wait")
async def wait(run: wakeboard.Run) -> None:
    """Waits, as for a reply."""
    report(run)
    await asyncio.sleep(WAITS_S)
