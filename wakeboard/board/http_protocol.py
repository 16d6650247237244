"""HTTP/1.1 for the board: uvicorn's protocol, with bounds on what a connection may hold, with and without a login.

uvicorn waits without end for the rest of a request, and for a client to read its answer. Each connection keeps a file
descriptor, so clients could use up all of them. Therefore the board closes a connection

- on which no whole request arrives within `CLIENT_TIMEOUT_S` of its beginning or of the previous answer,
- whose client does not read: an answer is sent in parts, and each must be taken within that time,
- on which a second request arrives before the first is answered. Browsers and proxies do not send one; it would wait in
  memory,
- which has waited for its client longer than all others, if there are more than `most_connections`.

A whole request may take any time to be answered. Event streams end by themselves.
"""

from __future__ import annotations

import asyncio
import errno
import logging
import resource
from typing import TYPE_CHECKING, Any, Final, cast

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol

from wakeboard.process.failure_log import FailureLog

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Message, Receive, Scope, Send

CLIENT_TIMEOUT_S: Final = 20.0
PART_BYTES: Final = 65_536  # of an answer
READ_BYTES: Final = 16_384  # at once
MAX_HEADER_BYTES: Final = 32_768
MAX_CONNECTIONS: Final = 600
OTHER_DESCRIPTORS: Final = 100  # for the database, files and processes
BACKLOG: Final = 100  # connections that the kernel holds until they are accepted
EXHAUSTED: Final = frozenset({errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM})
QUIET_S: Final = 5.0  # asyncio tries to accept connections again after 1 s

_log = logging.getLogger(__name__)


def most_connections() -> int:
    """How many connections the board holds at once, as this process may open so many files."""
    return min(MAX_CONNECTIONS, max(16, resource.getrlimit(resource.RLIMIT_NOFILE)[0] - OTHER_DESCRIPTORS))


class BoundedH11Protocol(H11Protocol, asyncio.BufferedProtocol):
    """One connection with these bounds."""

    _waits_since = 0.0
    _timer: asyncio.TimerHandle | None = None
    _incoming = bytearray()

    def connection_made(self, transport: asyncio.Transport) -> None:  # pyright: ignore[reportIncompatibleMethodOverride]
        """Begins to wait for the first request."""
        super().connection_made(transport)
        self._waits_since = self.loop.time()
        self._check()
        if len(self.connections) > most_connections():
            self._drop_one()

    def get_buffer(self, sizehint: int) -> bytearray:  # noqa: ARG002
        """Where asyncio writes what it reads next."""
        self._incoming = bytearray(READ_BYTES)
        return self._incoming

    def buffer_updated(self, nbytes: int) -> None:
        """Takes what was read."""
        data, self._incoming = bytes(memoryview(self._incoming)[:nbytes]), bytearray()
        self.data_received(data)
        if self.conn.their_state is h11.DONE and self.conn.trailing_data[0]:
            self.cycle.keep_alive = False

    def pause_writing(self) -> None:
        """Begins to wait for the client to read."""
        self._waits_since = self.loop.time()
        super().pause_writing()

    def on_response_complete(self) -> None:
        """Begins to wait for the client to read the rest and to send the next request."""
        self._waits_since = self.loop.time()
        super().on_response_complete()

    def connection_lost(self, exc: Exception | None) -> None:
        """Stops waiting."""
        if self._timer is not None:
            self._timer.cancel()
        super().connection_lost(exc)

    @property
    def waits_for_client(self) -> bool:
        """Whether nothing happens on this connection until its client sends or reads."""
        return (
            self.transport.is_closing() or self.flow.write_paused or self.conn.their_state in {h11.IDLE, h11.SEND_BODY}
        )

    def _check(self) -> None:
        now = self.loop.time()
        since = self._waits_since if self.waits_for_client else now
        if now - since >= CLIENT_TIMEOUT_S:
            self.transport.abort()  # close() would wait until the client has read everything
        else:
            self._timer = self.loop.call_at(since + CLIENT_TIMEOUT_S, self._check)

    def _drop_one(self) -> None:
        """Closes the connection that has waited longest for its client. This new one is among them."""
        connections = cast("set[BoundedH11Protocol]", self.connections)
        waiting = (each for each in connections if each.waits_for_client)
        dropped = min(waiting, key=lambda each: each._waits_since)  # noqa: SLF001
        connections.discard(dropped)
        dropped.transport.abort()


def in_parts(app: ASGIApp) -> ASGIApp:
    """The application, whose answers are sent in parts, so that a client who reads slowly holds one part in memory."""

    async def paced(scope: Scope, receive: Receive, send: Send) -> None:
        async def send_parts(message: Message) -> None:
            body: bytes = message.get("body", b"")
            sent = 0
            while len(body) - sent > PART_BYTES:
                await send({**message, "body": body[sent : sent + PART_BYTES], "more_body": True})
                sent += PART_BYTES
            await send({**message, "body": body[sent:]} if sent else message)

        await app(scope, receive, send_parts)

    return paced


class AcceptFailures:
    """An exception handler for an event loop that logs one line a minute while no connection can be accepted.

    asyncio reports it each second. Everything else is logged as asyncio does.
    """

    def __init__(self) -> None:
        self._failures = FailureLog(_log, what="the board's")
        self._recovered: asyncio.TimerHandle | None = None

    def __call__(self, loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:  # noqa: D102
        error = context.get("exception")
        if not isinstance(error, OSError) or error.errno not in EXHAUSTED:
            loop.default_exception_handler(context)
            return
        self._failures.failed("acceptance of connections", error)
        if self._recovered is not None:
            self._recovered.cancel()
        self._recovered = loop.call_later(QUIET_S, self._failures.succeeded, "acceptance of connections")
