"""The pages for errors: not found, the database is away, a query took too long."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from starlette.exceptions import HTTPException
from starlette.responses import HTMLResponse

from wakeboard.board.templating import environment
from wakeboard.errors import DatabaseUnavailable, InvalidValue, QueryTimedOut, WakeboardError

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping

    from starlette.requests import Request
    from starlette.responses import Response


class NotFound(WakeboardError):
    """The page, run or schedule does not exist. The message says which."""


def _status(error: Exception) -> int:
    match error:
        case HTTPException():
            return error.status_code
        case NotFound():
            return 404
        case InvalidValue():
            return 400
        case QueryTimedOut():
            return 504
        case DatabaseUnavailable():
            return 503
        case _:
            return 500


async def _show(request: Request, error: Exception) -> Response:
    status = _status(error)
    message = error.detail if isinstance(error, HTTPException) else str(error)
    template = environment().get_template("error.html")
    prefix = request.scope.get("root_path", "")
    return HTMLResponse(template.render(status=status, message=message, prefix=prefix), status)


ERROR_HANDLERS: Mapping[Any, Callable[[Request, Exception], Awaitable[Response]]] = {
    HTTPException: _show,
    WakeboardError: _show,
}
