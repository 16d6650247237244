"""`python -m bench.receiver PORT`: answers each HTTP request on loopback with an empty object; costs little."""

from __future__ import annotations

import asyncio
import re
import sys
from typing import Final

ANSWER: Final = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 2\r\n\r\n{}"
LENGTH: Final = re.compile(rb"\r\nContent-Length: *(\d+)", re.IGNORECASE)


class Receiver(asyncio.Protocol):
    """One connection, kept open."""

    def __init__(self) -> None:
        self._received = b""
        self._transport: asyncio.Transport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Keeps the transport."""
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        """Answers each request that is complete."""
        self._received += data
        while (end := self._end_of_request()) is not None:
            self._received = self._received[end:]
            if self._transport:
                self._transport.write(ANSWER)

    def _end_of_request(self) -> int | None:
        head_end = self._received.find(b"\r\n\r\n")
        if head_end < 0:
            return None
        length = LENGTH.search(self._received, 0, head_end + 2)
        end = head_end + 4 + (int(length[1]) if length else 0)
        return end if len(self._received) >= end else None


async def receive(port: int) -> None:
    """Until the process is stopped."""
    server = await asyncio.get_running_loop().create_server(Receiver, "127.0.0.1", port)
    await server.serve_forever()


if __name__ == "__main__":
    asyncio.run(receive(int(sys.argv[1])))
