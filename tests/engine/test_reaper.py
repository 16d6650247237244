"""The reaper calls `reap` until the last lease is checked. `tests/store/test_reaping.py` tests the SQL function."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.schedules.schedules import history, rows, runs
from wakeboard.engine.reaper import ReapCounts, reap

if TYPE_CHECKING:
    from wakeboard.engine.maintenance_api import MaintenanceStore

pytestmark = pytest.mark.anyio


async def enqueue(store: MaintenanceStore, count: int = 1) -> None:
    await rows(store, "select enqueue('ping') from generate_series(1, %s)", count)


async def test_only_what_did_not_begin_in_time_is_skipped(store: MaintenanceStore):
    await enqueue(store, 2500)
    await rows(store, "update job_runs set start_before = now() - interval '1 s'")
    await rows(
        store, "update job_runs set started_at = now() where id = (select min(id) from job_runs)"
    )  # it will be retried
    assert await reap(store) == ReapCounts(too_late=2499)
    assert await runs(store) == ["queued"]
    assert set(await history(store, columns="status::text, reason")) == {("skipped", "TooLate")}


async def test_a_missing_partition_does_not_keep_late_runs_alive(store: MaintenanceStore):
    await enqueue(store)
    await rows(store, "update job_runs set start_before = now() - interval '1 s'")
    await rows(
        store,
        "do $$ declare part text; begin for part in select inhrelid::regclass from pg_inherits"
        " where inhparent = 'job_run_history'::regclass loop execute 'drop table ' || part; end loop; end $$",
    )
    assert (await reap(store)).too_late == 1
