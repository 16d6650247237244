"""A handler that waits, as for a reply."""

from __future__ import annotations

import asyncio

import wakeboard
from bench.progress import WAITS_S, tell_first


@wakeboard.handler("noop")
async def noop(run: wakeboard.Run) -> None:
    """Ten milliseconds."""
    run.payload.get("due")
    tell_first()
    await asyncio.sleep(WAITS_S)
