"""What the programs of Python queues share.

    PROGRAM prepare        makes the queue's tables in the empty database BENCH_DSN
    PROGRAM enqueue JOBS   enqueues so many no-op jobs in bulk; the last line printed is the seconds it took
    PROGRAM work           works until SIGTERM

The job does nothing, but the first one that a process runs writes the Unix time to the file $BENCH_FIRST.<pid>.
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys
import time
from itertools import repeat
from pathlib import Path
from typing import TYPE_CHECKING

import uvloop

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterator

DSN = os.environ["BENCH_DSN"]
BATCH = 10_000  # jobs of one bulk call

_unreported = [Path(f"{os.environ['BENCH_FIRST']}.{os.getpid()}")] if "BENCH_FIRST" in os.environ else []


def began() -> None:
    """Reports the first job that this process runs."""
    if _unreported:
        _unreported.pop().write_text(str(time.time()), encoding="ascii")


def batches(jobs: int) -> Iterator[int]:
    """Sizes of the bulk calls."""
    yield from repeat(BATCH, jobs // BATCH)
    if jobs % BATCH:
        yield jobs % BATCH


class Stopwatch:
    """Measures an enqueueing program from the moment it is connected."""

    def __init__(self) -> None:
        self._began = time.perf_counter()

    def stop(self) -> None:
        """Prints the seconds since."""
        print(time.perf_counter() - self._began)


def asked_to_stop() -> asyncio.Event:
    """Set when SIGTERM comes."""
    event = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, event.set)
    return event


def serve(
    prepare: Callable[[], Awaitable[None]],
    enqueue: Callable[[int], Awaitable[None]],
    work: Callable[[], Awaitable[None]],
) -> None:
    """Does what the command line says, on uvloop."""

    async def asked() -> None:
        match sys.argv[1:]:
            case ["prepare"]:
                await prepare()
            case ["enqueue", jobs]:
                await enqueue(int(jobs))
            case ["work"]:
                await work()
            case other:
                sys.exit(f"unknown: {other}")

    uvloop.run(asked())
