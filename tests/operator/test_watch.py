"""Changes: the latest of each resource, and that a watch which does not deliver them begins again."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, cast

import pytest

from tests.operator.examples import resource
from wakeboard.kube.watch import Watch
from wakeboard_operator import watch
from wakeboard_operator.kube_client import Listing
from wakeboard_operator.watch import Deleted, PendingChanges, WatchSupervisor

if TYPE_CHECKING:
    from wakeboard.kube.client import ApiClient

pytestmark = pytest.mark.anyio

PATH = "/apis/wakeboard.dev/v1alpha1/jobschedules"


def document(name: str = "report", uid: str = "u1", version: str = "100") -> dict[str, Any]:
    """A JobSchedule as the API server sends it."""
    return {"metadata": {"namespace": "billing", "name": name, "uid": uid, "resourceVersion": version}}


async def test_a_burst_of_changes_is_the_latest_of_each() -> None:
    changes = PendingChanges()
    for version in range(1000):
        changes.changed(document(f"s{version % 3}", version=str(version)), deleted=False)
    await changes.wait()
    taken = changes.take()
    versions = {found.resource_version for found in taken.values() if not isinstance(found, Deleted)}
    assert versions == {"997", "998", "999"}
    assert changes.take() == {}


async def test_a_deletion_takes_the_place_of_what_came_before() -> None:
    changes = PendingChanges()
    changes.changed(document(), deleted=False)
    changes.changed(document(), deleted=True)
    assert changes.take() == {("billing", "report"): Deleted("u1")}
    changes.changed(document(uid="u2"), deleted=False)
    assert changes.take_deleted() == {"u1"}
    assert changes.take_deleted() == set()


async def test_a_watch_that_has_lost_its_place_asks_for_a_list() -> None:
    changes = PendingChanges()
    assert not changes.take_gap()
    changes.listed([])
    await changes.wait()
    assert changes.take_gap()
    assert not changes.take_gap()


class SilentWatch(Watch):
    """A watch that is connected and delivers nothing."""

    def __init__(self) -> None:
        super().__init__(cast("ApiClient", None), PATH, {}, PendingChanges())
        self.begun_at: asyncio.Queue[str] = asyncio.Queue()

    async def run(self) -> None:
        self.begun_at.put_nowait(self.version)
        self.version = self.version or "9"  # it has listed
        await asyncio.Event().wait()


async def test_a_watch_that_lacks_a_listed_version_begins_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(watch, "STALLED_AFTER_S", 0.05)
    monkeypatch.setattr(watch, "LOOK_EVERY_S", 0.01)
    silent = SilentWatch()
    supervisor = WatchSupervisor([silent], PendingChanges())
    supervisor.expect(Listing([resource()], {PATH: "7"}, {PATH: 9}))
    running = asyncio.create_task(supervisor.run())
    assert [await silent.begun_at.get(), await silent.begun_at.get()] == ["7", ""]
    assert supervisor.stalled == 1
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)
