"""Statuses reach a real API server: only what is new, what matters first, and never over somebody else's change."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from tests.cluster.job_schedules import job_schedule, path
from tests.operator.test_reconciling import Stage, stage_at
from wakeboard.store.connection import connect
from wakeboard_operator.cluster_access import Cluster
from wakeboard_operator.status_writing import StatusWriter

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator

    from kubernetes.aio.client import ApiClient

    from tests.cluster.cluster import Cluster as TestCluster

pytestmark = [pytest.mark.anyio, pytest.mark.usefixtures("crds")]


class Desk:
    """A leader's reconciler and writer, for one namespace with one schedule."""

    def __init__(self, stage: Stage, cluster: Cluster, control_plane: TestCluster, namespace: str) -> None:
        self.stage, self.cluster, self._plane, self._path = stage, cluster, control_plane, path(namespace, "report")
        self.leads = True
        self.writer = self.another_writer(moving_s=0.0)

    def another_writer(self, **settings: Any) -> StatusWriter:
        reconciler = self.stage.reconciler
        chosen = {"per_second": 1000.0, "moving_s": 0.0, **settings}
        return StatusWriter(self.cluster, reconciler, "here", lambda: self.leads, **chosen)

    async def list(self) -> None:
        await self.stage.list(*(await self.cluster.listed()).resources)

    async def write(self) -> int:
        return await self.writer.write(self.stage.board.conn)

    async def change(self, statement: str) -> None:
        """Something happens on the board."""
        await self.stage.board.conn.execute(statement.encode())
        reconciler = self.stage.reconciler
        reconciler.dirty |= reconciler.mirror.keys_of(await self.stage.board.take_changes())

    def edit(self, document: dict[str, Any]) -> None:
        """Somebody else changes the resource."""
        self._plane.call("PATCH", self._path, document, "application/merge-patch+json")

    def seen(self) -> dict[str, Any]:
        return self._plane.call("GET", self._path)


@pytest.fixture
async def desk(control_plane: TestCluster, api: ApiClient, namespace: str, database: str) -> AsyncGenerator[Desk]:
    control_plane.call("POST", path(namespace), job_schedule())
    async with await connect(database) as conn:
        made = Desk(await stage_at(conn), Cluster(api, [namespace], "k8s:one"), control_plane, namespace)
        await made.list()
        yield made


ENQUEUE = """
insert into wakeboard.job_runs (job_type, definition_id, schedule)
select 'ping', id, 'x' from wakeboard.job_definitions
"""
NOTE = "insert into wakeboard.definition_changes (definition_id) select id from wakeboard.job_definitions"


async def test_what_says_nothing_new_is_not_written(desk: Desk) -> None:
    assert await desk.write() == 1
    version = desk.seen()["metadata"]["resourceVersion"]
    await desk.change(NOTE)
    await desk.list()
    assert await desk.write() == 0
    assert desk.seen()["metadata"]["resourceVersion"] == version


async def test_a_conflict_is_computed_anew_for_the_newer_version(desk: Desk) -> None:
    desk.edit({"metadata": {"labels": {"by": "somebody"}}})
    assert await desk.write() == 0
    assert desk.writer.conflicts == 1
    assert await desk.write() == 1
    assert desk.seen()["status"]["conditions"][0]["status"] == "True"
    assert desk.seen()["metadata"]["labels"] == {"by": "somebody"}


async def test_who_leads_no_more_writes_nothing(desk: Desk) -> None:
    desk.leads = False
    assert await desk.write() == 0
    assert (
        "observedGeneration" not in desk.seen().get("status", {}) or desk.seen()["status"]["observedGeneration"] == -1
    )


async def test_moving_values_wait_and_ride_along_with_a_transition(desk: Desk) -> None:
    await desk.write()
    desk.writer = desk.another_writer(moving_s=3600.0)
    await desk.change(ENQUEUE)
    await desk.change(NOTE)
    assert await desk.write() == 0
    assert desk.seen()["status"]["queued"] == 0
    await desk.change("select wakeboard.pause('all')")
    await desk.change(NOTE)
    assert await desk.write() == 1
    assert desk.seen()["status"]["queued"] == 1


async def test_moving_values_that_have_waited_are_written(desk: Desk) -> None:
    await desk.write()
    await desk.change(ENQUEUE)
    await desk.change(NOTE)
    assert await desk.write() == 1
    assert desk.seen()["status"]["queued"] == 1


async def test_a_resource_that_is_gone_is_forgotten(desk: Desk) -> None:
    desk.stage.reconciler.mirror.forget(next(iter(desk.stage.reconciler.mirror)))
    assert await desk.write() == 0
