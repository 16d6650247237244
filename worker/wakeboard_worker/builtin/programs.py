"""A program that runs in a process group of its own, and leaves nobody behind."""

from __future__ import annotations

import asyncio
import os
import signal
from contextlib import suppress
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from asyncio.subprocess import Process
    from collections.abc import Mapping, Sequence

KEPT_BYTES: Final = 32_768  # of what it printed last: 8,000 characters, each of up to four bytes
LAST_WORDS_WITHIN_S: Final = 1.0  # for what is still in the pipe when the program has ended
END_WITHIN_S: Final = 1.5  # between SIGTERM and SIGKILL: less than a leaving worker waits for its handlers


class Program(asyncio.Protocol):
    """One start of a program, and the end of what it printed."""

    def __init__(self) -> None:
        self._tail = bytearray()
        self.printed_more = False  # what it printed first is not kept
        self._silent = asyncio.Event()

    @property
    def printed(self) -> bytes:
        """The last bytes that it wrote to standard output and standard error, in the order in which it did."""
        return bytes(self._tail)

    async def run(self, argv: Sequence[str], environment: Mapping[str, str]) -> int:
        """Runs it until it ends; its exit code, or minus the signal that ended it. OSError: it cannot be started.

        Its whole group ends with it, and when this is cancelled: SIGTERM first, then SIGKILL.
        """
        reading, writing = os.pipe()
        loop = asyncio.get_running_loop()
        pipe, _ = await loop.connect_read_pipe(lambda: self, os.fdopen(reading, "rb", buffering=0))
        try:
            try:
                process = await asyncio.create_subprocess_exec(
                    *argv,
                    env=environment,
                    stdin=asyncio.subprocess.DEVNULL,
                    stdout=writing,
                    stderr=writing,
                    start_new_session=True,
                )
            finally:
                os.close(writing)
            return await self._ended(process)
        finally:
            pipe.close()  # somebody who left the group may still hold the other end

    def data_received(self, data: bytes) -> None:
        """It printed something."""
        self._tail += data
        if len(self._tail) > KEPT_BYTES:
            self.printed_more = True
            del self._tail[:-KEPT_BYTES]

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002 - asyncio names it
        """Nobody can print any more."""
        self._silent.set()

    async def _ended(self, process: Process) -> int:
        try:
            code = await process.wait()
        finally:
            await _end_group(process)
        with suppress(TimeoutError):
            async with asyncio.timeout(LAST_WORDS_WITHIN_S):
                await self._silent.wait()
        return code


async def _end_group(process: Process) -> None:
    """Nobody of the program's group outlives its run."""
    if not _signal_group(process.pid, signal.SIGTERM):
        return
    try:
        async with asyncio.timeout(END_WITHIN_S):
            await process.wait()
    except TimeoutError:
        pass
    finally:
        _signal_group(process.pid, signal.SIGKILL)


def _signal_group(group: int, number: signal.Signals) -> bool:
    """Whether there was somebody to signal. The group is the program's own: start_new_session made it."""
    try:
        os.killpg(group, number)
    except (ProcessLookupError, PermissionError):
        return False
    return True
