"""Trusts the user and the groups in the headers of an authenticating proxy that knows a shared secret.

The proxy sends the secret in `X-Wakeboard-Proxy-Secret`. A request without it must log in. Proxies and servers disagree
about headers that look alike (`X_Forwarded_User`, repeated ones), so a request with such headers is refused as a whole.
RBAC of the cluster decides, as the board asks with its own account (SubjectAccessReview).
"""

from __future__ import annotations

import hmac
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from wakeboard.board.access.reviewed_viewer import ReviewedViewer, visible_namespaces
from wakeboard.board.access.reviews import ReviewFailed
from wakeboard.errors import InvalidSettings, WakeboardError
from wakeboard.kube.api_server import SERVICE_ACCOUNT

if TYPE_CHECKING:
    from pathlib import Path

    from starlette.requests import HTTPConnection

    from wakeboard.board.access.reviews import Reviews
    from wakeboard.board.access.viewer import KnownNamespaces, Permission, Viewer

SECRET_HEADER: Final = "x-wakeboard-proxy-secret"  # noqa: S105 - its name
MIN_SECRET_LENGTH: Final = 16
MAX_GROUPS: Final = 200
_LIKE_A_HEADER: Final = re.compile(r"[^a-z0-9]")


class AmbiguousHeaders(WakeboardError):
    """A request names its user in a header that is repeated, or in one that looks like the right one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ProxyHeaders:
    """The names of the headers of the proxy, in lower case. The groups are separated by commas."""

    user: str = "x-forwarded-user"
    groups: str = "x-forwarded-groups"


class ProxyAccess:
    """A login by a proxy. `secret` has at least 16 characters. `token_file`: the token of the board's account."""

    asks_for_token = False

    def __init__(
        self,
        reviews: Reviews,
        *,
        secret: str,
        headers: ProxyHeaders | None = None,
        token_file: Path = SERVICE_ACCOUNT / "token",
    ) -> None:
        if len(secret) < MIN_SECRET_LENGTH:
            raise InvalidSettings(f"the secret of the proxy must have at least {MIN_SECRET_LENGTH} characters.")
        self._reviews, self._secret = reviews, secret.encode()
        self._headers, self._token_file = headers or ProxyHeaders(), token_file

    async def viewer(self, request: HTTPConnection, known: KnownNamespaces) -> Viewer | None:
        """The user whom the proxy names. Raises AmbiguousHeaders and ReviewFailed."""
        self._require_plain_headers(request)
        given = request.headers.get(SECRET_HEADER, "").encode("latin-1")
        if not hmac.compare_digest(given, self._secret):
            return None
        user = _text(request, self._headers.user).strip()
        if not user:
            return None
        listed = _text(request, self._headers.groups).split(",")[:MAX_GROUPS]
        groups = tuple(group.strip() for group in listed if group.strip())
        token = self._own_token()

        async def may(permission: Permission, namespace: str | None) -> bool:
            return await self._reviews.user_may(token, user, groups, permission, namespace)

        return ReviewedViewer(user, await visible_namespaces(known, may), may)

    async def close(self) -> None:
        """Closes the connections to the API server."""
        await self._reviews.close()

    def _require_plain_headers(self, request: HTTPConnection) -> None:
        names = [name.decode("latin-1").lower() for name, _ in request.scope["headers"]]
        for expected in (self._headers.user, self._headers.groups, SECRET_HEADER):
            alike = [name for name in names if _bare(name) == _bare(expected)]
            if alike not in ([], [expected]):
                raise AmbiguousHeaders(f"the request repeats the header {expected}, or has one that looks like it")

    def _own_token(self) -> str:
        try:
            return self._token_file.read_text("utf-8").strip()
        except OSError as exc:
            raise ReviewFailed(f"the board has no account in the cluster: {self._token_file}: {exc.strerror}") from exc


def _text(request: HTTPConnection, name: str) -> str:
    """The text of a header. Raises AmbiguousHeaders if it is not UTF-8: RBAC may know the user by another name."""
    try:
        return request.headers.get(name, "").encode("latin-1").decode("utf-8")
    except UnicodeDecodeError:
        raise AmbiguousHeaders(f"the header {name} is not UTF-8") from None


def _bare(name: str) -> str:
    return _LIKE_A_HEADER.sub("", name.lower())
