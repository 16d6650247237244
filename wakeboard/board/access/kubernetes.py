"""Logs in with the user's own token of the Kubernetes cluster. RBAC decides. The board needs no rights of its own."""

from __future__ import annotations

from typing import TYPE_CHECKING

from wakeboard.board.access.reviewed_viewer import ReviewedViewer, visible_namespaces
from wakeboard.board.access.viewer import passed_token, token_of

if TYPE_CHECKING:
    from starlette.requests import HTTPConnection

    from wakeboard.board.access.reviews import Reviews
    from wakeboard.board.access.viewer import KnownNamespaces, Permission, Viewer


class KubernetesAccess:
    """Asks the API server with the user's token."""

    asks_for_token = True

    def __init__(self, reviews: Reviews) -> None:
        self._reviews = reviews

    async def viewer(self, request: HTTPConnection, known: KnownNamespaces) -> Viewer | None:
        """The user of the request's token. Raises ReviewFailed."""
        token = passed_token(request) or token_of(request)
        name = await self._reviews.user_of(token) if token else None
        if name is None:
            return None

        async def may(permission: Permission, namespace: str | None) -> bool:
            return await self._reviews.self_may(token, permission, namespace)

        return ReviewedViewer(name, await visible_namespaces(known, may), may)

    async def close(self) -> None:
        """Closes the connections to the API server."""
        await self._reviews.close()
