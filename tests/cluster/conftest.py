"""A real API server for tests: one shared by the whole run, or one of the test's own; and one with a real node."""

from __future__ import annotations

import asyncio
import os
import re
import secrets
from typing import TYPE_CHECKING, cast

import pytest

from testbed.cluster.control_plane import ControlPlane
from testbed.cluster.job_pods import make_job_account
from testbed.cluster.job_schedules import install_crds
from testbed.cluster.node import Node
from testbed.cluster.node_requirements import missing_requirements
from testbed.cluster.shared_control_plane import shared_control_plane
from tests.cluster.job_pool import Pool
from tests.conftest import folder_of_the_run
from wakeboard_operator.kube_client import login

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, AsyncIterator, Iterator
    from pathlib import Path

    from testbed.cluster.cluster import Cluster
    from wakeboard.kube.client import ApiClient

LONGEST_NAME = 40  # characters of a test's name in its namespace's


@pytest.fixture(scope="package")
def control_plane(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """A running API server, shared with all tests of this folder: give cluster-wide things names of your own."""
    with shared_control_plane(folder_of_the_run(tmp_path_factory) / "cluster") as cluster:
        yield cluster


@pytest.fixture
def own_control_plane(tmp_path: Path) -> Iterator[ControlPlane]:
    """A control plane that the test may stop, kill and restart, with an audit log; it takes three seconds to start."""
    with ControlPlane(tmp_path / "cluster", audit=True) as own:
        yield own


@pytest.fixture(scope="package")
def real_node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Node]:
    """A cluster that runs pods. Tests that ask for it run one after the other, in one process.

    It ends with the last of them: an idle node takes CPU from the tests of other folders.
    """
    if missing := missing_requirements():
        words = f"A real node needs {', '.join(missing)}."
        if os.environ.get("CI"):
            pytest.fail(words)
        pytest.skip(words)
    with Node(tmp_path_factory.mktemp("node") / "cluster") as node:
        yield node


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """One test process alone starts the node: with `--dist loadgroup`, a group stays together."""
    for item in items:
        if "real_node" in getattr(item, "fixturenames", ()):
            item.add_marker(pytest.mark.xdist_group("node"))


@pytest.fixture
def namespace(control_plane: Cluster, request: pytest.FixtureRequest) -> Iterator[str]:
    """The name of a fresh namespace of the shared API server, named after the test."""
    test = cast("pytest.Item", request.node)  # pyright: ignore[reportUnknownMemberType] - pytest 9.1 gives it no type
    story = re.sub("[^a-z0-9]+", "-", test.name.lower().removeprefix("test_"))[:LONGEST_NAME]
    name = f"{story}-{secrets.token_hex(3)}"
    control_plane.call("POST", "/api/v1/namespaces", {"metadata": {"name": name}})
    yield name
    control_plane.call("DELETE", f"/api/v1/namespaces/{name}")


@pytest.fixture(scope="package")
def crds(control_plane: Cluster) -> None:
    """The project's custom resources are known to the shared API server."""
    install_crds(control_plane)


@pytest.fixture
async def api(control_plane: Cluster) -> AsyncGenerator[ApiClient]:
    """The administrator's client of the shared API server."""
    async with login(control_plane.admin) as client:
        yield client


@pytest.fixture
async def pool(control_plane: Cluster, namespace: str, tmp_path: Path) -> AsyncIterator[Pool]:
    """A pool of the job type `job`, with the rights that the chart gives it in the namespace of the test."""
    token = tmp_path / "token"
    token.write_text(await asyncio.to_thread(make_job_account, control_plane, namespace))
    pool = Pool(control_plane, namespace, token)
    yield pool
    await pool.close()
