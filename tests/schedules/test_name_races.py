"""An application and a folder create a schedule of one name at the same time: neither sees the other."""

from __future__ import annotations

import json
from contextlib import AsyncExitStack
from typing import TYPE_CHECKING, Any

import pytest

import wakeboard
from tests.schedules.schedules import MISFIRE_GRACE, SOURCE, connected, declared, make_due, put, rows
from wakeboard.actions.admin_api import AdminStore
from wakeboard.dependencies.dependents import enqueue_dependents
from wakeboard.local.manifest_sync import ManifestSync
from wakeboard.local.messages import Problems, UpLine
from wakeboard.schedules import calls
from wakeboard.schedules.scheduler import NO_TICKS, plan_ticks, schedule_due_ticks
from wakeboard.store.reconnecting import ReconnectingConnection

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable
    from pathlib import Path

    from wakeboard.engine.maintenance_api import MaintenanceStore

pytestmark = pytest.mark.anyio

TAKEN = "the schedule team/a belongs to an application; write another name, or remove that one first"


async def by_application(store: MaintenanceStore) -> None:
    assert (await wakeboard.schedule(store.conn, "team/a", "ping", cron="0 0 1 1 *")).answer == "created"


async def by_folder(store: MaintenanceStore) -> None:
    assert (await put(store, declared("a"))).created == ["team/a"]


async def create_at_once(
    database: str,
    first: Callable[[MaintenanceStore], Awaitable[Any]],
    second: Callable[[MaintenanceStore], Awaitable[Any]],
) -> None:
    """Both create `team/a`: the transaction of `first` stays open until that of `second` is committed."""
    async with AsyncExitStack() as stack:
        one, other = [await stack.enter_async_context(connected(database)) for _ in range(2)]
        async with one.conn.transaction():
            await first(one)
            await second(other)


@pytest.mark.parametrize("folder_first", [False, True])
async def test_of_one_name_created_twice_at_once_the_application_runs(
    store: MaintenanceStore, database: str, folder_first: bool
):
    await create_at_once(database, *((by_folder, by_application) if folder_first else (by_application, by_folder)))
    for _ in range(2):
        await make_due(store)
        await schedule_due_ticks(store, misfire_grace=MISFIRE_GRACE)
    kept = "select source, schedule_error from job_definitions order by source"
    assert await rows(store, kept) == [("app", None), (SOURCE, TAKEN)]
    assert {
        source
        for (source,) in await rows(
            store, "select source from job_runs join job_definitions as def on def.id = definition_id"
        )
    } == {"app"}
    assert await rows(
        store,
        "select 1 from definition_changes where definition_id = (select id from job_definitions where source <> 'app')",
    )

    await wakeboard.unschedule(store.conn, "team/a")
    assert (await put(store, declared("a"))).updated == ["team/a"]
    await make_due(store)
    await schedule_due_ticks(store, misfire_grace=MISFIRE_GRACE)
    assert await rows(
        store, "select 1 from job_runs join job_definitions as def on def.id = definition_id where source <> 'app'"
    )


async def test_a_stopped_schedule_stays_so_for_a_scheduler_that_planned_before(store: MaintenanceStore, database: str):
    async def replacing(other: MaintenanceStore) -> None:
        await put(other, declared("a", concurrencyPolicy="Replace"))
        await make_due(other)
        await schedule_due_ticks(other, misfire_grace=MISFIRE_GRACE)

    await create_at_once(database, by_application, replacing)
    await make_due(store)
    ((id_,),) = await rows(store, "select id from job_definitions where source <> 'app'")
    due = await calls.due_definitions(store)
    plans = [plan_ticks(each, misfire_grace=MISFIRE_GRACE) for each in due if each.id == id_]
    for _ in range(2):
        assert await calls.enqueue_due_ticks(store, plans) == NO_TICKS
    assert await rows(store, "select schedule_error from job_definitions where source <> 'app'") == [(TAKEN,)]
    assert await rows(store, "select status from all_runs where definition_id = %s", id_) == [("queued",)]


async def test_the_next_sync_names_a_schedule_that_an_application_has_too(store: MaintenanceStore, database: str):
    await create_at_once(database, by_application, by_folder)
    report = await put(store, declared("a"))
    assert (report.failed, report.unchanged) == ({"team/a": TAKEN}, [])
    assert await rows(store, "select schedule_error from job_definitions where source <> 'app'") == [(TAKEN,)]


async def test_a_schedule_that_runs_after_another_stops_too(store: MaintenanceStore, database: str):
    parent, child = declared("parent"), declared("a", schedule=None, after=[{"schedule": "parent", "outcome": "Ended"}])

    async def pipeline(other: MaintenanceStore) -> None:
        assert (await put(other, parent, child)).created == ["team/a", "team/parent"]

    await create_at_once(database, by_application, pipeline)
    await make_due(store, "parent")
    await schedule_due_ticks(store, misfire_grace=MISFIRE_GRACE)
    await rows(
        store, "select finish_runs(array_agg(id), 'succeeded', null) from job_runs where schedule = 'team/parent'"
    )
    await enqueue_dependents(store)
    assert await rows(store, "select 1 from job_runs") == []
    await wakeboard.unschedule(store.conn, "team/a")
    await put(store, parent, child)
    await enqueue_dependents(store)
    assert await rows(store, "select schedule from job_runs") == [("team/a",)]


async def test_up_does_not_repeat_a_sync_that_fails_for_good(
    database: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    def no_row(*_: Any) -> Any:
        raise ValueError("its ticks cannot be computed")

    monkeypatch.setattr("wakeboard.schedules.sync.definition_row", no_row)
    manifest = {"kind": "JobSchedule", "metadata": {"name": "a", "namespace": "team"}, "spec": {"jobType": "ping"}}
    (tmp_path / "a.yaml").write_text(json.dumps({"apiVersion": "wakeboard.dev/v1alpha1", **manifest}))
    lines: list[str] = []

    def emit(line: UpLine) -> None:
        lines.append(line.text)

    connection = ReconnectingConnection(database, "up", AdminStore)
    try:
        assert await ManifestSync(tmp_path, connection, Problems(emit), emit=emit).sync(MISFIRE_GRACE)
    finally:
        await connection.close()
    assert "team/a is not scheduled: ValueError: its ticks cannot be computed." in lines


async def test_up_declares_a_schedule_once_its_name_is_free(store: MaintenanceStore, database: str, tmp_path: Path):
    manifest = {"kind": "JobSchedule", "metadata": {"name": "a", "namespace": "team"}, "spec": {"jobType": "ping"}}
    (tmp_path / "a.yaml").write_text(json.dumps({"apiVersion": "wakeboard.dev/v1alpha1", **manifest}))
    await by_application(store)
    lines: list[str] = []

    def emit(line: UpLine) -> None:
        lines.append(line.text)

    connection = ReconnectingConnection(database, "up", AdminStore)
    up = ManifestSync(tmp_path, connection, Problems(emit), emit=emit)
    try:
        assert [await up.sync(MISFIRE_GRACE) for _ in range(2)] == [False, False]
        await wakeboard.unschedule(store.conn, "team/a")
        assert await up.sync(MISFIRE_GRACE)
    finally:
        await connection.close()
    folder, refused = tmp_path.name, f"team/a is not scheduled: {TAKEN}."
    assert lines == [
        refused,
        f"{folder}: 0 schedules, unchanged.",
        f"resolved: {refused}",
        f"{folder}: 1 schedule, 1 created.",
    ]


async def test_up_says_that_a_tick_has_stopped_a_schedule(store: MaintenanceStore, database: str, tmp_path: Path):
    spec = {"jobType": "ping", "schedule": "0 0 1 1 *"}
    manifest = {"kind": "JobSchedule", "metadata": {"name": "a", "namespace": "team"}, "spec": spec}
    (tmp_path / "a.yaml").write_text(json.dumps({"apiVersion": "wakeboard.dev/v1alpha1", **manifest}))
    lines: list[str] = []

    def emit(line: UpLine) -> None:
        lines.append(line.text)

    connection = ReconnectingConnection(database, "up", AdminStore)
    up = ManifestSync(tmp_path, connection, Problems(emit), emit=emit)

    async def by_up(_: MaintenanceStore) -> None:
        assert await up.sync(MISFIRE_GRACE)

    try:
        await create_at_once(database, by_application, by_up)
        assert not await up.is_stopped_by_a_tick()
        await make_due(store)
        await schedule_due_ticks(store, misfire_grace=MISFIRE_GRACE)
        assert await up.is_stopped_by_a_tick()
        assert not await up.sync(MISFIRE_GRACE)
        assert not await up.is_stopped_by_a_tick()
        await wakeboard.unschedule(store.conn, "team/a")
        assert await up.sync(MISFIRE_GRACE)
    finally:
        await connection.close()
    refused = f"team/a is not scheduled: {TAKEN}."
    assert [line for line in lines if "is not scheduled" in line] == [refused, f"resolved: {refused}"]
    assert await rows(store, "select schedule_error from job_definitions where source <> 'app'") == [(None,)]
