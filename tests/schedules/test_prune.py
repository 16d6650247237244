"""Schedules that are no longer declared are removed; a removal of many at once waits for confirmation."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.schedules.schedules import MISFIRE_GRACE, SOURCE, connected, declared, definition, put, rows
from wakeboard.actions.admin_api import AdminStore
from wakeboard.schedules.prune import needs_confirmation
from wakeboard.schedules.sync import sync

if TYPE_CHECKING:
    from wakeboard.engine.maintenance_api import MaintenanceStore
    from wakeboard.schedules.desired_schedule import DesiredSchedule

pytestmark = pytest.mark.anyio

HOLD = (
    "20 of 20 schedules of file:test are no longer declared, and none of them was removed: that many at once may be a"
    " mistake. To remove them, type: wakeboard confirm removal file:test"
)


def many(count: int = 20) -> list[DesiredSchedule]:
    return [declared(f"s{n:02}") for n in range(count)]


async def live(store: MaintenanceStore) -> int:
    return len(await rows(store, "select 1 from job_definitions where removed_at is null"))


async def test_what_is_no_longer_declared_is_removed_on_request(store: MaintenanceStore):
    await put(store, declared("a"), declared("b"))
    report = await put(store, declared("a"))
    assert (report.removed, report.missing) == ([], ["team/b"])
    assert await live(store) == 2
    report = await put(store, declared("a"), prune=True)
    assert (report.removed, report.missing, report.unchanged) == (["team/b"], [], ["team/a"])
    assert await definition(store, "b", "removed_at is not null, next_run_at") == (True, None)
    assert (await put(store, declared("a"), prune=True)).removed == []


async def test_unreadable_schedules_are_not_removed(store: MaintenanceStore):
    await put(store, declared("a"), declared("b"))
    report = await sync(store, SOURCE, [], prune=True, misfire_grace=MISFIRE_GRACE, spared={("team", "a")})
    assert report.removed == ["team/b"]


async def test_what_another_sync_brought_since_the_list_began_is_not_removed(store: MaintenanceStore, database: str):
    listed_at = await store.now()
    async with connected(database) as other:
        await put(other, declared("new"))
    report = await sync(store, SOURCE, [], prune=True, misfire_grace=MISFIRE_GRACE, listed_at=listed_at)
    assert (report.removed, report.missing) == ([], [])
    assert await live(store) == 1


@pytest.mark.parametrize(
    ("missing", "of", "held"),
    [(10, 10, False), (11, 11, True), (11, 54, True), (11, 55, False), (20, 100, False), (21, 100, True)],
)
def test_more_than_ten_and_more_than_a_fifth_need_a_confirmation(missing: int, of: int, held: bool):
    assert needs_confirmation(missing, of) is held


async def test_a_removal_of_nearly_everything_waits_and_names_the_command(store: MaintenanceStore):
    await put(store, *many())
    for _ in range(2):
        report = await put(store, declared("new"), prune=True)
        assert report.pending_removal in (HOLD, HOLD.replace("of 20", "of 21"))
        assert report.removed == []
        assert len(report.missing) == 20
    assert await live(store) == 21


async def test_a_removal_is_confirmed_for_exactly_one_list_and_once(store: MaintenanceStore):
    await put(store, *many())
    await put(store, prune=True)
    assert await AdminStore(store.conn).confirm_removal(SOURCE) == 20
    report = await put(store, prune=True)
    assert (len(report.removed), report.pending_removal) == (20, None)
    await put(store, *many())
    assert (await put(store, prune=True)).pending_removal


async def test_a_confirmation_of_a_removal_that_is_no_longer_wanted_is_deleted(store: MaintenanceStore):
    await put(store, *many())
    await put(store, prune=True)
    await AdminStore(store.conn).confirm_removal(SOURCE)
    await put(store, *many(), prune=True)  # they are back before anything was removed
    assert (await put(store, prune=True)).pending_removal
    assert await AdminStore(store.conn).confirm_removal(SOURCE) == 20


async def test_a_confirmation_is_valid_for_an_hour(store: MaintenanceStore):
    await put(store, *many())
    await put(store, prune=True)
    await AdminStore(store.conn).confirm_removal(SOURCE)
    await rows(store, "update pending_removals set confirmed_at = now() - interval '61 minutes'")
    assert (await put(store, prune=True)).pending_removal
