"""Who may see and do what: permissions, viewers, and the protocol of a way to log in."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Final, Literal, Protocol, TypeAlias

from wakeboard.board.problem_details import is_of_api
from wakeboard.process.system_user import system_user

if TYPE_CHECKING:
    from collections.abc import Mapping

    from starlette.requests import HTTPConnection

MAX_TOKEN: Final = 8192  # characters of a token; a longer one is none
PASSED_TOKEN: Final = "x-wakeboard-authorization"  # noqa: S105 - a header, which has `Bearer …`
_OF_BROWSERS: Final = ("origin", "sec-fetch-site", "cookie")
TOKEN_COOKIE: Final = "wakeboard-board"  # noqa: S105 - the beginning of its name


class Permission(StrEnum):
    """What a viewer may do. Each action of the board needs one of them."""

    VIEW = "view"
    RETRY = "retry"
    CANCEL = "cancel"
    REPLAY = "replay"
    DISCARD = "discard"
    RELEASE = "release"
    RUN_NOW = "run"
    PAUSE = "pause"
    LIMIT = "limit"
    REVEAL = "reveal"  # see values that are masked because of their key


KnownNamespaces: TypeAlias = Callable[[], Awaitable[Sequence[str]]]
Role: TypeAlias = Literal["viewer", "operator"]
ROLES: Final[Mapping[Role, frozenset[Permission]]] = {
    "viewer": frozenset({Permission.VIEW}),
    "operator": frozenset(Permission),
}


class Viewer(Protocol):
    """A user who has logged in, or the user of a local board."""

    @property
    def name(self) -> str:
        """The name for the audit log."""
        ...

    @property
    def namespaces(self) -> frozenset[str] | None:
        """The namespaces whose schedules and runs are shown; None: all, and runs without a schedule."""
        ...

    async def may(self, permission: Permission, namespace: str | None) -> bool:
        """Whether an action is allowed in a namespace; None: on what belongs to no namespace."""
        ...


class Access(Protocol):
    """A way to log in."""

    @property
    def asks_for_token(self) -> bool:
        """Whether the login page has a field for a token."""
        ...

    async def viewer(self, request: HTTPConnection, known: KnownNamespaces) -> Viewer | None:
        """The viewer who sent the request; None: the request must log in first. Raises WakeboardError.

        `known` lists the namespaces that have schedules.
        """
        ...

    async def close(self) -> None:
        """Closes connections that it has opened. The board calls it when it stops."""
        ...


@dataclass(frozen=True, slots=True)
class RoleViewer:
    """A viewer with one role in all namespaces."""

    name: str
    role: Role
    namespaces: frozenset[str] | None = None

    async def may(self, permission: Permission, namespace: str | None) -> bool:  # noqa: ARG002
        """Whether the role has the permission."""
        return permission in ROLES[self.role]


class LocalAccess:
    """No login, for a board that only its user can reach. Everything is allowed."""

    asks_for_token = False

    async def viewer(self, request: HTTPConnection, known: KnownNamespaces) -> Viewer | None:  # noqa: ARG002
        """The user of the operating system who runs the board."""
        return RoleViewer(system_user(), "operator")

    async def close(self) -> None:
        """Has opened nothing."""


def token_of(request: HTTPConnection) -> str:
    """The token of a request: `Authorization: Bearer …`, or the cookie of the login page; "" for none."""
    bearer = bearer_token(request)
    token = login_cookie(request) if bearer is None else bearer
    return token if len(token) <= MAX_TOKEN else ""


def passed_token(request: HTTPConnection) -> str | None:
    """The token that `kubectl wakeboard` sends through the proxy of an API server; None without it.

    The API server takes the header `Authorization` for itself, so the plugin sends its token in one more header
    (docs/decisions/0035). It counts for the JSON API only, and never in a request that a browser may have sent.
    """
    given = request.headers.getlist(PASSED_TOKEN)
    if len(given) != 1 or not is_of_api(request.scope) or any(name in request.headers for name in _OF_BROWSERS):
        return None
    scheme, _, token = given[0].partition(" ")
    return token.strip() if scheme.lower() == "bearer" and len(token) <= MAX_TOKEN else None


def bearer_token(request: HTTPConnection) -> str | None:
    """The token in `Authorization: Bearer …`; None without this header."""
    scheme, _, given = request.headers.get("authorization", "").partition(" ")
    return given.strip() if scheme.lower() == "bearer" else None


def cookie_name(request: HTTPConnection, *, secure: bool) -> str:
    """The name of the cookie of the login page.

    Cookies know no ports, so the name contains the port of the board and the path under which it is mounted. Over HTTPS
    the prefix __Host- keeps other hosts of the domain from setting the cookie; it requires the path /.
    """
    root = request.scope.get("root_path", "")
    _, colon, port = request.headers.get("host", "").rpartition(":")
    name = TOKEN_COOKIE + (f"-{port}" if colon and port.isdecimal() else "") + re.sub(r"[^A-Za-z0-9]+", "-", root)
    return f"__Host-{name}" if secure and not root else name


def login_cookie(request: HTTPConnection) -> str:
    """The content of the cookie of the login page; "" for none."""
    cookies = request.cookies
    return cookies.get(cookie_name(request, secure=True)) or cookies.get(cookie_name(request, secure=False), "")
