"""Handlers that request an outcome, or return a result, in a way that the worker cannot foresee."""

from __future__ import annotations

import asyncio

import wakeboard
from tests.worker.odd_outcomes import ODD, OddDate


def _end(run: wakeboard.Run) -> object:
    what = run.payload["what"]
    if what in ODD:
        error = ODD[what]()
        raise error
    return OddDate(2026, 1, 2)


@wakeboard.handler("at-once")
async def at_once(run: wakeboard.Run) -> object:
    """Ends in its first step."""
    return _end(run)


@wakeboard.handler("later")
async def later(run: wakeboard.Run) -> object:
    """Waits first."""
    await asyncio.sleep(0)
    return _end(run)


@wakeboard.handler("in-a-thread")
def in_a_thread(run: wakeboard.Run) -> object:
    """Is a plain function."""
    return _end(run)
