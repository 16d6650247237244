"""Runs a program in its own session, keeps the end of its output, and ends all its processes when it ends."""

from __future__ import annotations

import asyncio
import codecs
import os
import sys
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from asyncio.subprocess import Process
    from collections.abc import Callable, Mapping, Sequence

KEPT_BYTES: Final = 32_768  # of output, at its end: 8,000 characters of up to four bytes
DRAIN_PIPE_S: Final = 1.0  # to read the rest of the output after the program has ended
KILL_AFTER_S: Final = 1.5  # between SIGTERM and SIGKILL; less than UNWIND_S of worker.py
SUBREAPER_EXIT_S: Final = 0.4  # the time in which the subreaper notices that all processes have ended
SUBREAPER: Final = Path(__file__).with_name("subreaper.py")


class ChildProgram(asyncio.Protocol):
    """One execution of a program, and the end of its output."""

    def __init__(self, on_output: Callable[[str], None] | None = None) -> None:
        self._on_output = on_output
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._tail = bytearray()
        self.truncated = False  # the beginning of the output was dropped
        self._pipe_closed = asyncio.Event()

    @property
    def output(self) -> bytes:
        """The last bytes of standard output and standard error, in the order in which they were written."""
        return bytes(self._tail)

    async def run(self, argv: Sequence[str], environment: Mapping[str, str]) -> int:
        """Run the program and return its exit code, or minus the signal that ended it.

        Raises OSError if the program cannot be started. All processes that it started are ended with it, also when the
        caller is cancelled: first with SIGTERM, then with SIGKILL (subreaper.py).
        """
        read_end, write_end = os.pipe()
        failure, failure_write_end = os.pipe()
        loop = asyncio.get_running_loop()
        pipe, _ = await loop.connect_read_pipe(lambda: self, os.fdopen(read_end, "rb", buffering=0))
        try:
            try:
                process = await asyncio.create_subprocess_exec(
                    *(sys.executable, "-I", "-S", str(SUBREAPER)),
                    *(str(os.getpid()), str(failure_write_end), str(KILL_AFTER_S)),
                    *argv,
                    env=environment,
                    stdin=asyncio.subprocess.DEVNULL,
                    stdout=write_end,
                    stderr=write_end,
                    pass_fds=(failure_write_end,),
                    start_new_session=True,
                )
            finally:
                os.close(write_end)
                os.close(failure_write_end)
            code = await self._wait(process)
            if number := os.read(failure, 16):
                raise OSError(int(number), os.strerror(int(number)))
            return code
        finally:
            os.close(failure)
            pipe.close()

    def data_received(self, data: bytes) -> None:
        """Append output. Called by asyncio."""
        if self._on_output is not None:
            self._on_output(self._decoder.decode(data))
        self._tail += data
        if len(self._tail) > KEPT_BYTES:
            self.truncated = True
            del self._tail[:-KEPT_BYTES]

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002 - asyncio's signature
        """Record that all processes have closed the pipe. Called by asyncio."""
        self._pipe_closed.set()

    async def _wait(self, process: Process) -> int:
        try:
            code = await process.wait()
        finally:
            await _stop(process)
        with suppress(TimeoutError):
            async with asyncio.timeout(DRAIN_PIPE_S):
                await self._pipe_closed.wait()
        return code


async def _stop(process: Process) -> None:
    """Ask the subreaper to end all processes, unless it has exited. It continues even if this worker ends meanwhile."""
    if process.returncode is not None:
        return
    with suppress(ProcessLookupError):
        process.terminate()
    with suppress(TimeoutError):
        async with asyncio.timeout(KILL_AFTER_S + SUBREAPER_EXIT_S):
            await process.wait()
