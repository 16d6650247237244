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

from wakeboard.board.access.viewer import Permission
from wakeboard.board.expiring_cache import ExpiringCache
from wakeboard.errors import WakeboardError
from wakeboard.kube.client import UNAUTHORIZED, ApiClient, ApiError

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Mapping, Sequence

    from wakeboard.kube.api_server import ApiServer

GROUP: Final = "wakeboard.dev"
KEEP_S: Final = 30.0
TIMEOUT_S: Final = 10.0
MAX_KEPT: Final = 10_000
MAX_CONCURRENT: Final = 20  # questions about users who have logged in,
MAX_UNKNOWN: Final = 10  # and about tokens that no user has logged in with in the last hour
MAX_UNKNOWN_WAITING: Final = 200
KNOWN_S: Final = 3600.0


class ReviewFailed(WakeboardError):
    """The API server did not answer whether something is allowed. It is refused until it does."""


class Reviews:
    """Reviews of the API groups authentication.k8s.io and authorization.k8s.io, each asked once in 30 s."""

    def __init__(self, server: ApiServer) -> None:
        self._server = server
        self._client: ApiClient | None = None
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
            path = "/apis/authentication.k8s.io/v1/selfsubjectreviews"
            answer = await self._post(path, token, {}, slots, "who has logged in")
        if answer is None:
            return None
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
        client, self._client = self._client, None
        if client is not None:
            await client.close()

    async def _review(self, kind: str, token: str, spec: Mapping[str, Any], key: Sequence[object]) -> bool:
        if (kept := self._answers.get(key, time.monotonic())) is not None:
            return kept
        question = "whether this is allowed"
        answer = await self._post(f"/apis/authorization.k8s.io/v1/{kind}", token, spec, self._slots, question)
        if answer is None:
            raise ReviewFailed(f"the API server answered {UNAUTHORIZED} to the question {question}")
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

    async def _post(
        self, path: str, token: str, spec: Mapping[str, Any], slots: asyncio.Semaphore, question: str
    ) -> dict[str, Any] | None:
        """The answer; None: the token is refused. Raises ReviewFailed."""
        try:
            async with asyncio.timeout(TIMEOUT_S), slots:
                self._client = self._client or ApiClient(self._server, agent="wakeboard-board")
                return await self._client.request("POST", path, body={"spec": spec}, token=token)
        except (ApiError, OSError, ValueError) as exc:  # OSError: TimeoutError, too
            status = exc.status if isinstance(exc, ApiError) else 0
            if status == UNAUTHORIZED:
                return None
            if status:
                raise ReviewFailed(f"the API server answered {status} to the question {question}") from exc
            raise ReviewFailed(f"the API server did not answer ({type(exc.__cause__ or exc).__name__})") from exc


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
