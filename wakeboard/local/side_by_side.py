"""Works on several things at once, until they are done, one of them fails, or somebody says stop."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Coroutine

CANCEL_AGAIN_AFTER_S: Final = 0.5


async def side_by_side(stop: asyncio.Event, *works: Coroutine[Any, Any, None]) -> None:
    """Ends with nothing of it left running, and raises the first error if there was one.

    Python 3.11 may lose a cancellation: `asyncio.wait_for` swallows one that comes in the moment in which the awaited
    thing happens, and libraries use it. So whoever does not end is cancelled again.
    """
    tasks = [asyncio.create_task(work) for work in works]
    stopped = asyncio.create_task(stop.wait())
    pending: set[asyncio.Task[Any]] = {stopped, *tasks}
    try:
        while not (stopped.done() or all(task.done() for task in tasks) or _first_error(tasks)):
            _, pending = await asyncio.wait(pending, return_when=asyncio.FIRST_COMPLETED)
    finally:
        while pending := {task for task in (stopped, *tasks) if not task.done()}:
            for task in pending:
                task.cancel()
            await asyncio.wait(pending, timeout=CANCEL_AGAIN_AFTER_S)
    if error := _first_error(tasks):
        raise error


def _first_error(tasks: list[asyncio.Task[None]]) -> BaseException | None:
    failures = (task.exception() for task in tasks if task.done() and not task.cancelled())
    return next((error for error in failures if error is not None), None)
