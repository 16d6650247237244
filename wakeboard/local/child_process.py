"""Runs a program as a child process that cannot outlive this process, and reads its output line by line."""

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

MAX_LINE_BYTES = 16_384  # longer lines are split
OUTPUT_TIMEOUT_S = 1.0  # a grandchild may keep the pipe open after the child has exited
_CHUNK_BYTES = 65_536


class ChildProcess:
    """A child process, created by `start`.

    Call `start` in the main thread: Linux signals the child when the thread that started it ends. The child has its own
    session, so Ctrl-C in the terminal does not reach it and `up` can stop its children in order.
    """

    def __init__(self, process: asyncio.subprocess.Process, on_line: Callable[[str], None]) -> None:
        self._process = process
        self._reader = asyncio.create_task(self._read_lines(on_line))
        self._started_at = asyncio.get_running_loop().time()

    @classmethod
    async def start(
        cls, command: Sequence[str], *, environment: Mapping[str, str], folder: Path, on_line: Callable[[str], None]
    ) -> ChildProcess:
        """Starts `command` in `folder`; calls `on_line` for each line of its output. Raises OSError if it cannot."""
        process = await asyncio.create_subprocess_exec(
            *ends_with_parent(command),
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.STDOUT,
            env=environment,
            cwd=folder,
            start_new_session=True,
        )
        return cls(process, on_line)

    @property
    def pid(self) -> int:
        """The pid, which is also the id of its process group."""
        return self._process.pid

    @property
    def running(self) -> bool:
        """Whether it has not exited."""
        return self._process.returncode is None

    @property
    def age_s(self) -> float:
        """Seconds since it was started."""
        return asyncio.get_running_loop().time() - self._started_at

    async def wait(self) -> int:
        """Waits for its exit and its last line of output. Returns the exit code, or -N after signal N."""
        code = await self._process.wait()
        await asyncio.wait([self._reader], timeout=OUTPUT_TIMEOUT_S)
        self._reader.cancel()
        return code

    def terminate(self) -> None:
        """Sends SIGTERM, unless it has exited."""
        with suppress(ProcessLookupError):
            self._process.send_signal(signal.SIGTERM)

    async def stop(self, timeout_s: float) -> None:
        """Sends SIGTERM, and SIGKILL to its process group if it has not exited within `timeout_s`."""
        self.terminate()
        try:
            async with asyncio.timeout(timeout_s):
                await self._process.wait()
        except TimeoutError:
            self.kill()
        await self.wait()

    def kill(self) -> None:
        """Sends SIGKILL to its process group, if it still exists."""
        with suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)

    async def _read_lines(self, on_line: Callable[[str], None]) -> None:
        stream = self._process.stdout
        assert stream is not None
        rest = b""
        while chunk := await stream.read(_CHUNK_BYTES):
            *lines, rest = (rest + chunk).split(b"\n")
            if len(rest) > MAX_LINE_BYTES:
                lines, rest = [*lines, rest], b""
            for line in lines:
                on_line(line.decode(errors="replace").rstrip("\r"))
        if rest:
            on_line(rest.decode(errors="replace"))


def ends_with_parent(command: Sequence[str], uid: int = -1, gid: int = -1) -> list[str]:
    """Wraps a command so that, on Linux, it is interrupted when this process ends (pdeathsig.py).

    Elsewhere the command is returned unchanged. `uid` and `gid` are the user to run it as; -1 keeps the current one.
    """
    if sys.platform != "linux":
        return list(command)
    launcher = [sys.executable, "-I", "-S", str(Path(__file__).with_name("pdeathsig.py"))]
    return [*launcher, str(os.getpid()), str(uid), str(gid), *command]
