"""A program that runs beside this process: what it says is told line by line, and it ends when this process does."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

LONGEST_LINE = 16_384  # bytes; what is longer comes in pieces
LAST_WORDS_WITHIN_S = 1.0  # a grandchild may keep the pipe open for as long as it likes
_CHUNK = 65_536  # bytes


class ChildProcess:
    """Start it with `start`, in the main thread: Linux sends SIGINT to the child when the thread that started it ends.

    It has a session of its own, so that Ctrl-C in the terminal is for us, who stop it in order.
    """

    def __init__(self, process: asyncio.subprocess.Process, tell: Callable[[str], None]) -> None:
        self._process = process
        self._telling = asyncio.create_task(self._tell_lines(tell))
        self.began = asyncio.get_running_loop().time()

    @classmethod
    async def start(
        cls, command: Sequence[str], *, environment: Mapping[str, str], folder: Path, tell: Callable[[str], None]
    ) -> ChildProcess:
        """Runs `command` in `folder`; `tell` is given each line that it writes. Raises OSError if it cannot be run."""
        process = await asyncio.create_subprocess_exec(
            *_tied_to_us(command),
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.STDOUT,
            env=environment,
            cwd=folder,
            start_new_session=True,
        )
        return cls(process, tell)

    @property
    def pid(self) -> int:
        """Its pid, and that of its process group."""
        return self._process.pid

    @property
    def running(self) -> bool:
        """Whether it has not ended yet."""
        return self._process.returncode is None

    @property
    def age_s(self) -> float:
        """Seconds since it was started."""
        return asyncio.get_running_loop().time() - self.began

    async def ended(self) -> int:
        """Waits until it has ended and its last line is told; its exit code, or a signal's negative number."""
        code = await self._process.wait()
        await asyncio.wait([self._telling], timeout=LAST_WORDS_WITHIN_S)
        self._telling.cancel()
        return code

    def ask_to_end(self) -> None:
        """SIGTERM; nothing if it has ended."""
        with suppress(ProcessLookupError):
            self._process.send_signal(signal.SIGTERM)

    async def stop(self, within_s: float) -> None:
        """Asks it to end; ends it, with all that it has left running, if it still runs after so many seconds."""
        self.ask_to_end()
        try:
            async with asyncio.timeout(within_s):
                await self._process.wait()
        except TimeoutError:
            self.kill()
        await self.ended()

    def kill(self) -> None:
        """SIGKILL to its process group; nothing if there is none."""
        with suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)

    async def _tell_lines(self, tell: Callable[[str], None]) -> None:
        stream = self._process.stdout
        assert stream is not None
        rest = b""
        while chunk := await stream.read(_CHUNK):
            *lines, rest = (rest + chunk).split(b"\n")
            if len(rest) > LONGEST_LINE:
                lines, rest = [*lines, rest], b""
            for line in lines:
                tell(line.decode(errors="replace").rstrip("\r"))
        if rest:
            tell(rest.decode(errors="replace"))


def _tied_to_us(command: Sequence[str]) -> list[str]:
    if sys.platform != "linux":
        return list(command)
    launcher = [sys.executable, "-I", "-S", str(Path(__file__).with_name("pdeathsig.py"))]
    return [*launcher, str(os.getpid()), "-1", "-1", *command]
