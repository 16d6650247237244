"""HTTP/1.1 for the board: uvicorn's protocol, and a bound on the time in which a request must arrive.

uvicorn waits without end for the rest of a request. Each such connection keeps a file descriptor, so a client without
a login could use up all of them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol

if TYPE_CHECKING:
    from asyncio import TimerHandle, Transport

REQUEST_TIMEOUT_S: Final = 20.0


class BoundedH11Protocol(H11Protocol):
    """Closes a connection on which no whole request arrived within `REQUEST_TIMEOUT_S`.

    The time counts from the connection, and then from the end of each response. A whole request is not affected,
    however long its response takes.
    """

    _request_timer: TimerHandle | None = None

    def connection_made(self, transport: Transport) -> None:  # pyright: ignore[reportIncompatibleMethodOverride]
        """Start to wait for the first request."""
        super().connection_made(transport)
        self._await_request()

    def on_response_complete(self) -> None:
        """Start to wait for the next request."""
        self._await_request()  # first: the next request may have arrived already
        super().on_response_complete()

    def connection_lost(self, exc: Exception | None) -> None:
        """Stop waiting."""
        self._stop_waiting()
        super().connection_lost(exc)

    def _await_request(self) -> None:
        self._stop_waiting()
        self._request_timer = self.loop.call_later(REQUEST_TIMEOUT_S, self._close_if_incomplete)

    def _stop_waiting(self) -> None:
        if self._request_timer is not None:
            self._request_timer.cancel()

    def _close_if_incomplete(self) -> None:
        if self.conn.their_state in {h11.IDLE, h11.SEND_BODY}:
            self.transport.close()
