"""Serves the board with uvicorn. A signal to stop ends all event streams first, so that the process ends within 3 s."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import uvicorn

from wakeboard.board.application import app
from wakeboard.errors import InvalidSettings

if TYPE_CHECKING:
    from types import FrameType

    from wakeboard.board.state import Board, BoardOptions

DEFAULT_PORT: Final = 8686
STOP_TIMEOUT_S: Final = 3


class BoardServer(uvicorn.Server):
    """A server of one board."""

    def __init__(self, options: BoardOptions, *, bind: str = "127.0.0.1", port: int = DEFAULT_PORT) -> None:
        application = app(options)
        self.board: Board = application.state.board
        super().__init__(
            uvicorn.Config(
                application,
                host=bind,
                port=port,
                log_level="warning",
                access_log=False,
                server_header=False,
                date_header=False,
                proxy_headers=False,
                timeout_graceful_shutdown=STOP_TIMEOUT_S,
                ws="none",
            )
        )

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """Ends the event streams, which uvicorn would wait for."""
        self.board.changes.end_streams()
        super().handle_exit(sig, frame)


def require_free_port(error: OSError, bind: str, port: int) -> InvalidSettings:
    """The error for an address that cannot be bound."""
    return InvalidSettings(f"cannot listen on {bind}:{port}: {error.strerror}. Choose another port with --port.")
