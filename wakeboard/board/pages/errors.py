"""The pages for errors: not found, the database is away, a query took too long."""

from __future__ import annotations

from http import HTTPStatus
from typing import TYPE_CHECKING, Any, Final

from starlette.exceptions import HTTPException
from starlette.responses import HTMLResponse

from wakeboard.board.access.proxy import AmbiguousHeaders
from wakeboard.board.access.reviews import ReviewFailed
from wakeboard.board.paths import asset_paths
from wakeboard.board.problem_details import is_of_api, problem
from wakeboard.board.templating import render
from wakeboard.errors import (
    DatabaseUnavailable,
    Forbidden,
    InvalidValue,
    MissingRight,
    QueryTimedOut,
    SchemaMismatch,
    WakeboardError,
)
from wakeboard.text.humanize import as_sentence

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping

    from starlette.requests import Request
    from starlette.responses import Response

    from wakeboard.board.state import Board


class NotFound(WakeboardError):
    """The page, run or schedule does not exist. The message says which."""


_STATUSES: Final[tuple[tuple[type[Exception], int], ...]] = (
    (NotFound, 404),
    (InvalidValue, 400),
    (AmbiguousHeaders, 400),
    (Forbidden, 403),
    (MissingRight, 403),
    (QueryTimedOut, 504),
    (ReviewFailed, 503),
    (DatabaseUnavailable, 503),
    (SchemaMismatch, 503),
)

_HEADINGS: Final = {
    400: "Invalid address",
    403: "Not permitted",
    404: "Not found",
    503: "Not available now",
    504: "This took too long",
}


def _status(error: Exception) -> int:
    if isinstance(error, HTTPException):
        return error.status_code
    return next((status for kind, status in _STATUSES if isinstance(error, kind)), 500)


def _text(error: Exception) -> str:
    return error.with_hint if isinstance(error, WakeboardError) else str(error)


async def _show(request: Request, error: Exception) -> Response:
    status = _status(error)
    message = error.detail if isinstance(error, HTTPException) else _text(error)
    if message == HTTPStatus.NOT_FOUND.phrase:  # no route matched
        message = "The board has no page at this address."
    if is_of_api(request.scope):
        return problem(status, message, getattr(error, "headers", None))
    board: Board = request.app.state.board
    prefix = request.scope.get("root_path", "")
    html = render(
        "error.html",
        heading=_HEADINGS.get(status, "Error"),
        status=status,
        message=as_sentence(message),
        board_name=board.options.name,
        prefix=prefix,
        asset=asset_paths(prefix),
    )
    return HTMLResponse(html, status)


ERROR_HANDLERS: Mapping[Any, Callable[[Request, Exception], Awaitable[Response]]] = {
    HTTPException: _show,
    WakeboardError: _show,
}
