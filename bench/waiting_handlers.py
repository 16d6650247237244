"""A handler that waits, as for a reply."""

from __future__ import annotations

import asyncio

import wakeboard
from bench.handler_reports import WAITS_S, report_first


@wakeboard.handler("noop")
async def noop(run: wakeboard.Run) -> None:
    """Ten milliseconds."""
    run.payload.get("due")
    report_first()
    await asyncio.sleep(WAITS_S)
