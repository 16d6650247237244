"""Assembles the board: routes, checks of every request, and the state that they share."""

from __future__ import annotations

from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.routing import Mount

from wakeboard.board.api.registry import API_ROUTES
from wakeboard.board.pages import ROUTES
from wakeboard.board.pages.errors import ERROR_HANDLERS
from wakeboard.board.security import Security
from wakeboard.board.state import Board, BoardOptions
from wakeboard.board.static_files import StaticAssets

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator


def app(options: BoardOptions) -> Starlette:
    """The board as an ASGI application. Mount it under any path of another one, or serve it by itself."""
    board = Board(options)

    @asynccontextmanager
    async def lifespan(_: Starlette) -> AsyncGenerator[None]:
        board.bulk_actions.start()
        yield
        await board.close()

    application = Starlette(
        routes=[*ROUTES, *API_ROUTES, Mount("/static", StaticAssets())],
        middleware=[Middleware(Security, options=options)],
        exception_handlers=ERROR_HANDLERS,
        lifespan=lifespan,
    )
    application.router.redirect_slashes = False  # security.py does it
    application.state.board = board
    return application
