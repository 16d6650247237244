"""Serves a board, or any ASGI application, from a thread of this process, for tests, measurements and pictures."""

from __future__ import annotations

import asyncio
import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import uvicorn

from wakeboard.board.server import BoardServer, listening_socket

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Generator

    from starlette.types import ASGIApp

    from wakeboard.board import BoardOptions


@contextmanager
def serving(options: BoardOptions, host: str = "127.0.0.1") -> Generator[str]:
    """Serves a board on a free port of loopback inside the block. Yields its address, without a trailing slash.

    `host`: another address of this machine.
    """
    with serving_board(options, host) as server:
        yield server.address.rstrip("/")


@contextmanager
def serving_board(options: BoardOptions, host: str = "127.0.0.1") -> Generator[BoardServer]:
    """As `serving`. Yields the server, whose connections a test counts."""
    server = BoardServer(options, listening_socket(host, 0), handles_signals=False)
    with _in_a_thread(server, server.run_until_stopped):
        yield server


@contextmanager
def serving_application(application: ASGIApp) -> Generator[str]:
    """As `serving`, for any application."""
    listener = listening_socket("127.0.0.1", 0)
    server = uvicorn.Server(uvicorn.Config(application, log_level="critical", timeout_graceful_shutdown=1, ws="none"))
    with _in_a_thread(server, lambda: server.serve([listener])):
        yield f"http://127.0.0.1:{listener.getsockname()[1]}"
    listener.close()


@contextmanager
def _in_a_thread(server: uvicorn.Server, serve: Callable[[], Coroutine[Any, Any, None]]) -> Generator[None]:
    async def serve_and_close() -> None:
        await serve()
        await asyncio.sleep(0.01)  # what was accepted last begins: its task would be dropped, and its socket left open
        for connection in list(server.server_state.connections):
            connection.shutdown()
        await asyncio.sleep(0.01)  # the loop closes them

    thread = threading.Thread(target=lambda: asyncio.run(serve_and_close()))
    thread.start()
    try:
        while not server.started and thread.is_alive():
            thread.join(0.01)
        yield
    finally:
        server.handle_exit(0, None)
        thread.join(10)
        assert not thread.is_alive()
