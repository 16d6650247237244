"""The board asks a real API server, with the user's own token, what the user may see and do."""

from __future__ import annotations

from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

import pytest
from starlette.requests import Request

from wakeboard.board.access import KubernetesAccess, Permission
from wakeboard.board.access.reviews import ReviewFailed, Reviews
from wakeboard.kube.api_server import ApiServer

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator

    from testbed.cluster.cluster import Cluster
    from wakeboard.board.access import Viewer

pytestmark = [pytest.mark.anyio, pytest.mark.usefixtures("crds")]


@asynccontextmanager
async def reviews_of(cluster: Cluster) -> AsyncGenerator[Reviews]:
    reviews = Reviews(ApiServer(cluster.url, cluster.folder / "pki" / "ca.crt"))
    yield reviews
    await reviews.close()


def account(cluster: Cluster, namespace: str, name: str) -> str:
    """A service account of the namespace, and its token."""
    cluster.kubectl("-n", namespace, "create", "serviceaccount", name)
    return cluster.kubectl("-n", namespace, "create", "token", name).strip()


def grant(cluster: Cluster, namespace: str, name: str, *rules: tuple[str, str], home: str = "") -> None:
    """Grants the account of the namespace `home`, or of this one, these (verb, subresource) of jobschedules here."""
    cluster.apply(
        {
            "apiVersion": "rbac.authorization.k8s.io/v1",
            "kind": "Role",
            "metadata": {"name": name, "namespace": namespace},
            "rules": [
                {"apiGroups": ["wakeboard.dev"], "resources": [f"jobschedules/{part}"], "verbs": [verb]}
                for verb, part in rules
            ],
        },
        {
            "apiVersion": "rbac.authorization.k8s.io/v1",
            "kind": "RoleBinding",
            "metadata": {"name": name, "namespace": namespace},
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": name},
            "subjects": [{"kind": "ServiceAccount", "name": name, "namespace": home or namespace}],
        },
    )


async def viewer_of(access: KubernetesAccess, *namespaces: str, **headers: str) -> Viewer | None:
    async def known() -> list[str]:
        return list(namespaces)

    pairs = [(name.replace("_", "-").encode(), value.encode()) for name, value in headers.items()]
    return await access.viewer(Request({"type": "http", "headers": pairs}), known)


async def test_rbac_decides_what_the_owner_of_a_token_sees_and_does(control_plane: Cluster, namespace: str):
    token = account(control_plane, namespace, "anna")
    grant(control_plane, namespace, "anna", ("get", "runs"), ("create", "retry"))

    async with reviews_of(control_plane) as reviews:
        viewer = await viewer_of(KubernetesAccess(reviews), namespace, "default", authorization=f"Bearer {token}")

        assert viewer
        assert viewer.name == f"system:serviceaccount:{namespace}:anna"
        assert viewer.namespaces == {namespace}
        assert await viewer.may(Permission.RETRY, namespace)
        assert not await viewer.may(Permission.CANCEL, namespace)
        assert not await viewer.may(Permission.RETRY, "default")
        assert not await viewer.may(Permission.RETRY, None)


async def test_an_account_without_grants_sees_no_namespace(control_plane: Cluster, namespace: str):
    token = account(control_plane, namespace, "nobody")

    async with reviews_of(control_plane) as reviews:
        viewer = await viewer_of(KubernetesAccess(reviews), namespace, authorization=f"Bearer {token}")

    assert viewer
    assert viewer.namespaces == frozenset()


@pytest.mark.parametrize("token", ["", "wrong", "a.b.c"])
async def test_a_token_that_the_api_server_refuses_must_log_in(control_plane: Cluster, token: str):
    async with reviews_of(control_plane) as reviews:
        assert await viewer_of(KubernetesAccess(reviews), authorization=f"Bearer {token}") is None


async def test_without_the_api_server_nothing_is_allowed(control_plane: Cluster):
    gone = Reviews(ApiServer("https://127.0.0.1:9", control_plane.folder / "pki" / "ca.crt"))

    with pytest.raises(ReviewFailed):
        await viewer_of(KubernetesAccess(gone), authorization="Bearer x")
    await gone.close()
