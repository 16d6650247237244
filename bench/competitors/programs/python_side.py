"""What the programs of Python queues share.

    PROGRAM prepare        makes the queue's tables in the empty database BENCH_DSN
    PROGRAM enqueue JOBS   enqueues so many no-op jobs in bulk; the last line printed is the seconds it took
    PROGRAM work           works until SIGTERM

The job does nothing, but the first one that a process runs writes the Unix time to the file $BENCH_FIRST.<pid>, and
one with a payload {"due": <Unix time>} appends how late it is, in ms, to $BENCH_LATENESS.<pid>.
"""

from __future__ import annotations

import asyncio
import json
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


def began(payload: str = "{}") -> None:
    """Reports the first job that this process runs, and how late a job is that says when it was due."""
    if payload != "{}":
        with Path(f"{os.environ['BENCH_LATENESS']}.{os.getpid()}").open("a", encoding="ascii") as file:
            file.write(f"{(time.time() - json.loads(payload)['due']) * 1000:.3f}\n")
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
