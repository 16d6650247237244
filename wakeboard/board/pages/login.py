"""The login page, for ways to log in that ask for a token, and the logout.

The token is kept in a cookie that scripts cannot read. Browsers send it to every port of the board's host, so the page
leads from localhost, where other programs listen, to a name that only the board has. Logging out deletes it in the
browser only. It is in no URL and no log.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final
from urllib.parse import parse_qs

from starlette.responses import HTMLResponse, PlainTextResponse, RedirectResponse
from starlette.routing import Route

from wakeboard.board.access.address import AddressAccess
from wakeboard.board.access.viewer import cookie_name
from wakeboard.board.paths import asset_paths, host_name, safe_path
from wakeboard.board.routing import body_of, set_login_cookie
from wakeboard.board.state import LOOPBACK_HOSTS, OWN_HOST
from wakeboard.board.templating import render

if TYPE_CHECKING:
    from starlette.requests import Request
    from starlette.responses import Response

    from wakeboard.board.state import Board

MAX_TOKEN: Final = 3500  # characters: browsers keep cookies of up to 4 KiB
MAX_BODY: Final = 16_384  # bytes


async def show_login(request: Request) -> Response:
    """GET /login."""
    return _page(request, str(request.query_params.get("next", "")), "")


async def log_in(request: Request) -> Response:
    """POST /login with the fields `token` and `next`."""
    board: Board = request.app.state.board
    body = await body_of(request, MAX_BODY)
    if body is None:
        return PlainTextResponse("413: the form is too large.\n", 413)
    form = {name: values[-1] for name, values in parse_qs(body.decode("utf-8", "replace")).items()}
    token, wanted = form.get("token", "").strip(), form.get("next", "")
    if not board.options.access.asks_for_token:
        return PlainTextResponse("404: this board has no login page.\n", 404)
    if not token or len(token) > MAX_TOKEN or not token.isascii() or not token.isprintable():
        return _page(request, wanted, "Enter a token.", 400)
    request.scope["headers"] = [*_without_login(request), (b"authorization", f"Bearer {token}".encode())]
    viewer = await board.viewer(type(request)(request.scope, request.receive))
    if viewer is None:
        return _page(request, wanted, "This token is not valid.", 401)
    prefix = request.scope.get("root_path", "")
    answer = RedirectResponse(prefix + safe_path(wanted), 303)
    set_login_cookie(answer, request, token)
    return answer


async def log_out(request: Request) -> Response:
    """POST /logout."""
    prefix = request.scope.get("root_path", "")
    answer = RedirectResponse(f"{prefix}/login", 303)
    board: Board = request.app.state.board
    secure = board.is_secure(request)
    name = cookie_name(request, secure=secure)
    answer.delete_cookie(name, path=f"{prefix}/", secure=secure, httponly=True, samesite="strict")
    return answer


def _without_login(request: Request) -> list[tuple[bytes, bytes]]:
    return [(name, value) for name, value in request.scope["headers"] if name not in {b"authorization", b"cookie"}]


def _page(request: Request, wanted: str, problem: str, status: int = 200) -> HTMLResponse:
    board: Board = request.app.state.board
    prefix = request.scope.get("root_path", "")
    access = board.options.access
    html = render(
        "login.html",
        prefix=prefix,
        wanted=safe_path(wanted),
        problem=problem,
        hint=access.hint if isinstance(access, AddressAccess) else "",
        own_address="" if isinstance(access, AddressAccess) else _own_address(request, prefix + safe_path(wanted)),
        board_name=board.options.name,
        asset=asset_paths(prefix),
    )
    return HTMLResponse(html, status)


def _own_address(request: Request, path: str) -> str:
    """The address of a path at OWN_HOST; "" if the browser uses that name already, or one that is not of loopback."""
    host = request.headers.get("host", "").lower()
    name = host_name(host)
    return f"http://{OWN_HOST}{host.removeprefix(name)}{path}" if name in LOOPBACK_HOSTS - {OWN_HOST} else ""


ROUTES = [
    Route("/login", show_login, methods=["GET"]),
    Route("/login", log_in, methods=["POST"]),
    Route("/logout", log_out, methods=["POST"]),
]
