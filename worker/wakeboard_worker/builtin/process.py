"""Runs a program in a session of its own and ends all its processes with it."""

from __future__ import annotations

import asyncio
import os
import sys
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from asyncio.subprocess import Process
    from collections.abc import Mapping, Sequence

KEPT_BYTES: Final = 32_768  # of what it printed last: 8,000 characters, each of up to four bytes
LAST_WORDS_WITHIN_S: Final = 1.0  # for what is still in the pipe when the program has ended
END_WITHIN_S: Final = 1.5  # between SIGTERM and SIGKILL: less than a leaving worker waits for its handlers
SLACK_S: Final = 0.4  # for the subreaper to see their end
SUBREAPER: Final = Path(__file__).with_name("subreaper.py")


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

        All that it started ends with it, and when this is cancelled: SIGTERM first, then SIGKILL (subreaper.py).
        """
        reading, writing = os.pipe()
        failure, failure_writing = os.pipe()
        loop = asyncio.get_running_loop()
        pipe, _ = await loop.connect_read_pipe(lambda: self, os.fdopen(reading, "rb", buffering=0))
        try:
            try:
                process = await asyncio.create_subprocess_exec(
                    *(sys.executable, "-I", "-S", str(SUBREAPER)),
                    *(str(os.getpid()), str(failure_writing), str(END_WITHIN_S)),
                    *argv,
                    env=environment,
                    stdin=asyncio.subprocess.DEVNULL,
                    stdout=writing,
                    stderr=writing,
                    pass_fds=(failure_writing,),
                    start_new_session=True,
                )
            finally:
                os.close(writing)
                os.close(failure_writing)
            code = await self._ended(process)
            if number := os.read(failure, 16):
                raise OSError(int(number), os.strerror(int(number)))
            return code
        finally:
            os.close(failure)
            pipe.close()

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
            await _stop(process)
        with suppress(TimeoutError):
            async with asyncio.timeout(LAST_WORDS_WITHIN_S):
                await self._silent.wait()
        return code


async def _stop(process: Process) -> None:
    """Asks the subreaper to end all processes, unless it has exited. It finishes that even if the caller is gone."""
    if process.returncode is not None:
        return
    with suppress(ProcessLookupError):
        process.terminate()
    with suppress(TimeoutError):
        async with asyncio.timeout(END_WITHIN_S + SLACK_S):
            await process.wait()
