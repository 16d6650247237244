"""A backfill of declared schedules: its ticks flow through the graph, and maintenance creates its runs."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING

import pytest

from tests.schedules.schedules import MISFIRE_GRACE, claim, declared, definition, put, rows, runs
from wakeboard.actions.admin_api import AdminStore
from wakeboard.backfills.rules import BackfillRange, TickRules, backfill_range
from wakeboard.dependencies.dependents import enqueue_dependents
from wakeboard.engine.retention import Retention
from wakeboard.errors import InvalidValue
from wakeboard.maintenance import MaintenanceLoop
from wakeboard.settings import read_settings

if TYPE_CHECKING:
    from wakeboard.engine.maintenance_api import MaintenanceStore

pytestmark = pytest.mark.anyio

NOW = datetime(2026, 3, 1, tzinfo=UTC)


async def january(store: MaintenanceStore, name: str) -> BackfillRange:
    columns = "cron_fields, time_zone, dst_gap, dst_overlap"
    rules = TickRules(f"team/{name}", *await definition(store, name, columns))
    return backfill_range(rules, "2026-01-01", "2026-02-01", NOW)


async def test_a_backfill_flows_through_the_graph_once(store: MaintenanceStore) -> None:
    children = declared("transform", schedule=None, after=[{"schedule": "extract"}])
    await put(store, declared("extract", schedule="0 2 * * *"), children)
    wanted = await january(store, "extract")
    made = await AdminStore(store.conn).create_backfill(await definition(store, "extract", "id"), wanted, at_once=9)
    assert made.total == 31
    while await runs(store):
        for run, epoch in [*await claim(store), *await claim(store, limited=True)]:
            await rows(store, "select complete(7, %s, %s)", [run], [epoch])
        await enqueue_dependents(store)
    found = await rows(
        store, "select schedule, array_agg(scheduled_for order by scheduled_for) from all_runs group by 1"
    )
    assert dict(found) == {"team/extract": list(wanted.ticks), "team/transform": list(wanted.ticks)}


async def test_a_schedule_that_runs_after_others_has_no_ticks_of_its_own(store: MaintenanceStore) -> None:
    await put(store, declared("extract"), declared("transform", schedule=None, after=[{"schedule": "extract"}]))
    with pytest.raises(InvalidValue, match="backfill the schedules that it runs after"):
        await january(store, "transform")


async def test_the_maintenance_loop_continues_and_ends_a_backfill(store: MaintenanceStore) -> None:
    await put(store, declared("often", schedule="*/30 * * * *"))
    wanted = await january(store, "often")
    await AdminStore(store.conn).create_backfill(await definition(store, "often", "id"), wanted)
    assert len(await runs(store)) == 1000
    await rows(store, "select cancel(array(select id from job_runs order by id limit 900))")
    loop = MaintenanceLoop(misfire_grace=MISFIRE_GRACE, retention=Retention.from_settings(read_settings()))
    for now in (0.0, 1.0):
        assert (await loop.run_due(store, now)).failures == {}
    assert len(await runs(store)) == 31 * 48 - 900
    await rows(store, "select cancel(array(select id from job_runs))")
    assert (await loop.run_due(store, 2.0)).failures == {}
    assert await rows(store, "select true from backfills where finished_at is not null and cancelled_at is null")
