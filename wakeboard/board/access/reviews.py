"""Asks a Kubernetes API server who a user is and what the user may do, and keeps the answers for 30 s.

Permissions of the board are virtual subresources of `jobschedules.wakeboard.dev`: to see runs is `get
jobschedules/runs`, and each action is `create jobschedules/<permission>`, for example `create jobschedules/retry`. Any
Role may grant them. A failure of the API server is never a yes.
"""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING, Any, Final

import aiohttp

from wakeboard.api_server import ssl_context
from wakeboard.board.access.viewer import Permission
from wakeboard.errors import WakeboardError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from wakeboard.api_server import ApiServer

GROUP: Final = "wakeboard.dev"
KEEP_S: Final = 30.0
TIMEOUT_S: Final = 10.0
MAX_KEPT: Final = 10_000
MAX_CONCURRENT: Final = 20


class ReviewFailed(WakeboardError):
    """The API server did not answer whether something is allowed. It is refused until it does."""


class Reviews:
    """Reviews of the API groups authentication.k8s.io and authorization.k8s.io, each asked once in 30 s."""

    def __init__(self, server: ApiServer) -> None:
        self._server = server
        self._session: aiohttp.ClientSession | None = None
        self._slots = asyncio.Semaphore(MAX_CONCURRENT)
        self._kept: dict[tuple[object, ...], tuple[float, Any]] = {}

    async def user_of(self, token: str) -> str | None:
        """The name of the token's user; None: the API server refuses the token. Raises ReviewFailed."""
        key = ("user", token)
        if (kept := self._recall(key)) is not None:
            return kept or None
        status, answer = await self._post("/apis/authentication.k8s.io/v1/selfsubjectreviews", token, {})
        if status == 401:  # noqa: PLR2004 - Unauthorized
            return self._keep(key, "") or None
        if status >= 300:  # noqa: PLR2004 - not a success
            raise ReviewFailed(f"the API server answered {status} to the question who has logged in")
        return self._keep(key, str(answer["status"]["userInfo"]["username"]))

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

    async def _review(self, kind: str, token: str, spec: Mapping[str, Any], key: tuple[object, ...]) -> bool:
        if (kept := self._recall(key)) is not None:
            return kept
        status, answer = await self._post(f"/apis/authorization.k8s.io/v1/{kind}", token, spec)
        if status >= 300:  # noqa: PLR2004 - not a success
            raise ReviewFailed(f"the API server answered {status} to the question whether this is allowed")
        return self._keep(key, bool(answer["status"].get("allowed")))

    async def _post(self, path: str, token: str, spec: Mapping[str, Any]) -> tuple[int, Any]:
        """The status and body of the answer."""
        headers = {"Authorization": f"Bearer {token}"}
        try:
            session = self._open_session()
            async with (
                self._slots,
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

    def _recall(self, key: tuple[object, ...]) -> Any:
        kept = self._kept.get(key)
        return kept[1] if kept and time.monotonic() - kept[0] < KEEP_S else None

    def _keep(self, key: tuple[object, ...], answer: Any) -> Any:
        if len(self._kept) >= MAX_KEPT:
            self._kept.clear()
        self._kept[key] = (time.monotonic(), answer)
        return answer


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
