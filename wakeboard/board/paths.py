"""Paths inside the board: of a request, of a page to go to next, and of a static file; and the host of a request."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final
from urllib.parse import quote

from wakeboard.board.static_files import assets

if TYPE_CHECKING:
    from collections.abc import Callable

    from starlette.requests import Request


LONGEST_NEXT: Final = 3000  # bytes of a redirect: proxies refuse an answer whose headers have more than 4 or 8 KiB
_UNQUOTED: Final = ":/%#?=@[]!$&'()*+,;"  # what a redirect leaves as it is


def host_name(host: str) -> str:
    """The Host header without its port: `localhost:8080` -> `localhost`, `[::1]:80` -> `[::1]`."""
    name, colon, port = host.rpartition(":")
    return name if colon and port.isdecimal() else host


def path_of(request: Request) -> str:
    """The path of a request inside the board, without its query."""
    return request.scope["path"].removeprefix(request.scope.get("root_path", ""))


def path_and_query(request: Request) -> str:
    """The path of a request inside the board, with its query."""
    return path_of(request) + (f"?{request.url.query}" if request.url.query else "")


def safe_path(wanted: str, otherwise: str = "/") -> str:
    """The path that a link or a form names as the next page, if it is inside the board and of an ordinary length."""
    if not wanted.startswith("/") or wanted.startswith("//") or "\\" in wanted or not wanted.isprintable():
        return otherwise
    return wanted if len(quote(wanted, safe=_UNQUOTED)) <= LONGEST_NEXT else otherwise


def asset_paths(prefix: str) -> Callable[[str], str]:
    """For templates: a function from the name of a static file to its path. `prefix`: where the board is mounted."""

    def asset(name: str) -> str:
        return f"{prefix}/static/{assets()[name][0]}"

    return asset
