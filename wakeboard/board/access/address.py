"""Logs in with a token in the address that the board prints, `http://127.0.0.1:8686/?token=…`, as Jupyter does.

Every user of a machine reaches its loopback addresses. The token shows that a browser belongs to the user who started
the board. The board answers the address with a cookie and the address without the token, so that the token stays in no
address bar, history or bookmark. The cookie holds an HMAC of the token: programs at other ports of the machine receive
it, and cannot make an address from it.
"""

from __future__ import annotations

import hashlib
import hmac
import os
import stat
from typing import TYPE_CHECKING, Final

from wakeboard.board.access.tokens import new_token
from wakeboard.board.access.viewer import RoleViewer, bearer_token, login_cookie
from wakeboard.errors import InvalidSettings
from wakeboard.process.system_user import system_user

if TYPE_CHECKING:
    from pathlib import Path

    from starlette.requests import HTTPConnection

    from wakeboard.board.access.viewer import KnownNamespaces, Viewer

PARAMETER: Final = "token"
MAX_LENGTH: Final = 200  # characters of a token in a file


class AddressAccess:
    """One token, whose owner is the user of the operating system who runs the board. Everything is allowed.

    `hint`: a sentence for the login page that says where the token is.
    """

    asks_for_token = True

    def __init__(self, token: str, hint: str) -> None:
        self.token, self.hint = token, hint

    async def viewer(self, request: HTTPConnection, known: KnownNamespaces) -> Viewer | None:  # noqa: ARG002
        """The user who runs the board, for the token or the cookie that was made from it."""
        token = bearer_token(request)
        accepted = self.accepts(token) if token is not None else _equal(login_cookie(request), self.cookie)
        return RoleViewer(system_user(), "operator") if accepted else None

    def accepts(self, given: str) -> bool:
        """Whether this is the token. The content of the cookie is none."""
        return _equal(given, self.token)

    @property
    def cookie(self) -> str:
        """What the cookie holds."""
        return hmac.new(self.token.encode(), b"cookie of the wakeboard board", hashlib.sha256).hexdigest()

    async def close(self) -> None:
        """Has opened nothing."""


def _equal(given: str, right: str) -> bool:
    return hmac.compare_digest(given.encode(), right.encode())


def kept_token(file: Path) -> str:
    """The token in a file that only this user can read, so that browsers stay logged in. Creates it if need be.

    A file of another user, or one that others can read, is replaced. Raises InvalidSettings if it cannot be written.
    """
    try:
        if (token := _read_own(file)) is not None:
            return token
        file.unlink(missing_ok=True)
        token = new_token()
        with os.fdopen(os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w", encoding="ascii") as opened:
            opened.write(token)
    except OSError as exc:
        raise InvalidSettings(f"the token of the web board in {file} cannot be kept: {exc.strerror}.") from exc
    return token


def _read_own(file: Path) -> str | None:
    try:
        descriptor = os.open(file, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    except OSError:
        return None
    with os.fdopen(descriptor, encoding="ascii", errors="replace") as opened:
        found = os.fstat(descriptor)
        if not stat.S_ISREG(found.st_mode) or found.st_uid != os.geteuid() or found.st_mode & 0o077:
            return None
        token = opened.read(MAX_LENGTH).strip()
    return token if len(token) >= len(new_token()) and token.isprintable() else None
