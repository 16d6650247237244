"""Asks a Kubernetes API server who a user is and what the user may do, and keeps the answers for 30 s.

Every client may send a token. So one that the API server refuses is not kept, a bounded number of unknown ones waits
for an answer, and those of users who have logged in do not wait behind them.

Permissions of the board are virtual subresources of `jobschedules.wakeboard.dev`: to see runs is `get
jobschedules/runs`, and each action is `create jobschedules/<permission>`, for example `create jobschedules/retry`. Any
Role may grant them. A failure of the API server is never a yes.
"""

from __future__ import annotations

import asyncio
import time
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any, Final

import aiohttp

from wakeboard.board.access.viewer import Permission
from wakeboard.board.expiring_cache import ExpiringCache
from wakeboard.errors import WakeboardError
from wakeboard.kube.api_server import ssl_context

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Mapping, Sequence

    from wakeboard.kube.api_server import ApiServer

GROUP: Final = "wakeboard.dev"
KEEP_S: Final = 30.0
TIMEOUT_S: Final = 10.0
MAX_KEPT: Final = 10_000
MAX_CONCURRENT: Final = 20  # questions about users who have logged in,
MAX_UNKNOWN: Final = 10  # and about tokens that nobody has logged in with in the last hour
MAX_UNKNOWN_WAITING: Final = 200
KNOWN_S: Final = 3600.0


class ReviewFailed(WakeboardError):
    """The API server did not answer whether something is allowed. It is refused until it does."""


class Reviews:
    """Reviews of the API groups authentication.k8s.io and authorization.k8s.io, each asked once in 30 s."""

    def __init__(self, server: ApiServer) -> None:
        self._server = server
        self._session: aiohttp.ClientSession | None = None
        self._slots, self._unknown = asyncio.Semaphore(MAX_CONCURRENT), asyncio.Semaphore(MAX_UNKNOWN)
        self._waiting = 0  # unknown tokens
        self._users: ExpiringCache[str] = ExpiringCache(keep_s=KEEP_S, most=MAX_KEPT)
        self._known: ExpiringCache[bool] = ExpiringCache(keep_s=KNOWN_S, most=MAX_KEPT)
        self._answers: ExpiringCache[bool] = ExpiringCache(keep_s=KEEP_S, most=MAX_KEPT)

    async def user_of(self, token: str) -> str | None:
        """The name of the token's user; None: the API server refuses the token. Raises ReviewFailed."""
        if (kept := self._users.get([token], time.monotonic())) is not None:
            return kept
        async with self._known_or_waiting(token) as slots:
            status, answer = await self._post("/apis/authentication.k8s.io/v1/selfsubjectreviews", token, {}, slots)
        if status == 401:  # noqa: PLR2004 - Unauthorized
            return None
        if status >= 300:  # noqa: PLR2004 - not a success
            raise ReviewFailed(f"the API server answered {status} to the question who has logged in")
        self._known.keep([token], value=True, now=time.monotonic())
        return self._users.keep([token], str(answer["status"]["userInfo"]["username"]), time.monotonic())

    async def self_may(self, token: str, permission: Permission, namespace: str | None) -> bool:
        """Whether the token's user has the permission in a namespace; None: in all. Raises ReviewFailed."""
        spec = {"resourceAttributes": attributes(permission, namespace)}
        return await self._review("selfsubjectaccessreviews", token, spec, ("self", token, permission, namespace))

    async def user_may(
        self, token: str, user: str, groups: tuple[str, ...], permission: Permission, namespace: str | None
    ) -> bool:
        """Whether a user has the permission, asked with the token of the board's own account. Raises ReviewFailed."""
        spec = {"user": user, "groups": list(groups), "resourceAttributes": attributes(permission, namespace)}
        return await self._review("subjectaccessreviews", token, spec, ("user", user, groups, permission, namespace))

    async def close(self) -> None:
        """Closes the connections. A later review opens new ones."""
        session, self._session = self._session, None
        if session is not None:
            await session.close()

    async def _review(self, kind: str, token: str, spec: Mapping[str, Any], key: Sequence[object]) -> bool:
        if (kept := self._answers.get(key, time.monotonic())) is not None:
            return kept
        status, answer = await self._post(f"/apis/authorization.k8s.io/v1/{kind}", token, spec, self._slots)
        if status >= 300:  # noqa: PLR2004 - not a success
            raise ReviewFailed(f"the API server answered {status} to the question whether this is allowed")
        return self._answers.keep(key, bool(answer["status"].get("allowed")), time.monotonic())

    @asynccontextmanager
    async def _known_or_waiting(self, token: str) -> AsyncGenerator[asyncio.Semaphore]:
        """The slots of users who have logged in, or of others, unless too many wait. Raises ReviewFailed."""
        if self._known.get([token], time.monotonic()):
            yield self._slots
            return
        if self._waiting >= MAX_UNKNOWN_WAITING:
            raise ReviewFailed("too many others log in now; try again in some seconds")
        self._waiting += 1
        try:
            yield self._unknown
        finally:
            self._waiting -= 1

    async def _post(self, path: str, token: str, spec: Mapping[str, Any], slots: asyncio.Semaphore) -> tuple[int, Any]:
        """The status and body of the answer."""
        headers = {"Authorization": f"Bearer {token}"}
        try:
            session = self._open_session()
            async with (
                asyncio.timeout(TIMEOUT_S),
                slots,
                session.post(self._server.url + path, json={"spec": spec}, headers=headers) as answer,
            ):
                return answer.status, await answer.json(content_type=None)
        except (aiohttp.ClientError, TimeoutError, OSError, ValueError) as exc:
            raise ReviewFailed(f"the API server did not answer ({type(exc).__name__})") from exc

    def _open_session(self) -> aiohttp.ClientSession:
        if self._session is None:
            connector = aiohttp.TCPConnector(ssl=ssl_context(self._server.ca_file))
            self._session = aiohttp.ClientSession(connector=connector, timeout=aiohttp.ClientTimeout(total=TIMEOUT_S))
        return self._session


def attributes(permission: Permission, namespace: str | None) -> dict[str, str]:
    """The resource attributes that stand for a permission."""
    viewing = permission is Permission.VIEW
    return {
        "group": GROUP,
        "resource": "jobschedules",
        "subresource": "runs" if viewing else permission.value,
        "verb": "get" if viewing else "create",
        **({"namespace": namespace} if namespace else {}),
    }
