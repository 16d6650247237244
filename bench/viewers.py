"""`python -m bench.viewers ADDRESS SECONDS`: viewers of a web board, who follow its events as a browser does.

Each viewer holds an event stream and asks for its page again at every change. After so many seconds, or SIGTERM, it
prints a line of JSON: `pages` that were answered, `seconds`, and `median_ms` of an answer.
"""

from __future__ import annotations

import asyncio
import json
import signal
import statistics
import sys
import time
from contextlib import suppress
from typing import Final
from urllib.parse import parse_qs, urlsplit

PAGES: Final = (
    "/",
    "/runs",
    "/runs?q=status:queued",
    "/runs?q=type:noop",
    "/runs/1",
    "/schedules",
    "/schedules/1",
    "/performance",
    "/limits",
    "/audit",
)
READY: Final = "all pages are open"


class Viewer:
    """One viewer of one page. `taken_s`: how long each answer took."""

    def __init__(self, address: str, path: str) -> None:
        place = urlsplit(address)
        self._host, self._port, self._path = place.hostname or "", place.port or 80, path
        (self._token,) = parse_qs(place.query)["token"]
        self._changed = asyncio.Event()
        self.opened = asyncio.Event()
        self.taken_s: list[float] = []

    async def follow(self) -> None:
        """Reads the events until it is cancelled."""
        reader, _ = await self._ask("/events")
        while line := await reader.readline():
            if line.strip() == b"event: changed":
                self._changed.set()

    async def look(self) -> None:
        """Asks for the page now, and again at each change."""
        while True:
            began = time.perf_counter()
            reader, writer = await self._ask(self._path)  # the board closes a connection that was idle for seconds
            await self._answer(reader)
            writer.close()
            self.taken_s.append(time.perf_counter() - began)
            self.opened.set()
            await self._changed.wait()
            self._changed.clear()

    async def _ask(self, path: str) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        reader, writer = await asyncio.open_connection(self._host, self._port)
        writer.write(
            f"GET {path} HTTP/1.1\r\nHost: {self._host}:{self._port}\r\nHX-Request: true\r\n"
            f"Authorization: Bearer {self._token}\r\n\r\n".encode()
        )
        return reader, writer

    async def _answer(self, reader: asyncio.StreamReader) -> None:
        head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").lower()
        status = head.split(" ", 2)[1]
        if status != "200":
            raise RuntimeError(f"{self._path} was answered with {status}")
        await reader.readexactly(int(head.partition("content-length:")[2].partition("\r")[0]))


async def view(address: str, seconds: float) -> str:
    """The line of JSON."""
    ended = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, ended.set)
    viewers = [Viewer(address, path) for path in PAGES]
    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(work) for viewer in viewers for work in (viewer.follow(), viewer.look())]
        await asyncio.gather(*(viewer.opened.wait() for viewer in viewers))
        print(READY, flush=True)
        began, shown = time.monotonic(), [len(viewer.taken_s) for viewer in viewers]
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await ended.wait()
        took = time.monotonic() - began
        for task in tasks:
            task.cancel()
    times = [each for viewer, before in zip(viewers, shown, strict=True) for each in viewer.taken_s[before:]]
    median = statistics.median(times) * 1000 if times else 0.0
    return json.dumps({"pages": len(times), "seconds": took, "median_ms": median})


if __name__ == "__main__":
    print(asyncio.run(view(sys.argv[1], float(sys.argv[2]))))
