"""Serves the board with uvicorn. Stopping ends all event streams first, so that the process ends within 3 s."""

from __future__ import annotations

import asyncio
import errno
import os
import socket
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Final

import uvicorn

from wakeboard.board.access.address import PARAMETER, AddressAccess
from wakeboard.board.application import app
from wakeboard.board.http_protocol import BACKLOG, MAX_HEADER_BYTES, AcceptFailures, BoundedH11Protocol, in_parts
from wakeboard.errors import InvalidSettings

if TYPE_CHECKING:
    from collections.abc import Generator
    from types import FrameType

    from wakeboard.board.state import Board, BoardOptions

EVERY_ADDRESS: Final = "*"  # of IPv4 and IPv6
STOP_TIMEOUT_S: Final = 2  # for open requests; the process ends within 3 s
UNREACHABLE_MS: Final = 60_000  # after which a client that acknowledges nothing, not even a heartbeat, is gone
LAST_PORT: Final = 65_535


def listening_socket(bind: str, port: int, *, spare_ports: int = 0) -> socket.socket:
    """A socket that is bound to the address; `*` is every address of IPv4 and IPv6.

    `spare_ports`: how many of the following ports it tries if this one is in use. Raises InvalidSettings if the
    address cannot be bound.
    """
    try:
        if bind == EVERY_ADDRESS:
            if socket.has_dualstack_ipv6():
                return socket.create_server(("::", port), family=socket.AF_INET6, dualstack_ipv6=True)
            return socket.create_server(("0.0.0.0", port))  # noqa: S104 - what the caller asks for
        family, *_, address = socket.getaddrinfo(bind, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)[0]
        return socket.create_server(address[:2], family=family)
    except OSError as exc:
        if spare_ports and port < LAST_PORT and exc.errno == errno.EADDRINUSE:
            return listening_socket(bind, port + 1, spare_ports=spare_ports - 1)
        # Python repeats the address in its text for an error of the system. Those of names have negative numbers.
        reason = os.strerror(exc.errno) if exc.errno and exc.errno > 0 else exc.strerror or str(exc)
        hint = " Choose another port with --port." if exc.errno in {errno.EADDRINUSE, errno.EACCES} else ""
        raise InvalidSettings(f"cannot listen on {bind}:{port}: {reason}.{hint}") from exc


class BoardServer(uvicorn.Server):
    """A server of one board over a bound socket.

    `handles_signals`: SIGINT and SIGTERM stop it. Otherwise the caller calls `stop`.
    """

    def __init__(self, options: BoardOptions, listener: socket.socket, *, handles_signals: bool = True) -> None:
        application = app(options)
        self._board: Board = application.state.board
        self._listener, self._handles_signals = listener, handles_signals
        self._serving: asyncio.Task[None] | None = None
        if user_timeout := getattr(socket, "TCP_USER_TIMEOUT", None):  # Linux; its connections inherit it
            listener.setsockopt(socket.IPPROTO_TCP, user_timeout, UNREACHABLE_MS)
        super().__init__(
            uvicorn.Config(
                in_parts(application),
                http=BoundedH11Protocol,
                h11_max_incomplete_event_size=MAX_HEADER_BYTES,
                backlog=1,  # asyncio accepts, or fails to accept, so many at once
                log_level="error",
                log_config=None,  # the format of this process, not of uvicorn
                access_log=False,
                server_header=False,
                date_header=False,
                proxy_headers=False,
                timeout_graceful_shutdown=STOP_TIMEOUT_S,
                ws="none",
            )
        )

    @property
    def address(self) -> str:
        """The address of the board on this machine: http://127.0.0.1:8686/."""
        host, port = self._listener.getsockname()[:2]
        return f"http://{f'[{host}]' if ':' in host else host}:{port}/"

    @property
    def login_address(self) -> str:
        """The address that logs a browser in, if the board has a token for that; otherwise its address."""
        access = self._board.options.access
        return self.address + (f"?{PARAMETER}={access.token}" if isinstance(access, AddressAccess) else "")

    async def run_until_stopped(self) -> None:
        """Serves until a signal or `stop`."""
        asyncio.get_running_loop().set_exception_handler(AcceptFailures())
        await self.serve([self._listener])

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Begins to accept connections."""
        await super().startup(sockets)
        self._listener.listen(BACKLOG)

    def start(self) -> None:
        """Serves in a task of the running event loop."""
        self._serving = asyncio.create_task(self.run_until_stopped())

    async def stop(self) -> None:
        """Ends the event streams, then the server."""
        self.handle_exit(0, None)
        if self._serving is not None:
            with suppress(asyncio.CancelledError):
                await self._serving
        self._listener.close()

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """Ends the event streams, which uvicorn would wait for."""
        self._board.changes.end_streams()
        if sig:
            super().handle_exit(sig, frame)
        else:
            self.should_exit = True

    @contextmanager
    def capture_signals(self) -> Generator[None]:
        """Leaves the signals to the caller if it handles them."""
        if not self._handles_signals:
            yield
            return
        with super().capture_signals():
            yield
